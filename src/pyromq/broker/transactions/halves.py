"""The half messages of this broker: which are undecided, how often they were checked, how far the queues are done.

Shared by `end.py` (which decides) and `check.py` (which asks). Everything here is derived from the half and op topics;
only the number of checks has a table of its own, since asking must not write the message again.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from ... import logs
from ...ambient import Clock
from ...kernel.records import Placed
from ...model.message import Property
from ...model.names import HALF_TOPIC, OP_HALF_TOPIC
from ...model.wire_text import INT_MAX, LONG_MAX, whole_number
from ...protocol.properties import decode_properties
from ...protocol.record import Record, decode_record
from ...store.log.reader import GetStatus
from ...store.message_store import MessageStore
from ...store.tables.json_tables import Table
from ..intake.intake import Intake, Outcome
from ..loop_quarantine import LoopQuarantine
from ..metadata.offsets import Offsets
from ..metadata.table_content import numbered, section
from .park import op, op_offsets
from .states import REMEMBERED, Ledger, State

log = logs.get("pyromq.broker")

GROUP = "CID_RMQ_SYS_TRANS"
AT_ONCE = 256
BYTES_AT_ONCE = 4 << 20
OFFSETS_IN_OP = 200  # about 4 KB, as in Java
CHECKS = "checks"
REMEMBERED_COPIES = 100_000
_LONGEST_IMMUNITY_S = LONG_MAX // 1000  # as milliseconds it must still be a long
TOLD_APART = 100  # of those that one deletion took, the others are told of by their number


@dataclass(slots=True)
class Half:
    """One undecided message."""

    offset: int
    position: int
    born_ms: int
    immune_ms: int | None  # the message's own, None: the broker's
    group: str
    topic: str
    unique: str | None
    checks: int
    size: int
    is_copy: bool  # of an earlier one: only those say in themselves how often it was checked


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
        checks: Table,
        quarantine: LoopQuarantine,
        store_host: bytes,
        clock: Clock,
    ) -> None:
        self._store = store
        self._intake = intake
        self._offsets = offsets
        self._checks_table = checks
        self.quarantine = quarantine
        self._store_host = store_host
        self._clock = clock
        self._counts = numbered(int, section(checks.load(), CHECKS), f"{CHECKS} in {checks.name}")
        self.undecided: dict[int, Half] = {}
        self._by_unique: dict[str, int] = {}  # of the undecided
        self._by_topic: Counter[str] = Counter()  # of the undecided
        self._carried: dict[int, Half] = {}  # offset of the copy that is gone -> what stands for it
        self._looking = asyncio.Lock()
        self._owed: list[int] = []  # decided, but the op could not be stored
        self._gathered: list[int] = []  # decided, the op is put at the end of this turn
        self._ops: deque[_Op] = deque()
        self.lost = 0  # whose record went, or cannot be read, while they were undecided
        self._ops_seen = self._start_of(OP_HALF_TOPIC)
        self._notes_went = self._ops_seen > (self._offsets.find(OP_HALF_TOPIC, GROUP, 0) or 0)
        self._seen = self._start_of(HALF_TOPIC, REMEMBERED)
        self.ledger = Ledger(self._seen)

    def _start_of(self, topic: str, before: int = 0) -> int:
        """Where it got to; what went since then, up to so many, is to be missed."""
        queue = self._store.queues.get(topic, 0)
        saved = self._offsets.find(topic, GROUP, 0)
        if queue is None:
            return saved or 0
        first = queue.min_offset
        return first if saved is None else min(max(saved, first - before), queue.next_offset)

    # --- reading --------------------------------------------------------------------------------------------------

    async def look(self) -> None:
        """Take in what is new in both topics."""
        async with self._looking:
            async for ops, _, end in self._portions(OP_HALF_TOPIC, self._ops_seen):
                for number, record in ops.items():
                    self._take_op(number, record)
                self._ops_seen = end
            queue = self._store.queues.get(HALF_TOPIC, 0)
            if queue is None:
                return
            if queue.min_offset > self.ledger.first:
                self._lose_below(queue.min_offset)
            self._seen = max(self._seen, queue.min_offset)
            async for halves, start, end in self._portions(HALF_TOPIC, self._seen):
                self._take_halves(halves, start, end)
                self._seen = end

    def _lose_below(self, start: int) -> None:
        """Log files went. What was undecided in them was carried forward first, unless somebody forced it."""
        known = [half for half in self.undecided.values() if half.offset < start]
        unseen = sum(self.ledger.state(offset) is State.HALF for offset in range(self._seen, start))
        self.ledger.skip_to(start)
        for half in known:
            self.decide(half.offset, State.DECIDED)
            self.settle(half.offset)
        if not known and not unseen:
            return
        self.lost += len(known) + unseen
        for half in known[:TOLD_APART]:
            log.error("A HALF MESSAGE IS LOST", id=half.unique, topic=half.topic, group=half.group)
        log.error(
            "HALF MESSAGES ARE LOST: their log file went while they were undecided",
            messages=len(known) + unseen,
            lost=self.lost,
            perhaps_fewer=self._notes_went,
        )

    def left_out(self, half: Half) -> None:
        """Its record cannot be read."""
        self.lost += 1
        log.error(
            "A HALF MESSAGE CANNOT BE READ AND IS LEFT OUT",
            position=half.position,
            id=half.unique,
            topic=half.topic,
            group=half.group,
            lost=self.lost,
        )
        self._leave(half)

    def put_aside(self, half: Half, why: Exception) -> None:
        """It cannot be handled. Raises what is not its own fault."""
        self.quarantine.put_at(half.position, half.size, HALF_TOPIC, 0, why)
        self._leave(half)

    def _leave(self, half: Half) -> None:
        self.decide(half.offset, State.DECIDED)
        self.settle(half.offset)
        self.owe(half.offset)

    def _take_halves(self, records: Mapping[int, Record], start: int, end: int) -> None:
        for offset in range(start, end):
            if self.ledger.state(offset) is not State.HALF or offset in self.undecided:
                continue
            record = records.get(offset)
            if record is not None and record.physical_offset in self.quarantine:
                self.ledger.set(offset, State.DECIDED)
            elif record is not None:
                self._take_half_or_aside(record)
            else:
                self.lost += 1
                log.error("A HALF MESSAGE IS DAMAGED AND LEFT OUT", queue_offset=offset, lost=self.lost)
                self.ledger.set(offset, State.DECIDED)

    def _take_half_or_aside(self, record: Record) -> None:
        try:
            self._take_half(record)
        except Exception as fault:
            self.quarantine.put(record, fault)
            self.ledger.set(record.queue_offset, State.DECIDED)

    def _take_half(self, record: Record) -> None:
        """A copy takes the place of what it was made from, where the note about that was lost by a kill."""
        half = self._half(record)
        old = self.undecided.get(self._by_unique.get(half.unique or "", -1))
        if half.is_copy and old is not None and (old.group, old.topic) == (half.group, half.topic):
            half.checks = max(half.checks, old.checks)
            self.carry(old, half)
            self.owe(old.offset)
        else:
            self._know(half)

    def _know(self, half: Half) -> None:
        if half.offset not in self.undecided:
            self._by_topic[half.topic] += 1
        self.undecided[half.offset] = half
        if half.unique is not None:
            self._by_unique[half.unique] = half.offset

    async def _portions(self, topic: str, offset: int) -> AsyncIterator[tuple[dict[int, Record], int, int]]:
        """Everything readable from an offset on, by offset, with its bounds. What is damaged or decided is left out."""
        while True:
            selection = await self._store.select(
                topic, 0, offset, max_count=AT_ONCE, max_bytes=BYTES_AT_ONCE, scan=AT_ONCE
            )
            found: dict[int, Record] = {}
            if selection.status is GetStatus.FOUND:
                wanted = [
                    one
                    for one in selection.ranges
                    if topic != HALF_TOPIC or self.ledger.state(one.queue_offset) is State.HALF
                ]
                part = await self._store.read(replace(selection, ranges=wanted)) if wanted else []
                found = {record.queue_offset: record for record in map(decode_record, part)}
            if selection.next_offset <= offset:
                return
            yield found, offset, selection.next_offset
            offset = selection.next_offset
            await self._clock.sleep(0)  # what is in the page cache is read without a pause, and there may be very many

    def _half(self, record: Record) -> Half:
        pairs = decode_properties(record.properties)
        told = whole_number(pairs.get(Property.TRANSACTION_CHECK_TIMES), high=INT_MAX)
        immune_s = immunity_s(pairs.get(Property.CHECK_IMMUNITY_TIME_IN_SECONDS))
        return Half(
            offset=record.queue_offset,
            position=record.physical_offset,
            born_ms=record.born_timestamp,
            immune_ms=None if immune_s is None else immune_s * 1000,
            group=sys.intern(pairs.get(Property.PGROUP, "")),  # a hundred thousand of them share a few
            topic=sys.intern(pairs.get(Property.REAL_TOPIC, "")),
            unique=pairs.get(Property.UNIQ_KEY),
            checks=max(told or 0, self._counts.get(record.queue_offset, 0)),
            size=record.size,
            is_copy=told is not None,
        )

    def _take_op(self, number: int, record: Record) -> None:
        try:
            decided = op_offsets(record.body)
        except Exception as fault:
            self.quarantine.put(record, fault)
            decided = []
        for offset in decided:
            if self.ledger.state(offset) is State.HALF:
                self.ledger.set(offset, State.DECIDED)
                self._forget(offset)
        self._ops.append(_Op(number, max(decided, default=-1)))

    # --- deciding -------------------------------------------------------------------------------------------------

    def decide(self, offset: int, state: State) -> None:
        self.ledger.set(offset, state)

    def undo(self, offset: int) -> None:
        """What was decided could not be stored: it is undecided as before."""
        self.ledger.set(offset, State.HALF)

    def put_op(self, offset: int, done: Callable[[Outcome], None], wait_s: float) -> None:
        """Of a rollback, which is answered when it is stored."""
        self._intake.put(op((offset,), self._clock.now_ms(), self._store_host), done, wait_s)

    def settle(self, offset: int) -> None:
        """It is decided, and that is stored."""
        self._forget(offset)
        if self._counts.pop(offset, None) is not None:
            self._checks_table.drop(CHECKS, str(offset))

    def _forget(self, offset: int) -> None:
        half = self.undecided.pop(offset, None)
        if half is None:
            return
        self._by_topic[half.topic] -= 1
        if not self._by_topic[half.topic]:
            del self._by_topic[half.topic]
        if half.unique is not None and self._by_unique.get(half.unique) == offset:
            del self._by_unique[half.unique]

    def put_owed_op(self, offset: int) -> None:
        """The op of what is carried out already: it is stored with the others of this turn, or by a later round."""
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self.put_gathered)
        self._gathered.append(offset)

    def put_gathered(self) -> None:
        """One op names many, as in Java. By itself at the end of a turn; whoever flushes the intake calls it before."""
        gathered, self._gathered = self._gathered, []
        for start in range(0, len(gathered), OFFSETS_IN_OP):
            part = gathered[start : start + OFFSETS_IN_OP]
            self._intake.put(op(part, self._clock.now_ms(), self._store_host), partial(self._paid, part))

    def owe(self, offset: int) -> None:
        """The decision is carried out, but its op is not stored: later rounds try again."""
        self._owed.append(offset)

    def pay(self) -> None:
        owed, self._owed = self._owed, []
        for offset in owed:
            self.put_owed_op(offset)

    def _paid(self, offsets: list[int], outcome: Outcome) -> None:
        if outcome.refusal is not None:
            log.error("the op of decided half messages waits: it cannot be stored", why=str(outcome.refusal))
            self._owed += offsets

    # --- checks and progress --------------------------------------------------------------------------------------

    def checked(self, half: Half, checks: int) -> None:
        half.checks = checks
        self._counts[half.offset] = checks
        self._checks_table.put(CHECKS, str(half.offset), checks)

    async def save_progress(self) -> None:
        """Move the offsets of both topics past what is decided, once the decisions are on the medium."""
        if self._owed or self._gathered:
            return
        async with self._looking:
            await self._save_progress()

    async def _save_progress(self) -> None:
        first = self.ledger.advance(self._seen)
        await self._store.flush_log()
        first = min(first, self.ledger.first)  # an end may have been undone meanwhile
        while self._ops and self._ops[0].last_half < first:
            self._ops.popleft()
        self._offsets.commit(HALF_TOPIC, GROUP, 0, first)
        self._offsets.commit(OP_HALF_TOPIC, GROUP, 0, self._ops[0].offset if self._ops else self._ops_seen)
        for offset in [offset for offset in self._counts if offset < first]:
            self.settle(offset)

    # --- copies ---------------------------------------------------------------------------------------------------

    def copy_placed(self, old: Half, copy: Placed) -> None:
        """It was put again there."""
        self.carry(old, replace(old, offset=copy.queue_offset, position=copy.position, size=copy.size, is_copy=True))

    def carry(self, old: Half, copy: Half) -> None:
        """A copy stands for it from now on; whoever ends the old one ends the copy."""
        self.ledger.set(old.offset, State.CARRIED)
        self.settle(old.offset)
        self._know(copy)
        if copy.checks:
            self.checked(copy, copy.checks)
        self._carried[old.offset] = copy
        if len(self._carried) > REMEMBERED_COPIES:
            del self._carried[next(iter(self._carried))]

    def stands_for(self, offset: int, position: int) -> tuple[int, int]:
        """Offset and position of the copy that an end of this one means; the same if there is none."""
        while (copy := self._carried.get(offset)) is not None:
            offset, position = copy.offset, copy.position
        return offset, position

    def open_by_topic(self) -> Mapping[str, int]:
        return self._by_topic


def immunity_s(text: str | None) -> int | None:
    """Read how long a message wants no check. None, for the broker's own time, where it is no number, as in Java."""
    return whole_number(text, high=_LONGEST_IMMUNITY_S)
