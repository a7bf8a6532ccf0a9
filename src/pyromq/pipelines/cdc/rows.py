"""Change events folded to what becomes of each row, by its key. Pure: no Spark, no sink.

An event that is not above the highest number of its row is a repeat and changes nothing. Debezium's own events have no
number: of these the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from ...cdc.events import OP_PROPERTY, BadEvent, ChangeEvent, Op, decode_event, encode_key

UNNUMBERED = -1
_OF_NO_ROW = {"heartbeat", "BEGIN", "END"}  # what else the capture sends, to topics of its own
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class RowWrite:
    """What becomes of one row: `values` is None of one that is deleted. Columns of `kept`, which the log does not have,
    stay as they are in the sink; all others that are not in `values` are gone from the source, and go."""

    table: str
    key: Mapping[str, Any]
    number: int
    values: Mapping[str, Any] | None
    kept: frozenset[str] = frozenset()

    @property
    def is_whole(self) -> bool:
        """Return whether the write says all that there is to know of the row."""
        return not self.kept

    @property
    def key_text(self) -> str:
        return encode_key(self.key) or ""

    @property
    def name(self) -> str:
        """Return the key as people write it: the value alone of a key of one column, else JSON."""
        return str(next(iter(self.key.values()))) if len(self.key) == 1 else self.key_text


Place = tuple[str, str]  # a row by its table and the text of its key


class ChangeMessage(NamedTuple):
    """A message of a topic of changes, and where it is."""

    topic: str
    queue_id: int
    offset: int
    body: bytes
    properties: Mapping[str, str]
    broker: str = ""


class Undelivered(NamedTuple):
    """A message that is not delivered, and why."""

    message: ChangeMessage
    cause: str


@dataclass(slots=True)
class Folded:
    """The writes of some messages, one for each row, with the messages that each one is made of."""

    writes: dict[Place, RowWrite] = field(default_factory=dict)
    messages: dict[Place, list[ChangeMessage]] = field(default_factory=dict)
    bad: list[Undelivered] = field(default_factory=list)
    truncated: dict[str, int] = field(default_factory=dict)  # tables, by the number of the event
    repeats: int = 0


def fold(messages: Iterable[ChangeMessage], floors: Mapping[str, int] = MappingProxyType({})) -> Folded:
    """Return what becomes of each row. Messages of one row come in their order; `floors` has the tables that were
    emptied and the number of that event: what is older is a repeat."""
    found = Folded()
    for message in messages:
        if message.properties.get(OP_PROPERTY) in _OF_NO_ROW:
            continue
        try:
            event = decode_event(message.topic, message.body, message.properties)
            if event.op is Op.TOMBSTONE:
                continue  # the delete stands before it
            if event.op is Op.TRUNCATE and event.number != UNNUMBERED:
                found.truncated[event.table] = max(event.number, found.truncated.get(event.table, UNNUMBERED))
                continue
            write = _write(event, message)
        except BadEvent as fault:
            found.bad.append(Undelivered(message, str(fault)))
            continue
        place = write.table, write.key_text
        before = found.writes.get(place)
        stands = max(floors.get(write.table, UNNUMBERED), before.number if before else UNNUMBERED)
        if stands >= write.number != UNNUMBERED:
            found.repeats += 1
            continue
        found.writes[place] = write if before is None else _upon(before, write)
        found.messages.setdefault(place, []).append(message)
    return found


def _write(event: ChangeEvent, message: ChangeMessage) -> RowWrite:
    if event.op is Op.TRUNCATE:
        raise BadEvent(
            f"table {event.table} was truncated, and the event has no number that says which rows are newer: empty the "
            "table in the sink"
        )
    if not event.key:
        raise BadEvent(
            f"table {event.table} has no primary key, so its rows cannot be told apart in a sink: give it one and take "
            "a new snapshot, or archive its topic (pyromq pipeline archive)"
        )
    meanings = _meanings(message.body) if b'"schema"' in message.body[:32] else {}
    key = _meant(event.key, meanings)
    if event.op is Op.DELETE or event.after is None:
        return RowWrite(event.table, key, event.number, None)
    return RowWrite(event.table, key, event.number, _meant(event.after, meanings), event.unavailable)


def _upon(before: RowWrite, write: RowWrite) -> RowWrite:
    """Return the second write after the first: what it does not know is as the first one says."""
    if write.values is None or not write.kept:
        return write
    known = before.values or {}
    told = {name: known[name] for name in write.kept if name in known}
    return replace(write, values={**told, **write.values}, kept=write.kept & before.kept - told.keys())


def _meant(row: Mapping[str, Any], meanings: Mapping[str, str]) -> dict[str, Any]:
    return {name: as_meant(value, meanings.get(name, "")) for name, value in row.items()}


def _meanings(body: bytes) -> dict[str, str]:
    """Return Debezium's names of what values mean, by column, from the schema part of an event."""
    try:
        fields = msgspec.json.decode(body)["schema"].get("fields", [])
        row: dict[str, Any] = next((each for each in fields if each.get("field") == "after"), {})
        return {each["field"]: each["name"] for each in row.get("fields", []) if each.get("name")}
    except (AttributeError, KeyError, TypeError):
        raise BadEvent("its schema part is not as Kafka Connect writes it") from None


def as_meant(value: Any, meaning: str) -> Any:
    """Return a time as a time where the event says that it is one; anything else, such as `infinity`, as it is."""
    try:
        if isinstance(value, str) and meaning == "io.debezium.time.ZonedTimestamp":
            return datetime.fromisoformat(value).astimezone(UTC)
        return _counted(value, meaning) if isinstance(value, int) and not isinstance(value, bool) else value
    except (ValueError, OverflowError):
        return value


def _counted(value: int, meaning: str) -> Any:
    """Return the time of which Debezium counts the days, milliseconds or microseconds."""
    match meaning:
        case "io.debezium.time.Date":
            return date(1970, 1, 1) + timedelta(days=value)
        case "io.debezium.time.Timestamp":
            return _EPOCH + timedelta(milliseconds=value)
        case "io.debezium.time.MicroTimestamp":
            return _EPOCH + timedelta(microseconds=value)
        case "io.debezium.time.MicroTime" if 0 <= value < 86_400_000_000:
            return (_EPOCH + timedelta(microseconds=value)).time()
    return value


def as_text(value: Any) -> str:
    """Return a value for a store that has only texts: lists and objects as JSON, times in ISO 8601."""
    if isinstance(value, str):
        return value
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    return msgspec.json.encode(value).decode()
