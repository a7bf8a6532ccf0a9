"""The half messages of this broker: which are undecided, what became of the others, how far both topics are done.

Shared by `end.py` (which decides), `check.py` (which asks) and `carry.py`. Everything here is derived from the half and
op topics, but for the number of checks (`undecided.py`). States change by `ledger.move` alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from ... import logs
from ...ambient import Clock
from ...kernel.records import Placed
from ...model.names import HALF_TOPIC, OP_HALF_TOPIC
from ...protocol.record import Record
from ...store.message_store import MessageStore
from ...store.tables.json_tables import JsonTable
from ..intake.intake import Intake
from ..loop_quarantine import LoopQuarantine
from ..metadata.offsets import Offsets
from .half_records import op_offsets
from .half_topics import HalfTopics
from .ops import OpMessages
from .states import REMEMBERED, Event, Ledger
from .undecided import Half, UndecidedHalves, half_of

log = logs.get("pyromq.broker")

REMEMBERED_COPIES = 100_000
LOGGED_APART = 100  # of those that one deletion took; of the others only the number is logged


class _Op(NamedTuple):
    offset: int
    last_half: int


class Halves:
    """Event loop only."""

    def __init__(
        self,
        store: MessageStore,
        intake: Intake,
        offsets: Offsets,
        checks: JsonTable,
        quarantine: LoopQuarantine,
        store_host: bytes,
        clock: Clock,
    ) -> None:
        self.quarantine = quarantine
        self.undecided = UndecidedHalves(checks)
        self.ops = OpMessages(intake, clock, store_host)
        self.lost = 0  # whose record went, or cannot be read, while they were undecided
        self._topics = HalfTopics(store, offsets, clock)
        self._reading = asyncio.Lock()
        self._copies: dict[int, Half] = {}  # offset of one that was put again -> the copy
        self._ops_read: deque[_Op] = deque()
        self._next_op = self._topics.start_of(OP_HALF_TOPIC)
        self._ops_went = self._next_op > (self._topics.committed(OP_HALF_TOPIC) or 0)
        self._next_half = self._topics.start_of(HALF_TOPIC, REMEMBERED)
        self.ledger = Ledger(self._next_half)

    # --- reading --------------------------------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Read what is new in both topics."""
        async with self._reading:
            async for ops in self._topics.portions(OP_HALF_TOPIC, self._next_op, lambda offset: True):
                for offset, record in ops.records.items():
                    self._read_op(offset, record)
                self._next_op = ops.end
            first = self._topics.first_half()
            if first is None:
                return
            if first > self.ledger.first:
                self._lose_below(first)
            self._next_half = max(self._next_half, first)
            async for halves in self._topics.portions(HALF_TOPIC, self._next_half, self.ledger.is_undecided):
                for offset in range(halves.start, halves.end):
                    if self.ledger.is_undecided(offset) and self.undecided.get(offset) is None:
                        self._read_half(offset, halves.records.get(offset))
                self._next_half = halves.end

    def _read_op(self, number: int, record: Record) -> None:
        try:
            decided = op_offsets(record.body)
        except Exception as fault:
            self.quarantine.put(record, fault)
            decided = []
        for offset in decided:
            if self.ledger.is_undecided(offset):
                self.ledger.move(offset, Event.NOTED)
                self.undecided.remove(offset)
        self._ops_read.append(_Op(number, max(decided, default=-1)))

    def _read_half(self, offset: int, record: Record | None) -> None:
        if record is None:
            self.lost += 1
            log.error("A HALF MESSAGE IS DAMAGED AND LEFT OUT", queue_offset=offset, lost=self.lost)
        elif record.physical_offset not in self.quarantine:
            try:
                self._add(half_of(record, self.undecided.checks_of(offset)))
            except Exception as fault:
                self.quarantine.put(record, fault)
            else:
                return
        self.ledger.move(offset, Event.LEFT_OUT)

    def _add(self, half: Half) -> None:
        """Add one that was read. A copy takes the place of its original, where a kill lost the note about that."""
        original = self.undecided.original_of(half)
        if original is None or not self.ledger.is_undecided(original.offset):
            self.undecided.add(half)
            return
        half.checks = max(half.checks, original.checks)
        self._replace(original, half)
        self.ops.owe(original.offset)

    # --- what cannot be ended any more ----------------------------------------------------------------------------

    def _lose_below(self, start: int) -> None:
        """Give up what was undecided in log files that went. It was carried forward, unless somebody forced them out.

        One whose end is being stored is not lost: it leaves when that is done.
        """
        below = [half for half in self.undecided.all() if half.offset < start]
        known = [half for half in below if self.ledger.is_undecided(half.offset)]
        unseen = sum(map(self.ledger.is_undecided, range(self._next_half, start)))
        self.ledger.skip_to(start)
        for half in known:
            self.ledger.move(half.offset, Event.LEFT_OUT)
            self.undecided.remove(half.offset)
        if not known and not unseen:
            return
        self.lost += len(known) + unseen
        for half in known[:LOGGED_APART]:
            log.error("A HALF MESSAGE IS LOST", id=half.unique, topic=half.topic, group=half.group)
        log.error(
            "HALF MESSAGES ARE LOST: their log file went while they were undecided",
            messages=len(known) + unseen,
            lost=self.lost,
            perhaps_fewer=self._ops_went,
        )

    def leave_out_unreadable(self, half: Half) -> None:
        self.lost += 1
        log.error(
            "A HALF MESSAGE CANNOT BE READ AND IS LEFT OUT",
            position=half.position,
            id=half.unique,
            topic=half.topic,
            group=half.group,
            lost=self.lost,
        )
        self._leave_out(half)

    def put_into_quarantine(self, half: Half, why: Exception) -> None:
        """Leave out one that cannot be handled, unless it was ended meanwhile. Raise what is not its own fault."""
        self.quarantine.put_at(half.position, half.size, HALF_TOPIC, 0, why)
        if self.ledger.is_undecided(half.offset):
            self._leave_out(half)

    def _leave_out(self, half: Half) -> None:
        self.ledger.move(half.offset, Event.LEFT_OUT)
        self.undecided.remove(half.offset)
        self.ops.owe(half.offset)

    # --- decisions and progress -----------------------------------------------------------------------------------

    def carried_out(self, offset: int) -> None:
        """Forget one whose decision is stored, and note it in the op topic with the others of this turn."""
        self.undecided.remove(offset)
        self.ops.gather(offset)

    async def save_progress(self) -> None:
        """Move the offsets of both topics past what is decided, once the decisions are on the medium."""
        if not self.ops.are_put:
            return
        async with self._reading:
            first = self.ledger.advance(self._next_half)
            await self._topics.flush_log()
            first = min(first, self.ledger.first)  # an end may have been undone meanwhile
            while self._ops_read and self._ops_read[0].last_half < first:
                self._ops_read.popleft()
            self._topics.commit(first, self._ops_read[0].offset if self._ops_read else self._next_op)
            self.undecided.forget_checks_below(first)

    # --- copies ---------------------------------------------------------------------------------------------------

    def copied(self, half: Half, copy: Placed) -> None:
        """Let the copy that was put there stand for an undecided one, and note that in the op topic."""
        self._replace(
            half, replace(half, offset=copy.queue_offset, position=copy.position, size=copy.size, is_copy=True)
        )
        self.ops.gather(half.offset)

    def _replace(self, half: Half, copy: Half) -> None:
        self.ledger.move(half.offset, Event.COPIED)
        self.undecided.remove(half.offset)
        self.undecided.add(copy)
        if copy.checks:
            self.undecided.count_checks(copy, copy.checks)
        self._copies[half.offset] = copy
        if len(self._copies) > REMEMBERED_COPIES:
            del self._copies[next(iter(self._copies))]

    def stands_for(self, offset: int, position: int) -> tuple[int, int]:
        """Return offset and position of the copy that an end of this one means; the same if there is none."""
        while (copy := self._copies.get(offset)) is not None:
            offset, position = copy.offset, copy.position
        return offset, position

    def open_by_topic(self) -> Mapping[str, int]:
        return self.undecided.by_topic
