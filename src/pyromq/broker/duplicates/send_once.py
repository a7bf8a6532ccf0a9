"""Answers a repeated send with the place of the first one instead of storing it again.

It stands between `send/handler.py` and the intake where the duplicate window is on. Timers and retries put messages
with the same identity again and are no repeats, so their puts do not pass here. `duplicate_window.py` is the table,
docs/duplicates.md the promise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...errors import ProtocolError, RequestRefused
from ...kernel.records import named_batch
from ...model.codes import ResponseCode
from ...protocol.batch import BatchEntries, BatchEntry, decode_batch
from ...protocol.properties import MAX_PROPERTIES_BYTES
from ...protocol.record import CRC_PROPERTY_BYTES, Record
from ..intake.intake import Done, Intake, Outcome, illegal_batch
from .duplicate_window import SEND_ID, DuplicateTable, Known, SendId, is_sent_on, read_send_id

_MAX_BYTES = MAX_PROPERTIES_BYTES - CRC_PROPERTY_BYTES


@dataclass(slots=True, eq=False, repr=False)
class SendOnce:
    """Event loop only. To `send/handler.py` it is an intake."""

    intake: Intake
    table: DuplicateTable
    now_ms: Callable[[], int]  # of a monotonic clock

    def park(self, record: Record, properties: Mapping[str, str]) -> Record:
        return self.intake.park(record, properties)

    def put(self, record: Record, done: Done, wait_s: float = 0.0) -> None:
        identity = _identity(record)
        if identity is None:
            self.intake.put(record, done, wait_s)
            return
        known = self.table.find(identity, record.topic, self.now_ms())
        if known is None:
            known = self.table.begin(identity, record.topic, self.now_ms())
            self.intake.put(record, self._ended(identity, known, done), wait_s)
        else:
            self._repeat(known, done, wait_s)

    def put_batch(self, batch: Record, done: Done, wait_s: float = 0.0, entries: BatchEntries | None = None) -> None:
        identity = _identity(batch)
        if identity is None:
            self.intake.put_batch(batch, done, wait_s, entries)
            return
        count, named = _numbered(batch.body, entries, identity)
        known = self.table.find(identity, batch.topic, self.now_ms())
        if known is None:
            known = self.table.begin(identity, batch.topic, self.now_ms())
            self._put_rest(batch, named, identity, known, done, wait_s)
        elif known.waiting is not None or len(known.places) == count:
            self._repeat(known, done, wait_s)
        elif len(known.places) < count:
            # A power cut took the end of the batch, whose sender was never told that it is safe.
            known.waiting = []
            batch.queue_id = known.places[0].queue_id
            rest = _decoded(named) if isinstance(named, bytes) else named
            self._put_rest(batch, rest[len(known.places) :], identity, known, done, wait_s)
        else:
            raise illegal_batch(
                f"sequence {identity.sequence} of producer {identity.producer.decode()} was a batch of "
                f"{len(known.places)} messages before, now of {count}"
            )

    def _put_rest(
        self, batch: Record, entries: BatchEntries, identity: SendId, known: Known, done: Done, wait_s: float
    ) -> None:
        try:
            self.intake.put_batch(batch, self._ended(identity, known, done), wait_s, entries)
        except BaseException:
            self.table.failed(identity, known)  # else every repeat would wait for it for ever
            raise

    def _ended(self, identity: SendId, known: Known, done: Done) -> Done:
        def ended(outcome: Outcome) -> None:
            waiting = known.waiting or ()
            if outcome.refusal is not None:
                self.table.failed(identity, known)
            else:
                self.table.stored(known, tuple(outcome.places))
                outcome = outcome._replace(places=known.places)
            done(outcome)
            for repeat in waiting:
                repeat(outcome._replace(repeat=outcome.refusal is None))

        return ended

    def _repeat(self, known: Known, done: Done, wait_s: float) -> None:
        """Answer with the place of the first one, once that is known and as safe as the flush mode promises."""
        if known.waiting is not None:
            known.waiting.append(done)
        else:
            self.intake.confirm(known.places, lambda outcome: done(outcome._replace(repeat=True)), wait_s)


def _identity(record: Record) -> SendId | None:
    try:
        found = read_send_id(record.properties)
    except ValueError as malformed:
        raise _malformed(str(malformed)) from None
    if found is None or is_sent_on(record.topic):
        return None
    identity, number = found
    if number is not None:
        raise _malformed(identity.text(number).decode())
    return identity


def _malformed(value: str) -> RequestRefused:
    return RequestRefused(
        f"property {SEND_ID.decode()} = {value[:200]!r}: it is PRODUCER/EPOCH/SEQUENCE, a name of letters, digits and "
        "_ . : @ % | - and two numbers",
        ResponseCode.MESSAGE_ILLEGAL,
    )


def _decoded(body: bytes | memoryview) -> list[BatchEntry]:
    try:
        return decode_batch(body)
    except ProtocolError as fault:
        raise illegal_batch(str(fault)) from None


def _numbered(body: bytes | memoryview, entries: BatchEntries | None, identity: SendId) -> tuple[int, BatchEntries]:
    """Return how many messages a batch has, and all of them with its identity and their places in it, as the log keeps
    them."""
    mark = b"%s\x01%s/" % (SEND_ID, identity.text())
    if entries is None and named_batch is not None:
        found = named_batch(body, mark, _MAX_BYTES)
        if found is not None:
            return found[1], found[0]
    if entries is None or isinstance(entries, bytes):
        entries = _decoded(body if entries is None else entries)
    if not entries:
        raise illegal_batch("there is no message in it")
    return len(entries), _named(entries, mark)


def _named(entries: Sequence[BatchEntry], mark: bytes) -> list[BatchEntry]:
    numbered = []
    for number, (body, flag, properties) in enumerate(entries):
        between = b"" if properties.endswith(b"\x02") or not properties else b"\x02"
        value = b"%s%s%d\x02" % (between, mark, number)
        if len(properties) + len(value) > _MAX_BYTES:
            raise illegal_batch(
                f"the properties of message {number} take {len(properties)} bytes, the limit is "
                f"{_MAX_BYTES - len(value)} with {SEND_ID.decode()}"
            )
        numbered.append(BatchEntry(body, flag, properties + value))
    return numbered
