"""The half messages of this broker: which are undecided, what became of the others, how far both topics are done.

Shared by `end.py` (which decides), `check.py` (which asks) and `survival.py`. Everything here is derived from the half
and op topics, but for the number of checks (`undecided.py`). States change by `ledger.move` alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import NamedTuple

from ... import logs
from ...kernel.records import Placed
from ...model.names import HALF_TOPIC, OP_HALF_TOPIC
from ...protocol.record import Record, decode_record
from ...store.log.reader import GetStatus
from ...store.log.retention import RetentionConfig
from ...store.tables.json_tables import JsonTable
from ..config import BrokerConfig
from ..intake.intake import LogAccess
from ..loop_quarantine import LoopQuarantine
from ..metadata.offsets import Offsets
from .half_records import op_offsets
from .ops import OpMessages
from .states import REMEMBERED, Event, Ledger
from .undecided import Half, UndecidedHalves, half_of

log = logs.get("pyromq.broker")

GROUP = "CID_RMQ_SYS_TRANS"  # whose offsets say how far both topics are done; each has one queue
AT_ONCE = 256
BYTES_AT_ONCE = 4 << 20
REMEMBERED_COPIES = 100_000
# Undecided messages, and half messages that came after one of them: with more, each round counts, as in Java.
# Each takes memory, and is read at the next start.
MOST_WAITING, MOST_BEHIND = 100_000, 1_000_000
LOGGED_APART = 100  # of those that one deletion took; of the others only the number is logged
_HOUR_MS = 3_600_000


def longest_wait_ms(config: BrokerConfig) -> int:
    """Return the age at which an undecided message waits no longer: that of the log. Slow, so a round asks once."""
    return config.part(RetentionConfig).file_reserved_hours * _HOUR_MS


class _Portion(NamedTuple):
    records: dict[int, Record]  # by offset; damaged ones and those that were not wanted are left out
    start: int
    end: int


class _Op(NamedTuple):
    offset: int
    last_half: int


class Halves:
    """Event loop only."""

    def __init__(self, access: LogAccess, offsets: Offsets, checks: JsonTable, quarantine: LoopQuarantine) -> None:
        self.access = access
        self.quarantine = quarantine
        self.undecided = UndecidedHalves(checks)
        self.ops = OpMessages(access)
        self.lost = 0  # whose record went, or cannot be read, while they were undecided
        self._offsets = offsets
        self._reading = asyncio.Lock()
        self._copies: dict[int, Half] = {}  # offset of one that was put again -> the copy
        self._ops_read: deque[_Op] = deque()
        self._next_op = self._start_of(OP_HALF_TOPIC)
        self._ops_went = self._next_op > (offsets.find(OP_HALF_TOPIC, GROUP, 0) or 0)
        self._next_half = self._start_of(HALF_TOPIC, REMEMBERED)
        self.ledger = Ledger(self._next_half, self.undecided.checks)

    def _start_of(self, topic: str, before: int = 0) -> int:
        """Return the committed offset, where reading begins.

        If the queue now begins behind it, at most `before` offsets in front of its beginning: the loss is noticed.
        """
        queue, saved = self.access.store.queues.get(topic, 0), self._offsets.find(topic, GROUP, 0)
        if queue is None:
            return saved or 0
        first = queue.min_offset
        return first if saved is None else min(max(saved, first - before), queue.next_offset)

    def count_of_topic(self, name: str) -> int:
        return self.undecided.by_topic[name]

    def count_of_group(self, name: str) -> int:
        return self.undecided.by_group[name]

    # --- reading --------------------------------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Read what is new in both topics."""
        async with self._reading:
            async for ops in self._portions(OP_HALF_TOPIC, self._next_op, lambda offset: True):
                for offset, record in ops.records.items():
                    self._read_op(offset, record)
                self._next_op = ops.end
            queue = self.access.store.queues.get(HALF_TOPIC, 0)
            if queue is None:
                return
            if queue.min_offset > self.ledger.first:
                self._lose_below(queue.min_offset)
            self._next_half = max(self._next_half, queue.min_offset)
            async for halves in self._portions(HALF_TOPIC, self._next_half, self.ledger.is_undecided):
                for offset in range(halves.start, halves.end):
                    if self.ledger.is_undecided(offset) and self.undecided.get(offset) is None:
                        self._read_half(offset, halves.records.get(offset))
                self._next_half = halves.end

    async def _portions(self, topic: str, offset: int, is_wanted: Callable[[int], bool]) -> AsyncIterator[_Portion]:
        """Read everything readable from an offset on, portion by portion. What is not wanted is not read."""
        store = self.access.store
        while True:
            selection = await store.select(topic, 0, offset, max_count=AT_ONCE, max_bytes=BYTES_AT_ONCE, scan=AT_ONCE)
            found: dict[int, Record] = {}
            if selection.status is GetStatus.FOUND:
                wanted = [one for one in selection.ranges if is_wanted(one.queue_offset)]
                part = await store.read(replace(selection, ranges=wanted)) if wanted else []
                found = {record.queue_offset: record for record in map(decode_record, part)}
            if selection.next_offset <= offset:
                return
            yield _Portion(found, offset, selection.next_offset)
            offset = selection.next_offset
            await self.access.clock.sleep(0)  # what is in the page cache is read without a pause, and may be very much

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

    def may_wait(self, half: Half) -> bool:
        """Return whether a round without an answer may go uncounted: not while too many would have to be remembered."""
        return len(self.undecided) <= MOST_WAITING and self._next_half - half.offset <= MOST_BEHIND

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
            await self.access.store.flush_log()
            first = min(first, self.ledger.first)  # an end may have been undone meanwhile
            while self._ops_read and self._ops_read[0].last_half < first:
                self._ops_read.popleft()
            # What lies before the two offsets need not be read at the next start.
            self._offsets.commit(HALF_TOPIC, GROUP, 0, first)
            first_op = self._ops_read[0].offset if self._ops_read else self._next_op
            self._offsets.commit(OP_HALF_TOPIC, GROUP, 0, first_op)
            self.undecided.forget_checks_below(first)

    # --- copies ---------------------------------------------------------------------------------------------------

    def copied(self, half: Half, copy: Placed) -> None:
        """Let the copy that was put there stand for an undecided one, and note that in the op topic."""
        if not self.ledger.is_undecided(half.offset):  # it was ended in the same moment: nobody needs the copy
            self.ledger.move(copy.queue_offset, Event.LEFT_OUT)
            self.ops.gather(copy.queue_offset)
            return
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
