"""Popping: handing out single messages for a time, and everything that belongs to it."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any

from ...kernel import state
from ...protocol.requests import RequestCode as Code
from ...transport.dispatch import Handler, bind
from ...transport.peer import Peer
from ..pop.ack import AckHandler
from ..pop.aging import Aging
from ..pop.change import ChangeHandler
from ..pop.checks import PopChecks
from ..pop.handler import PopHandler
from ..pop.journal import PopJournal
from ..pop.lane_source import LaneSource
from ..pop.lanes import Lanes
from ..pop.receipts import ReceiptChecks
from ..pop.recovery import PopRecovery
from ..pop.revive import Revive
from ..pop.rollback import roll_back
from ..pop.walk import Walk
from .foundation import Foundation
from .serving import PullParts, SendParts

BASE_S = 1.0


class PopParts:
    """Event loop only. `recover` once, before the first pop arrives."""

    def __init__(self, base: Foundation, sends: SendParts, pulls: PullParts) -> None:
        live, clock, store, access = base.live, base.clock, base.store, sends.access
        self._base = base
        self.table = state.PopTable(base.environment.config.pop_table_bytes)
        self.journal = PopJournal(live, access, self.table)
        self.lanes = Lanes(self.table, base.offsets, self.journal)
        source = LaneSource(live, store, pulls.reads, self.lanes, base.counters.got, self._in_flight)
        self.handler = PopHandler(
            live,
            clock,
            PopChecks(base.topics, base.groups),
            Walk(live, base.topics),
            source,
            self.journal,
            store,
            base.environment.rng.randrange,
        )
        receipts = ReceiptChecks(base.topics, store)
        self.acks = AckHandler(live, receipts, self.lanes)
        self.changes = ChangeHandler(live, clock, receipts, self.lanes)
        self.revive = Revive(live, access, self.lanes, base.topics, base.groups)
        self.aging = Aging(live, clock, self.lanes)
        self._recovery = PopRecovery(access, self.lanes)
        self._saved_offset = 0  # of the journal, when the offsets that are on disk were read
        base.groups.watch(self._group_changed)

    def handlers(self) -> Iterator[tuple[int, Handler]]:
        """Return what `surface.py` binds: a code whose handler is not here yet keeps its row's refusal."""
        yield bind(Code.POP_MESSAGE, self.handler)
        yield bind(Code.ACK_MESSAGE, self.acks)
        yield bind(Code.BATCH_ACK_MESSAGE, self.acks.batch)
        yield bind(Code.CHANGE_MESSAGE_INVISIBLETIME, self.changes)
        yield bind(Code.POP_ROLLBACK, roll_back)

    def _in_flight(self, lane: int) -> int:
        group = self.table.names(lane)[0]
        return sum(one.messages for one in self.table.in_flight(group) if one.lane == lane)

    # --- what happens ---------------------------------------------------------------------------------------------

    def connection_lost(self, peer: Peer) -> None:
        self.handler.held.drop(peer)

    def topic_changed(self, name: str) -> None:
        """Answer who waits on a topic that is gone or may not be read any more, so that they ask again."""
        self.handler.held.end_pairs(lambda topic, _: topic == name)

    def _group_changed(self, name: str) -> None:
        if self._base.groups.find(name) is None:
            self.lanes.close_all(lambda group, _: group == name)
        self.handler.held.end_pairs(lambda _, group: group == name)

    # --- start and stop -------------------------------------------------------------------------------------------

    async def recover(self) -> None:
        await self._recovery.run()

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        environment = self._base.environment
        return [
            environment.loops.keep("revival of popped messages", self.revive.run),
            environment.loops.keep("old check points", self.aging.run),
            environment.loops.keep("base of the pop journal", self._keep_base),
            environment.loops.keep("offsets of the pop journal", self._keep_saved),
        ]

    async def _keep_base(self) -> None:
        """Tell where a replay has to begin, each second in which anything has changed."""
        stirred, clock = self.journal.stirred(), self._base.clock
        while True:
            await stirred.wait()
            await clock.sleep(BASE_S)
            self.journal.flush()
            is_new = self.table.note_base(self.journal.next_offset, self._saved_offset)
            stirred.clear()
            if is_new:
                self.journal.flush()

    async def _keep_saved(self) -> None:
        """Note from where on the journal is needed, since committed offsets are on disk up to there."""
        environment, stirred = self._base.environment, self.journal.stirred()
        while True:
            await stirred.wait()
            stirred.clear()
            await environment.clock.sleep(environment.config.flush_consumer_offset_interval / 1000)
            await self._save_offsets()

    async def _save_offsets(self) -> None:
        self.journal.flush()
        before = self.journal.next_offset
        if before > self._saved_offset:
            await self._base.tables.offsets_saved()
            self._saved_offset = before

    def end_waits(self) -> None:
        """Answer all that wait: the broker stops."""
        self.handler.held.end_all()
        self.journal.flush()

    async def close(self) -> None:
        """Let everything that is in flight leave memory: as records of the log, or at least in the journal."""
        await self.aging.leave_all()
        self.journal.flush()
