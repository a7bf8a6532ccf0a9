"""Change events as bytes: Debezium's JSON envelope, and what stands in the properties of their messages. Pure.

Capture encodes with it, sinks decode with it. An envelope is `{"before", "after", "source", "op", "ts_ms"}`; with
schemas it stands in `{"schema", "payload"}`, as Kafka Connect writes it. RocketMQ has no message key: the key is a
property, and its text is the sharding key too, so that the changes of one row stay in one queue and in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from ..errors import PyroError
from ..model.wire_text import whole_number

# Debezium's text for a column whose value the log does not have, which is something other than NULL.
UNAVAILABLE = "__debezium_unavailable_value"
TOMBSTONE_BODY = b"null"  # brokers refuse an empty body

KEY_PROPERTY = "cdcKey"  # the key as a JSON object; a row of a table without a key has none
NUMBER_PROPERTY = "cdcNumber"  # counts the events of a source: grows, the same for an event that is sent again
OP_PROPERTY = "cdcOp"
NEW_KEY_PROPERTY = "__debezium.newkey"  # on the delete of a row whose key changed: its new key
OLD_KEY_PROPERTY = "__debezium.oldkey"  # on the create that follows

Row = dict[str, Any]


class BadEvent(PyroError):
    """A message that is no change event. The text says of which topic, and what is wrong with it."""


class Op(StrEnum):
    """What happened to the row; `READ` is a row of a snapshot, `TOMBSTONE` follows a delete where that is asked for."""

    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    READ = "r"
    TRUNCATE = "t"
    TOMBSTONE = "tombstone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEvent:
    """One change as a sink sees it. `after` is None of a delete, `before` where the log does not have it.

    Columns that the log does not have are in neither row: absent, while NULL is None.
    """

    op: Op
    key: Row | None
    before: Row | None
    after: Row | None
    source: Row
    ts_ms: int
    number: int  # of the source's events: a sink keeps the highest it has applied, and drops what is not above it
    transaction: Row | None = None  # id, total_order and data_collection_order, where the capture has `transactions`
    unavailable: frozenset[str] = frozenset()  # columns of `after` that the log does not have: they are as they were

    @property
    def table(self) -> str:
        """Return where the row is, as `database.table`; of PostgreSQL `database.schema.table`."""
        parts = (self.source.get("db"), self.source.get("schema"), self.source.get("table"))
        return ".".join(str(part) for part in parts if part)


def encode_key(key: Mapping[str, Any] | None) -> str | None:
    """Return the key as compact JSON, in the order of the key's columns. No control characters are in it."""
    return None if key is None else msgspec.json.encode(key).decode()


def encode_event(
    op: Op,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    source: Mapping[str, Any],
    ts_ms: int,
    *,
    schema: Mapping[str, Any] | None = None,
    transaction: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the body of a message; with the schema part if a schema is given."""
    envelope: dict[str, Any] = {"before": before, "after": after, "source": source, "op": op.value, "ts_ms": ts_ms}
    if transaction is not None:
        envelope["transaction"] = transaction
    return msgspec.json.encode(envelope if schema is None else {"schema": schema, "payload": envelope})


def decode_event(topic: str, body: bytes, properties: Mapping[str, str]) -> ChangeEvent:
    """Return the event of a message, with or without a schema part. BadEvent if it is none."""
    key = _decoded(topic, "its key", properties[KEY_PROPERTY].encode()) if KEY_PROPERTY in properties else None
    if not isinstance(key, dict | None):
        raise BadEvent(f"a message of topic {topic} has {KEY_PROPERTY}={properties[KEY_PROPERTY]}, which is no object")
    envelope = _decoded(topic, "its body", body)
    number = _number(topic, properties)
    if envelope is None:
        return ChangeEvent(op=Op.TOMBSTONE, key=key, before=None, after=None, source={}, ts_ms=0, number=number)
    if isinstance(envelope, dict) and "payload" in envelope and "op" not in envelope:
        envelope = envelope["payload"]
    if not isinstance(envelope, dict) or not isinstance(envelope.get("source"), dict):
        raise BadEvent(f"a message of topic {topic} is no change event: it has no source. Did another program send it?")
    for name in ("before", "after"):
        if not isinstance(envelope.get(name), dict | None):
            raise BadEvent(f"a message of topic {topic} is no change event: its {name!r} is no row")
    try:
        op = Op(str(envelope.get("op")))
    except ValueError:
        raise BadEvent(
            f"a message of topic {topic} has the operation {envelope.get('op')!r}: c, u, d, r and t are known"
        ) from None
    return ChangeEvent(
        op=op,
        key=key,
        before=_present(envelope.get("before")),
        after=_present(envelope.get("after")),
        source=envelope["source"],
        ts_ms=envelope.get("ts_ms") or 0,
        number=number,
        transaction=envelope.get("transaction"),
        unavailable=frozenset(name for name, value in (envelope.get("after") or {}).items() if value == UNAVAILABLE),
    )


def _present(row: Row | None) -> Row | None:
    """Return the columns that the log has."""
    return None if row is None else {name: value for name, value in row.items() if value != UNAVAILABLE}


def _decoded(topic: str, what: str, text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise BadEvent(f"a message of topic {topic} is no change event: {what} is not JSON ({fault})") from None


def _number(topic: str, properties: Mapping[str, str]) -> int:
    text = properties.get(NUMBER_PROPERTY)
    if text is None:  # Debezium's own events have none
        return -1
    if (number := whole_number(text)) is None:
        raise BadEvent(f"a message of topic {topic} has {NUMBER_PROPERTY}={text!r}, which is no number")
    return number
