"""Message traces: what clients with tracing switched on write into the trace topic, encoded and decoded. Sans-IO.

A body is a row of records, each ended by 0x02, of fields separated by 0x01; the first field names the kind. Older
clients leave fields out at the end. The SDK writes them; `model/message_trace.py` makes one message's story of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ..errors import ProtocolError
from ..model.message_trace import (
    Consumed,
    ConsumeOutcome,
    ConsumeStarted,
    MessageKind,
    Recalled,
    Sent,
    Traced,
    TransactionEnded,
)
from ..model.wire_text import LONG_MAX, whole_number
from .headers.pull import QueryMessage
from .messages import UnreadableMessage, read_messages

FIELD = "\x01"
RECORD = "\x02"
MOST_MESSAGES = 1024  # that a query asks for; brokers have bounds of their own

T = TypeVar("T")


class TraceError(ProtocolError):
    """A record that is no trace; the text says which field."""


def encode_trace(events: Iterable[Traced]) -> bytes:
    """Encode the events. ValueError names a field that cannot be written."""
    return "".join(FIELD.join(_checked(_fields(event))) + RECORD for event in events).encode()


def decode_trace(body: bytes) -> list[Traced]:
    """Return the events of one body. Kinds that nobody knows are left out; a broken record raises TraceError."""
    records = body.decode("utf-8", "replace").split(RECORD)
    return [event for record in records if record and (event := _event(record.split(FIELD))) is not None]


def trace_keys(events: Iterable[Traced]) -> list[str]:
    """Return what a trace message is found by: the ids and keys of all messages in it, each once, in order."""
    words: dict[str, None] = {}
    for event in events:
        words[event.message_id] = None
        words.update(dict.fromkeys(event.keys.split()))
    words.pop("", None)
    return list(words)


# --- asking ---------------------------------------------------------------------------------------------------------


def trace_query(trace_topic: str, word: str) -> QueryMessage:
    """Return the question (12) to one broker for the trace messages that its index knows under a message id or key."""
    return QueryMessage(
        topic=trace_topic, key=word, max_num=MOST_MESSAGES, begin_timestamp=0, end_timestamp=(1 << 63) - 1
    )


def answered_events(body: bytes | memoryview) -> list[Traced]:
    """Return the events in a good answer. Trace topics take messages from anybody: what is no trace is left out."""
    events: list[Traced] = []
    for message in read_messages(body).messages:
        if isinstance(message, UnreadableMessage):
            continue
        try:
            events += decode_trace(message.body)
        except TraceError:
            continue
    return events


# --- writing --------------------------------------------------------------------------------------------------------


def _fields(event: Traced) -> list[str]:
    match event:
        case Sent():
            numbers = [str(event.body_length), str(event.cost_ms), str(event.kind.value)]
            return [*_pub_head("Pub", event), *numbers, event.offset_id, _flag(event.success)]
        case TransactionEnded():
            tail = [str(event.kind.value), event.transaction_id, event.state, _flag(event.from_check)]
            return [*_pub_head("EndTransaction", event), *tail]
        case ConsumeStarted():
            head = ["SubBefore", str(event.time_ms), event.region, event.group, event.request_id]
            return [*head, event.message_id, str(event.retries), event.keys]
        case Consumed():
            head = ["SubAfter", event.request_id, event.message_id, str(event.cost_ms), _flag(event.success)]
            return [*head, event.keys, str(event.outcome.value), str(event.time_ms), event.group]
        case Recalled():
            head = ["Recall", str(event.time_ms), event.region, event.group, event.topic]
            return [*head, event.message_id, _flag(event.success)]
    raise TypeError(f"no trace event: {event!r}")


def _pub_head(word: str, event: Sent | TransactionEnded) -> list[str]:
    where = [word, str(event.time_ms), event.region, event.group, event.topic]
    return [*where, event.message_id, event.tags, event.keys, event.store_host]


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _checked(fields: list[str]) -> list[str]:
    for place, text in enumerate(fields):
        if FIELD in text or RECORD in text:
            raise ValueError(f"field {place} of a {fields[0]} trace holds 0x01 or 0x02: {text!r}")
    return fields


# --- reading --------------------------------------------------------------------------------------------------------


def _event(fields: list[str]) -> Traced | None:
    readers: dict[str, Callable[[_Fields], Traced]] = {
        "Pub": _sent,
        "SubBefore": _consume_started,
        "SubAfter": _consumed,
        "EndTransaction": _transaction_ended,
        "Recall": _recalled,
    }
    reader = readers.get(fields[0])
    return None if reader is None else reader(_Fields(fields))


class _Fields:
    """One record's fields; what is missing at the end has a default, what must be there raises."""

    def __init__(self, fields: list[str]) -> None:
        self._fields = fields

    def __len__(self) -> int:
        return len(self._fields)

    def text(self, place: int, missing: str | None = None) -> str:
        if place < len(self._fields):
            return self._fields[place]
        if missing is None:
            raise TraceError(f"a {self._fields[0]} trace has {len(self._fields)} fields, field {place} is missing")
        return missing

    def number(self, place: int, missing: int | None = None) -> int:
        text = self.text(place, None if missing is None else str(missing))
        found = whole_number(text, -LONG_MAX)
        if found is None:
            raise TraceError(f"field {place} of a {self._fields[0]} trace is no number: {text[:80]!r}")
        return found

    def flag(self, place: int, missing: str | None = None) -> bool:
        return self.text(place, missing).lower() == "true"

    def kind(self, place: int) -> MessageKind:
        return _member(MessageKind, self.number(place), MessageKind.NORMAL)


