"""Rows as Delta tables, one for each table of the source: a MERGE for each piece, by key and by number.

A row keeps the number of its last event in `cdcNumber`. One that is deleted stays with its key and `cdcDeleted`, so
that no late event brings it back; readers choose `WHERE NOT cdcDeleted`. New columns come into the table's schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

import msgspec
import pyarrow as pa

from ...errors import PyroError
from ...text.extras import install_command
from .rows import UNNUMBERED, RowWrite
from .sinks import Applied, OpenSink, SinkAway, SinkRefused

NUMBER, DELETED = "cdcNumber", "cdcDeleted"
_OWN = {NUMBER: pa.int64(), DELETED: pa.bool_()}


@dataclass(frozen=True)
class DeltaSink:
    """`folder` has a folder for each table. One task at a time writes there."""

    folder: str

    @property
    def place(self) -> str:
        return f"Delta tables in {self.folder}"

    def check(self, *, dry_run: bool = False) -> None:
        """Raise PyroError if the package is missing."""
        try:
            import deltalake  # noqa: F401
        except ImportError:
            raise PyroError(f"Delta tables need the package deltalake: {install_command('lake')}") from None

    @contextmanager
    def opened(self) -> Iterator[OpenSink]:
        yield _OpenDelta(self.folder)


class _OpenDelta:
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def apply(self, writes: Sequence[RowWrite]) -> Applied:
        from deltalake.exceptions import CommitFailedError, DeltaError

        found = Applied()
        try:
            for part in _alike(writes):
                found = found.plus(self._merge(part))
        except CommitFailedError as fault:  # somebody else wrote at this moment
            raise SinkAway(f"{self._folder}: {fault}") from None
        except DeltaError as fault:
            raise SinkRefused(f"{self._folder}: {fault}") from None
        return found

    def _merge(self, writes: Sequence[RowWrite]) -> Applied:
        """Merge rows of one table that have the same columns, as what they are: new, changed, deleted."""
        from deltalake import DeltaTable, write_deltalake

        first = writes[0]
        place = f"{self._folder}/{first.table}"
        table = DeltaTable(place) if DeltaTable.is_deltatable(place) else None
        known = {} if table is None else {field.name: field.type for field in pa.schema(table.schema().to_arrow())}
        rows = _as_arrow(writes, known)
        if table is None:
            write_deltalake(place, rows)
            return Applied(len(writes) - _deleted(writes), _deleted(writes))
        if first.values is None or first.is_whole:  # columns that it does not have are null from now on
            for name in known.keys() - set(rows.column_names):
                rows = rows.append_column(name, pa.nulls(len(rows), known[name]))
        changed = {f"`{name}`": f"s.`{name}`" for name in rows.column_names}
        same = " AND ".join(f"t.`{name}` = s.`{name}`" for name in first.key)
        merge = table.merge(rows, same, source_alias="s", target_alias="t", merge_schema=True)
        newer = f"s.`{NUMBER}` > t.`{NUMBER}` OR s.`{NUMBER}` = {UNNUMBERED}"
        done = merge.when_matched_update(changed, predicate=newer).when_not_matched_insert(changed).execute()
        count: int = done["num_target_rows_inserted"] + done["num_target_rows_updated"]
        is_deletion = first.values is None
        return Applied(0 if is_deletion else count, count if is_deletion else 0, len(writes) - count)


def _deleted(writes: Sequence[RowWrite]) -> int:
    return sum(write.values is None for write in writes)


def _alike(writes: Sequence[RowWrite]) -> list[list[RowWrite]]:
    """Return the writes by table, columns, and kind: what one MERGE can do."""
    found: dict[Any, list[RowWrite]] = {}
    for write in writes:
        names = frozenset(write.values or ())
        found.setdefault((write.table, names, write.values is None, write.is_whole), []).append(write)
    return list(found.values())


def _as_arrow(writes: Sequence[RowWrite], known: Mapping[str, pa.DataType]) -> pa.Table:
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
