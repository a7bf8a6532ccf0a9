"""Rows as a lake has them: by kind of write, and as Arrow, with the types of the table that is there.

A row keeps the number of its last event in `cdcNumber`. One that is deleted stays with its key and `cdcDeleted`, so
that no late event brings it back; readers choose `WHERE NOT cdcDeleted`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time
from typing import Any

import msgspec
import pyarrow as pa

from .rows import RowWrite
from .sinks import SinkRefused

NUMBER, DELETED = "cdcNumber", "cdcDeleted"
_UNSIGNED = pa.decimal128(20, 0)
_OWN = {NUMBER: pa.int64(), DELETED: pa.bool_()}


def alike(writes: Sequence[RowWrite]) -> list[list[RowWrite]]:
    """Return the writes by table, columns, and kind: what one MERGE can do."""
    found: dict[Any, list[RowWrite]] = {}
    for write in writes:
        names = frozenset(write.values or ())
        found.setdefault((write.table, names, write.values is None, write.kept), []).append(write)
    return list(found.values())


def as_arrow(writes: Sequence[RowWrite], known: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the rows with the types that the table has, or, of new columns, those of the values."""
    rows: list[dict[str, Any]] = [
        {**(write.values or {}), **write.key, NUMBER: write.number, DELETED: write.values is None} for write in writes
    ]
    columns: dict[str, pa.Array] = {}
    for name in rows[0]:
        kind = _OWN.get(name) or known.get(name)
        values = [_plain(row[name]) for row in rows]
        try:
            made = pa.array(values) if kind is None else pa.array(values, kind)
            if pa.types.is_uint64(made.type):  # a lake's whole numbers have a sign
                made = made.cast(_UNSIGNED)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as fault:
            raise SinkRefused(
                f"column {name} of {writes[0].table} is {kind or 'new'} and does not take {values[0]!r} or its like "
                f"({str(fault)[:120]}): change its type in the table, or mask it at the capture"
            ) from None
        if not pa.types.is_null(made.type):  # of what is always null nobody knows the type
            columns[name] = made
    return pa.table(columns)


def _plain(value: Any) -> Any:
    """Return a value that a column can have: nested ones as JSON, times of a day as text, others in UTC."""
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value).decode()
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value.isoformat() if isinstance(value, time) else value
