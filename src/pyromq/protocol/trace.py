"""Message traces: what clients with tracing switched on write into the trace topic, encoded and decoded. Sans-IO.

A body is a row of records, each ended by 0x02, of fields separated by 0x01; the first field names the kind. Older
clients leave fields out at the end. The SDK writes them; `model/message_trace.py` makes one message's story of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from enum import Enum
from typing import Any, NamedTuple

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
from .ints import java_text
from .messages import UnreadableMessage, read_messages

FIELD = "\x01"
RECORD = "\x02"
MOST_MESSAGES = 1024  # that a query asks for; brokers have bounds of their own


class TraceError(ProtocolError):
    """A record that is no trace; the text says which field."""


def encode_trace(events: Iterable[Traced]) -> bytes:
    """Encode the events. ValueError names a field that cannot be written."""
    return "".join(FIELD.join(_fields(event)) + RECORD for event in events).encode()


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


# --- the fields of each kind ----------------------------------------------------------------------------------------


class _Layout(NamedTuple):
    kind: type[Traced]
    members: list[tuple[str, object]]  # of `kind` with their types, in the order of the record
    required: int  # of these; the oldest clients leave out the others, which have defaults


def _layout(kind: type[Traced], names: str, required: int) -> _Layout:
    types = {member.name: member.type for member in fields(kind)}
    return _Layout(kind, [(name, types[name]) for name in names.split()], required)


_PUB = "time_ms region group topic message_id tags keys store_host"
_LAYOUTS = {
    "Pub": _layout(Sent, f"{_PUB} body_length cost_ms kind offset_id success", 11),
    "EndTransaction": _layout(TransactionEnded, f"{_PUB} kind transaction_id state from_check", 12),
    "SubBefore": _layout(ConsumeStarted, "time_ms region group request_id message_id retries keys", 6),
    "SubAfter": _layout(Consumed, "request_id message_id cost_ms success keys outcome time_ms group", 4),
    "Recall": _layout(Recalled, "time_ms region group topic message_id success", 6),
}
_WORDS = {layout.kind: word for word, layout in _LAYOUTS.items()}
_ENUMS: dict[object, type[Enum]] = {"MessageKind": MessageKind, "ConsumeOutcome": ConsumeOutcome}


def _fields(event: Traced) -> list[str]:
    word = _WORDS[type(event)]
    values = (getattr(event, name) for name, _ in _LAYOUTS[word].members)
    texts = [word, *(java_text(value.value if isinstance(value, Enum) else value) for value in values)]
    for place, text in enumerate(texts):
        if FIELD in text or RECORD in text:
            raise ValueError(f"field {place} of a {word} trace holds 0x01 or 0x02: {text!r}")
    return texts


def _event(texts: list[str]) -> Traced | None:
    word, count = texts[0], len(texts)
    if word not in _LAYOUTS:
        return None
    layout = _LAYOUTS[word]
    if count <= layout.required:
        raise TraceError(f"a {word} trace has {count} fields, field {count} is missing")
    members = layout.members
    if layout.kind is Sent and count <= len(members):  # success was last before there were ids of places
        members = [member for member in members if member[0] != "offset_id"]
    values = {}
    for place, (text, (name, kind)) in enumerate(zip(texts[1:], members, strict=False), 1):
        if (value := _value(text, kind)) is None:
            raise TraceError(f"field {place} of a {word} trace is no number: {text[:80]!r}")
        values[name] = value
    return layout.kind(**values)


def _value(text: str, kind: object) -> Any:
    """Return the text as a value of an annotated type, None if it had to be a number and is none."""
    if kind == "str":
        return text
    if kind == "bool":
        return text.lower() == "true"
    number = whole_number(text, -LONG_MAX)
    if kind == "int" or number is None:
        return number
    try:
        return _ENUMS[kind](number)
    except ValueError:
        return _ENUMS[kind](0)  # of later versions
