"""The tables of an elected set, which its log carries: a master writes their changes there, a follower takes them."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from ...errors import PyroError
from ...model.names import STATE_TOPIC
from ..intake.intake import LogAccess
from ..replication.tables.carried import CARRIED
from ..replication.tables.following import TableFollowing
from ..replication.tables.note import LastRole, TablesNote
from ..replication.tables.recorder import TableRecorder
from ..replication.tables.replica_tables import ReplicaFile
from ..replication.tables.state_queue import StateQueue
from .delivery import TimingParts
from .foundation import Foundation

GATHERED_S = 1.0
CONFIRM_S = 60.0  # that a log file waits for the set to have what was carried forward from it
NO_PERMISSION = 0


class MasterTables:
    """Of the member that leads. Event loop only. `begin` before anybody is served."""

    def __init__(self, base: Foundation, timing: TimingParts, access: LogAccess, recorder: TableRecorder) -> None:
        self._base, self._timing, self._access, self._recorder = base, timing, access, recorder

    async def begin(self) -> None:
        """Write down what is new; the log has all tables then. What was in the log before is the set's first."""
        await self._timing.begin_to_lead(self._base.timers_doubtful)
        self._base.topics.ensure(STATE_TOPIC, 1, NO_PERMISSION)
        if self._base.access.leaders is not None:
            self._base.access.leaders.put_all()
        await self._recorder.begin(self._access, self._base.offsets.left_by_java)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._base.environment.loops.keep("changes of tables", self._gather)]

    async def _gather(self) -> None:
        """Write what changed of offsets and progress, each second; and all tables, now and then."""
        while True:
            await self._base.clock.sleep(GATHERED_S)
            with suppress(PyroError):  # a full disk: it is tried with the next ones, and the store says so
                await self.gather()

    async def gather(self) -> None:
        await self._base.tables.store_offsets()
        self._timing.store_progress()
        self._recorder.put()
        if self._recorder.wants_snapshot:
            await self._recorder.write_snapshot()

    async def carry(self, start: int, end: int) -> None:
        """Let a log file go only when the set has all that was carried forward from it, and a snapshot of the tables.

        PyroError: it has not. A member that lost this file and then had those copies cut off would lack both."""
        await self._recorder.carry(start, end)
        try:
            async with self._base.clock.timeout(CONFIRM_S):
                await self._base.store.readable.reached(self._base.store.appended.value)
        except TimeoutError:
            raise PyroError("the set has not confirmed what was carried forward from a log file") from None

    def leave(self) -> None:
        """Let nobody wait for the set any more."""
        self._recorder.leave()

    def stopped(self) -> None:
        """Note, once the tables are written, that they are what the log says, if the set has all of it. Blocking."""
        store = self._base.store
        if self._recorder.is_idle and store.readable.value >= store.commit_log.end:
            TablesNote(self._base.environment.disk).write(LastRole.LED, StateQueue(store).end, False)


class FollowerTables:
    """Of a member that follows. Event loop only. The stream of its master calls `following.confirm`."""

    def __init__(self, base: Foundation, timing: TimingParts) -> None:
        self._base, self._timing = base, timing
        self._saves = base.environment.carried_tables()
        known = base.replica_tables(lambda: self.following.position)
        files = {
            name: ReplicaFile(self._saves[name].table, self._saves[name].changed)
            for name in CARRIED
            if name not in known
        }
        note = TablesNote(base.environment.disk)
        self.following = TableFollowing(
            base.store, base.clock, note, {**known, **files}, self._saved, base.environment.run_blocking
        )
        timing.follow_counts()

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        keep = self._base.environment.loops.keep
        return [
            keep("the set's tables", self.following.run),
            keep("how far the set's tables are", self.following.keep_noted),
        ]

    async def _saved(self) -> None:
        await self._base.tables.store_offsets()
        for save in self._saves.values():
            await save.saved()
        await self._base.access.saved()

    async def close(self) -> None:
        """Write the tables, and how far they are."""
        with suppress(PyroError):  # the next start takes the last records again
            await self.following.note_progress()
        for save in self._saves.values():
            await save.close()
