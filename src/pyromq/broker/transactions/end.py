"""Request 37: a producer says how its transaction ended. Commit puts the message to its topic, both put an op message.

An end that is sent twice does nothing more; one that contradicts the first is refused. Delay levels count from the
commit on: this file is handed the park and knows nothing else of timing. Most half messages are ended within
milliseconds: `Intake` gives each that it stored to `RecentHalves`, so that ending one reads nothing. What a native
kernel stored is read from the log; the usual commit of it is the kernel's, too (`kernel_ends.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ... import logs
from ...config import Live
from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.ids import parse_offset_message_id
from ...model.message import Property
from ...model.names import CHECKS_EXHAUSTED_TOPIC, HALF_TOPIC
from ...protocol.access import Action, Resource
from ...protocol.headers.send import EndTransaction, ResumeCheckHalfMessage
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from ...transport.dispatch import Answer, Reply, Request, RequestOf
from ..config import BrokerConfig
from ..intake.intake import LogAccess, Outcome
from ..intake.parking import Park
from ..intake.put_answers import answer, reply_to_put
from ..reading.record_rights import check_record
from ..stats.events import Events
from .half_records import committed, half_copy, text_of
from .halves import Halves, longest_wait_ms
from .states import Event, IllegalTransition, State
from .undecided import immunity_s

log = logs.get("pyromq.broker")

PRODUCER_GROUP = Property.PGROUP.encode()
REAL_TOPIC = Property.REAL_TOPIC.encode()
IMMUNITY = Property.CHECK_IMMUNITY_TIME_IN_SECONDS.encode()
DELAY = Property.DELAY.encode() + b"\x01"
UNKNOWN = 0
MOST_BYTES = 8 << 20  # of bodies and properties
_OVERHEAD_BYTES = 512  # of one, beside those
_EVENTS = {8: Event.COMMIT, 12: Event.ROLLBACK}


class RecentHalves:
    """By position in the log, the oldest go first. Event loop only."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._records: dict[int, Record] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def stored(self, record: Record) -> None:
        """Keep the record itself: it knows its place, and nobody changes it any more."""
        self._records[record.physical_offset] = record
        self._bytes += _size(record)
        while self._bytes > self._most_bytes:
            self.take(next(iter(self._records)))

    def take(self, position: int) -> Record | None:
        """Return the record, once: who ends it again reads the log."""
        record = self._records.pop(position, None)
        if record is not None:
            self._bytes -= _size(record)
        return record


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TransactionEnds:
    """Event loop only. `delay` parks what has a delay level."""

    live: Live[BrokerConfig]
    access: LogAccess
    halves: Halves
    recent: RecentHalves
    delay: Park
    events: Events = field(default_factory=Events)

    def __call__(self, request: RequestOf[EndTransaction, None]) -> Answer:
        header = request.header
        if header.commit_or_rollback == UNKNOWN:
            if header.uncounted:
                self._take_back_check(request, header)
            return None  # as Java: nothing else happens, nobody is answered, and a check will ask again
        event = _EVENTS.get(header.commit_or_rollback)
        if event is None:
            raise RequestRefused(
                f"commitOrRollback is {header.commit_or_rollback}: 8 commits, 12 rolls back, 0 does not know yet"
            )
        meant = self.halves.stands_for(header.tran_state_table_offset, header.commit_log_offset)
        record = self.recent.take(meant[1])
        if record is None:
            record = self.access.store.ask_now(partial(self.access.store.reader.record_at, meant[1]))
        if record is None:  # rare: not even in the page cache any more
            return self._when_read(request, header, event)
        return self._end(request, header, event, _found(header, record, meant[0]))

    def _take_back_check(self, request: Request, header: EndTransaction) -> None:
        """Let a check not count, since the producer could not say how the transaction ended."""
        offset, _ = self.halves.stands_for(header.tran_state_table_offset, header.commit_log_offset)
        half = self.halves.undecided.get(offset)
        if half is None or half.group != header.producer_group or not half.checks or not self.halves.may_wait(half):
            return
        if not request.rights.may(Resource.TOPIC, half.topic, Action.PUB):
            return
        if self.access.clock.now_ms() - half.born_ms <= longest_wait_ms(self.live.config):
            self.halves.undecided.count_checks(half, half.checks - 1)

    async def _when_read(self, request: Request, header: EndTransaction, event: Event) -> Reply | None:
        named = (header.tran_state_table_offset, header.commit_log_offset)
        record, meant = None, (-1, -1)
        while meant != self.halves.stands_for(*named):  # again, if it was put elsewhere while it was read
            meant = self.halves.stands_for(*named)
            record = await self._record_at(meant[1])
        return self._end(request, header, event, _found(header, record, meant[0]))

    def _end(self, request: Request, header: EndTransaction, event: Event, half: Record) -> Reply | None:
        check_record(request.rights, half, Action.PUB)
        self._check(header, half)
        ledger = self.halves.ledger
        before = ledger.state(half.queue_offset)
        try:
            after = ledger.move(half.queue_offset, event)
        except IllegalTransition:
            raise RequestRefused(
                f"the transaction of {header.msg_id} was {before.name.lower().replace('_', ' ')} before, "
                f"it cannot be {event.name.lower()} now"
            ) from None
        if after is before:
            return Reply()
        if after is State.COMMITTED:
            self._commit(request, half)
        else:
            self._roll_back(request, half)
        return None

    # --- checks ---------------------------------------------------------------------------------------------------

    async def _record_at(self, position: int) -> Record | None:
        return await self.access.store.ask(partial(self.access.store.reader.record_at, position))

    def _check(self, header: EndTransaction, half: Record) -> None:
        group = text_of(half, PRODUCER_GROUP)
        if group != header.producer_group:
            raise RequestRefused(
                f"the producer group wrong: the message was sent by {group}, not by {header.producer_group}"
            )
        immunity = text_of(half, IMMUNITY)
        immune_s = immunity_s(immunity)
        if immune_s is not None and not header.from_transaction_check:
            age_ms = self.access.clock.now_ms() - half.born_timestamp
            if age_ms > immune_s * 1000:
                raise RequestRefused(
                    f"the transaction is {age_ms} ms old, its {Property.CHECK_IMMUNITY_TIME_IN_SECONDS} is {immunity}: "
                    f"the check will decide it",
                    ResponseCode.ILLEGAL_OPERATION,
                )

    # --- carrying it out ------------------------------------------------------------------------------------------

    def _commit(self, request: Request, half: Record) -> None:
        offset = half.queue_offset
        known = self.halves.undecided.get(offset)
        try:
            record = committed(half, 0 if known is None else known.checks, self.access.store_host)
            if record is None:
                raise RequestRefused(f"the half message at {half.physical_offset} does not say where it belongs")
            if DELAY in record.properties:
                record = self.delay(record, decode_properties(record.properties)) or record
        except RequestRefused:
            self.halves.ledger.move(offset, Event.NOT_STORED)
            raise
        placed, topic = record, text_of(half, REAL_TOPIC)
        took_s = max(0, self.access.clock.now_ms() - half.born_timestamp) / 1000

        def stored(outcome: Outcome) -> None:
            self.events.committed[topic] += 1
            self.events.finishes[topic].note(took_s)
            self.access.count(placed.topic, placed.queue_id, 1, outcome.places[-1].size)
            self.halves.carried_out(offset)

        self.access.intake.put(record, partial(self._done, request, offset, stored), self._wait_s)

    def _roll_back(self, request: Request, half: Record) -> None:
        offset, topic = half.queue_offset, text_of(half, REAL_TOPIC)

        def stored(outcome: Outcome) -> None:
            self.events.rolled_back[topic] += 1
            self.halves.undecided.remove(offset)

        self.halves.ops.put(offset, partial(self._done, request, offset, stored), self._wait_s)

    def _done(self, request: Request, offset: int, stored: Callable[[Outcome], None], outcome: Outcome) -> None:
        """Answer once a decision is stored; one that is refused leaves the half message undecided."""
        if outcome.refusal is not None:
            self.halves.ledger.move(offset, Event.NOT_STORED)
        else:
            stored(outcome)
        answer(request, reply_to_put(outcome, self.live.config))

    @property
    def _wait_s(self) -> float:
        return self.live.config.put_wait_s

    # --- an administrator lets a given-up message be checked again ------------------------------------------------

    async def resume(self, request: RequestOf[ResumeCheckHalfMessage, None]) -> Reply | None:
        """Answer 323: count the checks of a half message anew. A discarded one becomes a half message again."""
        text = request.header.msg_id or ""
        try:
            position = parse_offset_message_id(text).physical_offset
        except ValueError as fault:
            raise RequestRefused(f"msgId {text!r} is no id of a stored message: {fault}") from None
        record = await self._record_at(position)
        if record is not None:
            check_record(request.rights, record, Action.UPDATE)
        known = None if record is None else self.halves.undecided.get(record.queue_offset)
        if record is not None and record.topic == HALF_TOPIC and known is not None:
            self.halves.undecided.count_checks(known, 0)
            return Reply()
        if record is None or record.topic != CHECKS_EXHAUSTED_TOPIC:
            raise RequestRefused(
                f"the message {text} is neither an undecided half message nor one of {CHECKS_EXHAUSTED_TOPIC}"
            )
        copy = half_copy(record, 0, self.access.store_host)

        def done(outcome: Outcome) -> None:
            answer(request, Reply() if outcome.refusal is None else reply_to_put(outcome, self.live.config))

        self.access.intake.put(copy, done, self._wait_s)
        return None


def _found(header: EndTransaction, record: Record | None, offset: int) -> Record:
    if record is None or record.topic != HALF_TOPIC or record.queue_offset != offset:
        raise RequestRefused(
            f"find prepared transaction message failed: no half message {header.tran_state_table_offset} is at "
            f"{header.commit_log_offset} of the log"
        )
    return record


def _size(record: Record) -> int:
    return len(record.body) + len(record.properties) + _OVERHEAD_BYTES
