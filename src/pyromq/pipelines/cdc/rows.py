"""Change events folded to what becomes of each row, by its key. Pure: no Spark, no sink.

An event that is not above the highest number of its row is a repeat and changes nothing. Debezium's own events have no
number: of these the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

import msgspec

from ...cdc.events import BadEvent, ChangeEvent, Op, decode_event, encode_key

UNNUMBERED = -1
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class RowWrite:
    """What becomes of one row. `values` is None of one that is deleted; `is_whole`: columns that are not named go."""

    table: str
    key: Mapping[str, Any]
    number: int
    values: Mapping[str, Any] | None
    is_whole: bool = True

    @property
    def key_text(self) -> str:
        return encode_key(self.key) or ""

    @property
    def name(self) -> str:
        """Return the key as people write it: the value alone of a key of one column, else JSON."""
        return str(next(iter(self.key.values()))) if len(self.key) == 1 else self.key_text


class ChangeMessage(NamedTuple):
    """A message of a topic of changes, and where it is."""

    topic: str
    queue_id: int
    offset: int
    body: bytes
    properties: Mapping[str, str]


class BadRow(NamedTuple):
    """A message that is not delivered, and why. It stays in its topic."""

    topic: str
    queue_id: int
    offset: int
    cause: str


@dataclass(slots=True)
class Folded:
    """The writes of some messages, one for each row, with the message that each one ends with."""

    writes: dict[tuple[str, str], RowWrite]
    last: dict[tuple[str, str], ChangeMessage]
    bad: list[BadRow]
    repeats: int = 0


def fold(messages: Iterable[ChangeMessage]) -> Folded:
    """Return what becomes of each row. Messages of one row come in their order."""
    found = Folded({}, {}, [])
    for message in messages:
        try:
            event = decode_event(message.topic, message.body, message.properties)
            if event.op is Op.TOMBSTONE:
                continue  # the delete stands before it
            write = _write(event, message)
        except BadEvent as fault:
            found.bad.append(BadRow(message.topic, message.queue_id, message.offset, str(fault)))
            continue
        place = write.table, write.key_text
        before = found.writes.get(place)
        if before is not None and before.number >= write.number != UNNUMBERED:
            found.repeats += 1
            continue
        found.writes[place] = write if before is None else _upon(before, write)
        found.last[place] = message
    return found


def _write(event: ChangeEvent, message: ChangeMessage) -> RowWrite:
    if event.op is Op.TRUNCATE:
        raise BadEvent(
            f"table {event.table} was truncated, which is not delivered row by row: empty it in the sink, or take a "
            "new snapshot into an empty one"
        )
    if not event.key:
        raise BadEvent(
            f"table {event.table} has no primary key, so its rows cannot be told apart in a sink: give it one and take "
            "a new snapshot, or archive its topic (pyromq pipeline archive)"
        )
    meanings = _meanings(message.body) if b'"schema"' in message.body[:32] else {}
    key = {name: as_meant(value, meanings.get(name, "")) for name, value in event.key.items()}
    if event.op is Op.DELETE or event.after is None:
        return RowWrite(event.table, key, event.number, None)
    row = {name: as_meant(value, meanings.get(name, "")) for name, value in event.after.items()}
    return RowWrite(event.table, key, event.number, row, event.op is not Op.UPDATE)


def _upon(before: RowWrite, write: RowWrite) -> RowWrite:
    """Return the second write after the first. An update may not have all columns."""
    if write.values is None or write.is_whole or before.values is None:
        return replace(write, is_whole=write.is_whole or before.values is None)
    return replace(write, values={**before.values, **write.values}, is_whole=before.is_whole)


def _meanings(body: bytes) -> dict[str, str]:
    """Return Debezium's names of what values mean, by column, from the schema part of an event."""
    fields = msgspec.json.decode(body)["schema"].get("fields", [])
    row: dict[str, Any] = next((each for each in fields if each.get("field") == "after"), {})
    return {each["field"]: each["name"] for each in row.get("fields", []) if each.get("name")}


def as_meant(value: Any, meaning: str) -> Any:
    """Return a time as a time where the event says that a number is one; anything else as it is."""
    if not isinstance(value, int) or isinstance(value, bool):
        if isinstance(value, str) and meaning == "io.debezium.time.ZonedTimestamp":
            return datetime.fromisoformat(value).astimezone(UTC)
        return value
    try:
        match meaning:
            case "io.debezium.time.Date":
                return date(1970, 1, 1) + timedelta(days=value)
            case "io.debezium.time.Timestamp":
                return _EPOCH + timedelta(milliseconds=value)
            case "io.debezium.time.MicroTimestamp":
                return _EPOCH + timedelta(microseconds=value)
            case "io.debezium.time.MicroTime" if 0 <= value < 86_400_000_000:
                return (_EPOCH + timedelta(microseconds=value)).time()
    except OverflowError:
        return value
    return value


def as_text(value: Any) -> str:
    """Return a value for a store that has only texts: lists and objects as JSON, times in ISO 8601."""
    if isinstance(value, str):
        return value
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    return msgspec.json.encode(value).decode()
