"""Changes of rows as messages: topic, key, body and properties. Pure, and the same again for the same changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ...model.message import Property
from ..changes import RowChange, SourceTable
from ..events import (
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
from ..rules import Rules
from ..schema.envelope_schema import schema_of
from .captured import Captured
from .transactions import Boundaries


def messages_of(
    changes: Iterable[RowChange],
    rules: Rules,
    first_number: int,
    now_ms: int,
    boundaries: Boundaries | None = None,
    *,
    is_over: bool = True,
) -> Iterator[Captured]:
    """Yield the messages of all changes, numbered from the first number on.

    With boundaries each event says where it is in its transaction, and those begin and end; `is_over`: behind these
    changes none is under way.
    """
    for number, message in enumerate(_bounded(changes, rules, now_ms, boundaries, is_over), first_number):
        message.properties[NUMBER_PROPERTY] = str(number)
        yield message


def _bounded(
    changes: Iterable[RowChange], rules: Rules, now_ms: int, boundaries: Boundaries | None, is_over: bool
) -> Iterator[Captured]:
    encoder = _Encoder(rules, now_ms, boundaries)
    for change in changes:
        if boundaries is not None:
            yield from boundaries.before(change)
        yield from encoder.of_one(change)
    if boundaries is not None and is_over:
        yield from boundaries.end()


class _Encoder(NamedTuple):
    """Makes the messages of one change after the other."""

    rules: Rules
    now_ms: int
    boundaries: Boundaries | None

    def of_one(self, change: RowChange) -> Iterator[Captured]:
        table = change.table
        before_key = None if change.before is None else _whole_key(table, change.before)
        after_key = None if change.after is None else _whole_key(table, change.after)
        if change.op is Op.UPDATE and before_key and after_key and before_key != after_key:
            # As Debezium has it: to whoever keeps rows by key, a row under another key is another row.
            moved_from, moved_to = encode_key(before_key) or "", encode_key(after_key) or ""
            deleted = replace(change, op=Op.DELETE, after=None)
            yield from self._deleted(deleted, before_key, {NEW_KEY_PROPERTY: moved_to})
            created = replace(change, op=Op.CREATE, before=None)
            yield self._message(created, after_key, {OLD_KEY_PROPERTY: moved_from})
        elif change.op is Op.DELETE:
            yield from self._deleted(change, before_key, {})
        else:
            yield self._message(change, after_key or before_key, {})

    def _deleted(self, change: RowChange, key: Row | None, extra: dict[str, str]) -> Iterator[Captured]:
        yield self._message(change, key, extra)
        if self.rules.tombstones and key is not None:
            yield _captured(change.table, self.rules, Op.TOMBSTONE, key, TOMBSTONE_BODY, {})

    def _message(self, change: RowChange, key: Row | None, extra: dict[str, str]) -> Captured:
        table, rules = change.table, self.rules
        body = encode_event(
            change.op,
            rules.shown(table, change.before),
            rules.shown(table, change.after),
            change.source,
            self.now_ms,
            schema=schema_of(table, rules, str(change.source.get("connector"))) if rules.schemas else None,
            transaction=None if self.boundaries is None else self.boundaries.block(table),
        )
        return _captured(table, rules, change.op, key, body, extra)


def _whole_key(table: SourceTable, row: Row) -> Row | None:
    key = table.key_of(row)
    return None if key is None or UNAVAILABLE in key.values() else key


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
