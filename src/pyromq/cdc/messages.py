"""Changes of rows as messages: topic, key, body and properties. Pure, and the same again for the same changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from ..model.message import Property
from .changes import RowChange, SourceTable
from .events import (
    KEY_PROPERTY,
    NEW_KEY_PROPERTY,
    NUMBER_PROPERTY,
    OLD_KEY_PROPERTY,
    OP_PROPERTY,
    TOMBSTONE_BODY,
    UNAVAILABLE,
    Op,
    Row,
    encode_event,
    encode_key,
)
from .rules import Rules
from .schema.envelope_schema import schema_of


class Captured(msgspec.Struct, frozen=True, array_like=True):
    """One message before it has a queue. Messages of the same topic and `lane` stay in order."""

    topic: str
    lane: str
    body: bytes
    properties: dict[str, str]


def messages_of(changes: Iterable[RowChange], rules: Rules, first_number: int, now_ms: int) -> Iterator[Captured]:
    """Yield the messages of all changes, numbered from the first number on."""
    number = first_number
    for change in changes:
        for message in _of_one(change, rules, now_ms):
            message.properties[NUMBER_PROPERTY] = str(number)
            number += 1
            yield message


def _of_one(change: RowChange, rules: Rules, now_ms: int) -> Iterator[Captured]:
    table = change.table
    before_key = None if change.before is None else _whole_key(table, change.before)
    after_key = None if change.after is None else _whole_key(table, change.after)
    if change.op is Op.UPDATE and before_key and after_key and before_key != after_key:
        # As Debezium has it: to whoever keeps rows by key, a row under another key is another row.
        moved_from, moved_to = encode_key(before_key) or "", encode_key(after_key) or ""
        yield from _deleted(replace(change, op=Op.DELETE, after=None), rules, now_ms, {NEW_KEY_PROPERTY: moved_to})
        created = replace(change, op=Op.CREATE, before=None)
        yield _message(created, rules, now_ms, after_key, {OLD_KEY_PROPERTY: moved_from})
    elif change.op is Op.DELETE:
        yield from _deleted(change, rules, now_ms, {})
    else:
        yield _message(change, rules, now_ms, after_key or before_key, {})


def _deleted(change: RowChange, rules: Rules, now_ms: int, extra: dict[str, str]) -> Iterator[Captured]:
    key = None if change.before is None else _whole_key(change.table, change.before)
    yield _message(change, rules, now_ms, key, extra)
    if rules.tombstones and key is not None:
        yield _captured(change.table, rules, Op.TOMBSTONE, key, TOMBSTONE_BODY, {})


def _whole_key(table: SourceTable, row: Row) -> Row | None:
    key = table.key_of(row)
    return None if key is None or UNAVAILABLE in key.values() else key


def _message(change: RowChange, rules: Rules, now_ms: int, key: Row | None, extra: dict[str, str]) -> Captured:
    table = change.table
    body = encode_event(
        change.op,
        rules.shown(table, change.before),
        rules.shown(table, change.after),
        change.source,
        now_ms,
        schema=schema_of(table, rules) if rules.schemas else None,
    )
    return _captured(table, rules, change.op, key, body, extra)


def _captured(
    table: SourceTable, rules: Rules, op: Op, key: Row | None, body: bytes, extra: dict[str, str]
) -> Captured:
    """Return the message. Without a key all rows of the table are one lane: only their order tells them apart."""
    text = encode_key(key)
    properties = {OP_PROPERTY: op.value, Property.TAGS: op.value, **extra}
    if text is not None:
        properties[KEY_PROPERTY] = properties[Property.SHARDING_KEY] = text
        words = [str(value) for value in (key or {}).values()]
        if all(word and not any(letter.isspace() or letter < " " for letter in word) for word in words):
            properties[Property.KEYS] = "_".join(words)  # `pyromq msg search` finds the changes of a row by it
    return Captured(rules.topic_of(table.full_name), text or "", body, properties)
