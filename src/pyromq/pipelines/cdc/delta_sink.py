"""Rows as Delta tables, one for each table of the source: a MERGE for each piece, by key and by number.

New columns come into the table's schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from ...errors import PyroError
from ...text.extras import install_command
from .lake_rows import NUMBER, alike, as_arrow
from .rows import UNNUMBERED, RowWrite
from .sinks import Applied, OpenSink, SinkAway, SinkRefused

# What is wrong with a row itself: a condition of the table that it breaks, or a value that its column cannot hold.
_REFUSALS = ("failed validation check", "Cast error", "Schema error", "Cannot cast schema")


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
        found = Applied()
        try:
            for part in alike(writes):
                found = found.plus(self._merge(part))
        except PyroError:
            raise
        except Exception as fault:  # a storage at fault, or somebody else wrote: their kinds do not tell them apart
            if any(words in str(fault) for words in _REFUSALS):
                raise SinkRefused(f"{self._folder}: {_words(fault)}") from None
            raise SinkAway(f"{self._folder}: {_words(fault)}") from None
        return found

    def sweep(self, table: str, below: int) -> int:
        from deltalake import DeltaTable

        place = f"{self._folder}/{table}"
        try:
            if not DeltaTable.is_deltatable(place):
                return 0
            done = DeltaTable(place).delete(f"`{NUMBER}` < {below}")
        except Exception as fault:
            raise SinkAway(f"{self._folder}: {_words(fault)}") from None
        count: int = done["num_deleted_rows"] or 0
        return count

    def _merge(self, writes: Sequence[RowWrite]) -> Applied:
        """Merge rows of one table that have the same columns, as what they are: new, changed, deleted."""
        from deltalake import DeltaTable, write_deltalake

        first = writes[0]
        place = f"{self._folder}/{first.table}"
        table = DeltaTable(place) if DeltaTable.is_deltatable(place) else None
        known = {} if table is None else {field.name: field.type for field in pa.schema(table.schema().to_arrow())}
        rows = as_arrow(writes, known)
        if table is None:
            write_deltalake(place, rows)
            return Applied(len(writes) - _deleted(writes), _deleted(writes))
        for name in known.keys() - set(rows.column_names) - first.kept:  # the source has them no more
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


def _words(fault: Exception) -> str:
    """Return what it says, without the stack of the library."""
    return " ".join(str(fault).partition("\n   0:")[0].split())