def _member(kind: Callable[[int], T], value: int, otherwise: T) -> T:
    try:
        return kind(value)
    except ValueError:
        return otherwise


def _sent(fields: _Fields) -> Traced:
    """Read a sent message: 12 fields, success last, from the oldest clients; 13 with the place's id; 14 today."""
    has_place = len(fields) > 13
    return Sent(
        time_ms=fields.number(1),
        region=fields.text(2),
        group=fields.text(3),
        topic=fields.text(4),
        message_id=fields.text(5),
        tags=fields.text(6),
        keys=fields.text(7),
        store_host=fields.text(8),
        body_length=fields.number(9),
        cost_ms=fields.number(10),
        kind=fields.kind(11),
        offset_id=fields.text(12) if has_place else "",
        success=fields.flag(13 if has_place else 12, "true"),
    )


def _transaction_ended(fields: _Fields) -> Traced:
    return TransactionEnded(
        time_ms=fields.number(1),
        region=fields.text(2),
        group=fields.text(3),
        topic=fields.text(4),
        message_id=fields.text(5),
        tags=fields.text(6),
        keys=fields.text(7),
        store_host=fields.text(8),
        kind=fields.kind(9),
        transaction_id=fields.text(10),
        state=fields.text(11),
        from_check=fields.flag(12),
    )


def _consume_started(fields: _Fields) -> Traced:
    return ConsumeStarted(
        time_ms=fields.number(1),
        region=fields.text(2),
        group=fields.text(3),
        request_id=fields.text(4),
        message_id=fields.text(5),
        retries=fields.number(6),
        keys=fields.text(7, ""),
    )


def _consumed(fields: _Fields) -> Traced:
    return Consumed(
        request_id=fields.text(1),
        message_id=fields.text(2),
        cost_ms=fields.number(3),
        success=fields.flag(4),
        keys=fields.text(5, ""),
        outcome=_member(ConsumeOutcome, fields.number(6, 0), ConsumeOutcome.SUCCESS),
        time_ms=fields.number(7, 0),
        group=fields.text(8, ""),
    )


def _recalled(fields: _Fields) -> Traced:
    return Recalled(
        time_ms=fields.number(1),
        region=fields.text(2),
        group=fields.text(3),
        topic=fields.text(4),
        message_id=fields.text(5),
        success=fields.flag(6),
    )
