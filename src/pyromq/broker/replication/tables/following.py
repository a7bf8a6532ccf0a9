"""A follower of an elected set keeps its tables like its master's: it takes their changes from the log.

What is taken is confirmed, so that no other member can lack it, and on this member's medium, so that its tables are
never ahead of its own log. Records are taken in order, each once; how far that is goes to disk behind the tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial

from .... import logs
from ....ambient import Clock, RunBlocking
from ....errors import PyroError
from ....protocol.replication.table_records import TableRecordRefused
from ....store.message_store import MessageStore
from ....store.tables.json_tables import TableDamaged
from .fold import Fold, ReplicaTable
from .note import LastRole, TablesNote
from .state_queue import StateQueue
from .takeover import where_to_begin

log = logs.get("pyromq.broker")

AT_ONCE = 64  # records before others get their turn
NOTED_EVERY_S = 5.0
AGAIN_S = 5.0
REPEAT_S = 60.0  # what stays wrong is said again and again


class TableFollowing:
    """Event loop only. `saved` returns once the tables are on disk as they are now."""

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        note: TablesNote,
        tables: Mapping[str, ReplicaTable],
        saved: Callable[[], Awaitable[None]],
        run_blocking: RunBlocking,
    ) -> None:
        self._store, self._clock, self._note, self._run_blocking = store, clock, note, run_blocking
        self._limited = logs.Limited(log, clock, REPEAT_S)
        self._queue = StateQueue(store)
        self._tables, self._saved = tables, saved
        self._fold: Fold | None = None
        self._confirmed = 0
        self._woken = asyncio.Event()
        self.position = 0  # of the record that is being taken
        self.trouble: str | None = None  # why no more records are taken
        if note.role is not LastRole.LEADS:  # what it led with is not what the log says
            note.write(LastRole.FOLLOWED, note.offset, note.timers_doubtful)
        elif not note.timers_doubtful:
            note.write(LastRole.LEADS, note.offset, True)

    @property
    def next_offset(self) -> int | None:
        """Return the offset of the next record to take; None: the tables are not the set's yet."""
        return None if self._fold is None else self._fold.next

    def confirm(self, position: int) -> None:
        """Note that the set has the log up to here, as the master has told on a stream of its epoch."""
        if position > self._confirmed:
            self._confirmed = position
            if self._fold is None or self._queue.end > self._fold.next:
                self._woken.set()

    async def run(self) -> None:
        """Take records as they are confirmed, until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self.take_confirmed()
                self.trouble = None
            except (TableRecordRefused, TableDamaged) as fault:
                self.trouble = f"changes of the master's tables are not taken any more: {fault}"
                self._limited.warning("changes of the master's tables are not taken any more", why=str(fault))
                await self._clock.sleep(AGAIN_S)
                self._woken.set()

    async def take_confirmed(self) -> None:
        """Take what is confirmed and was not taken yet."""
        end = self._queue.end_before(self._confirmed)
        if self._fold is None:
            begin = where_to_begin(self._note, self._queue, end)
            if begin is None:
                return  # no whole snapshot is here yet
            self._fold = Fold(self._tables, begin)
        if self._fold.next >= end:
            return
        await self._store.flush_log()
        for number in range(self._fold.next, end):
            record = await self._queue.fetch(number)
            self.position = self._queue.position_of(number)
            self._fold.take(number, record)
            if number % AT_ONCE == 0:
                await self._clock.sleep(0)

    async def keep_noted(self) -> None:
        """Note every few seconds how far the tables on disk are, until cancelled."""
        while True:
            await self._clock.sleep(NOTED_EVERY_S)
            with suppress(PyroError):  # who writes the table says what is wrong
                await self.note_progress()

    async def note_progress(self) -> None:
        """Write the tables, and then how far they are."""
        if self._fold is None:
            return
        offset = self._fold.goes_on_at
        if offset != self._note.offset or self._note.role is not LastRole.FOLLOWED:
            await self._saved()
            write = partial(self._note.write, LastRole.FOLLOWED, offset, self._note.timers_doubtful)
            await self._run_blocking(write)
