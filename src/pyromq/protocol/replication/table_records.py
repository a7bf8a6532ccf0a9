"""Records of `rmq_sys_PYROMQ_STATE`: changes of a broker's tables, as the master of an elected set writes them down.

body   | magic "PT" | format 1 | kind 1 | snapshot 8 | JSON: [[table, [change, ...]], ...] |
change | [section, key, value] sets an entry, [section, key] drops it, [section, null, value] sets a whole section |

`snapshot` is the offset, in the topic's queue, of the BEGIN of the newest whole snapshot before the end of this record;
-1: there is none. Between BEGIN and END all entries of all tables are written once more, as changes among other
changes; what was not set there is gone. So the newest snapshot and what follows it are all that anybody needs.

No I/O here. What another program has put into the topic, or a newer PyroMQ, is refused by name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from ...errors import ProtocolError
from ...model.table_change import DROPPED, TableChange

FORMAT = 1
NO_SNAPSHOT = -1
_HEAD = struct.Struct(">2sBBq")
_MAGIC = b"PT"
_ENOUGH_BYTES = 256 << 10  # of changes in one record: what is left goes into the next one
_DEEPEST = 32


class TableRecordRefused(ProtocolError):
    """A record of the topic that cannot be taken: says what is wrong with it."""


class RecordKind(IntEnum):
    """What a record stands for: changes alone, or the first or last record of a snapshot."""

    CHANGES = 0
    BEGIN = 1
    END = 2


class TableRecord(NamedTuple):
    """One record. `changes` has the tables in the order in which they are to be changed."""

    kind: RecordKind
    snapshot: int
    changes: Sequence[tuple[str, Sequence[TableChange]]] = ()


def encode(kind: RecordKind, snapshot: int, changes: Iterable[tuple[str, Iterable[bytes]]] = ()) -> bytes:
    """Return a record's body. The changes are those of `encode_change`."""
    tables = [b"[%s,[%s]]" % (msgspec.json.encode(table), b",".join(texts)) for table, texts in changes]
    return _HEAD.pack(_MAGIC, FORMAT, kind, snapshot) + b"[%s]" % b",".join(tables)


def encode_change(change: TableChange) -> bytes:
    return msgspec.json.encode(change.parts())


def portions(changes: Iterable[tuple[str, TableChange]]) -> Iterator[dict[str, list[bytes]]]:
    """Split changes of tables into what single records hold, encoded. Their order within a table is kept.

    None is taken from `changes` before the portion that it is in is wanted."""
    tables: dict[str, list[bytes]] = {}
    size = 0
    for table, change in changes:
        text = encode_change(change)
        tables.setdefault(table, []).append(text)
        size += len(text)
        if size >= _ENOUGH_BYTES:
            yield tables
            tables, size = {}, 0
    if tables:
        yield tables


def decode(body: bytes, known: Mapping[str, Any] | frozenset[str]) -> TableRecord:
    """Return the record. TableRecordRefused: it is none, or of a newer format, or of a table that is not `known`."""
    if len(body) < _HEAD.size:
        raise TableRecordRefused(f"{len(body)} bytes: a record of table changes has {_HEAD.size} before its changes")
    magic, version, kind, snapshot = _HEAD.unpack_from(body)
    if magic != _MAGIC:
        raise TableRecordRefused(f"it begins with {magic!r}: no record of table changes, which begin with {_MAGIC!r}")
    if version != FORMAT:
        raise TableRecordRefused(
            f"its format is {version}, this PyroMQ knows {FORMAT}: upgrade this broker, or the one that wrote it"
        )
    if kind not in RecordKind._value2member_map_:
        raise TableRecordRefused(f"its kind is {kind}: there are {', '.join(f'{one:d}' for one in RecordKind)}")
    if snapshot < NO_SNAPSHOT:
        raise TableRecordRefused(f"it says that the newest snapshot begins at {snapshot}, which no offset is")
    try:
        tables = msgspec.json.decode(memoryview(body)[_HEAD.size :], type=list[tuple[str, list[list[Any]]]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise TableRecordRefused(f"its changes cannot be read: {fault}") from None
    for table, _ in tables:
        if table not in known:
            raise TableRecordRefused(f"it changes the table {table[:100]!r}, which this PyroMQ does not have")
    return TableRecord(
        RecordKind(kind), snapshot, [(table, [_change(table, one) for one in parts]) for table, parts in tables]
    )


def _change(table: str, parts: list[Any]) -> TableChange:
    if len(parts) not in (2, 3) or not isinstance(parts[0], str):
        raise TableRecordRefused(f"a change of {table} is no section, key and value: {_short(parts)}")
    section, key = parts[:2]
    value = parts[2] if len(parts) == 3 else DROPPED
    if isinstance(key, bool) or not isinstance(key, str | int | None) or (key is None and value is DROPPED):
        raise TableRecordRefused(f"a change of {table} has no key: {_short(parts)}")
    if _depth(value) > _DEEPEST:
        raise TableRecordRefused(f"a change of {table} is nested deeper than {_DEEPEST}")
    return TableChange(section, key, value)


def _short(parts: list[Any]) -> str:
    return repr(parts)[:100]


def _depth(value: Any) -> int:
    """Return how deep a value is nested, without going deeper than is allowed."""
    level, depth = [value], 0
    while level and depth <= _DEEPEST:
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.values())
            elif isinstance(one, list):
                inner.extend(one)
        if not any(isinstance(one, dict | list) for one in level):
            return depth
        level, depth = inner, depth + 1
    return depth
