"""Rows as Iceberg tables, one for each table of the source: a commit for each piece replaces the rows that changed.

The rows of the piece's keys are read, those with a higher number stay, and the others are deleted and written in one
commit, with the columns that are new. If somebody else has committed in between, nothing is changed, and the piece is
tried again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import PyroError
from ...text.extras import install_command
from ..lake.catalog import open_catalog
from .lake_rows import NUMBER, alike, as_arrow
from .rows import UNNUMBERED, RowWrite
from .sinks import Applied, OpenSink, SinkAway

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table


@dataclass(frozen=True)
class IcebergSink:
    """`folder` has the tables and their catalog, or `catalog` is one that pyiceberg knows. One task writes."""

    folder: str
    catalog: str = ""

    @property
    def place(self) -> str:
        return f"Iceberg tables of catalog {self.catalog}" if self.catalog else f"Iceberg tables in {self.folder}"

    def check(self, *, dry_run: bool = False) -> None:
        """Raise PyroError if the package is missing, or there is no such catalog."""
        try:
            from pyiceberg.exceptions import NoSuchTableError  # noqa: F401
        except ImportError:
            raise PyroError(f"Iceberg tables need the package pyiceberg: {install_command('lake')}") from None
        if not self.catalog and dry_run:
            return  # which would make the catalog's file
        try:
            with open_catalog(self.folder, self.catalog) as catalog:
                catalog.list_namespaces()
        except PyroError:
            raise
        except Exception as fault:  # each catalog has errors of its own
            raise PyroError(
                f"{self.place}: the catalog cannot be used: {' '.join(str(fault).split())}. Name one that is in "
                "pyiceberg's configuration (~/.pyiceberg.yaml, or PYICEBERG_CATALOG__NAME__URI)"
            ) from None

    @contextmanager
    def opened(self) -> Iterator[OpenSink]:
        found = _OpenIceberg(self)
        try:
            yield found
        finally:
            found.close()


class _OpenIceberg:
    """Opens the catalog with the first rows, and anew after each fault."""

    def __init__(self, sink: IcebergSink) -> None:
        self._sink = sink
        self._open: Catalog | None = None

    @property
    def _catalog(self) -> Catalog:
        if self._open is None:
            self._open = open_catalog(self._sink.folder, self._sink.catalog)
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None

    def apply(self, writes: Sequence[RowWrite]) -> Applied:
        found = Applied()
        with self._or_away():
            for part in alike(writes):
                found = found.plus(self._replace(part))
        return found

    def sweep(self, table: str, below: int) -> int:
        from pyiceberg.expressions import LessThan

        with self._or_away():
            found = self._table(table)
            older: Any = LessThan(NUMBER, below)  # type: ignore[arg-type, call-arg, misc, unused-ignore]
            count = 0 if found is None else found.scan(row_filter=older).count()
            if found is not None and count:
                found.delete(older)
        return count

    @contextmanager
    def _or_away(self) -> Iterator[None]:
        """Raise SinkAway for all but our own errors: each storage and catalog has some, and a bug shows as well."""
        try:
            yield
        except PyroError:
            raise
        except Exception as fault:
            self.close()
            raise SinkAway(f"{self._sink.place}: {type(fault).__name__}: {' '.join(str(fault).split())}") from None

    def _replace(self, writes: Sequence[RowWrite]) -> Applied:
        """Replace rows of one table that have the same columns and are all deleted, whole, or parts of rows."""
        first = writes[0]
        table = self._table(first.table)
        known = {} if table is None else {field.name: field.type for field in table.schema().as_arrow()}
        rows = as_arrow(writes, known)
        if table is None:
            table = self._made(first.table, rows.schema)
        names = list(first.key)
        old = table.scan(row_filter=_of_keys(names, _keys(rows, names))).to_arrow()
        rows = _newer(rows, old, names)
        if not len(rows):
            return Applied(repeats=len(writes))
        if not (first.values is None or first.is_whole):
            rows = _filled(rows, old, names, first.kept)
        replaced = set(_keys(rows, names)) & set(_keys(old, names))
        with table.transaction() as commit:
            with commit.update_schema() as schema:
                schema.union_by_name(rows.schema)
            rows = _in_order(rows, commit.table_metadata.schema().as_arrow())
            if replaced:
                commit.overwrite(rows, _of_keys(names, replaced))
            else:
                commit.append(rows)
        count, is_deletion = len(rows), first.values is None
        return Applied(0 if is_deletion else count, count if is_deletion else 0, len(writes) - count)

    def _table(self, name: str) -> Table | None:
        return self._catalog.load_table(name) if self._catalog.table_exists(name) else None

    def _made(self, name: str, columns: pa.Schema) -> Table:
        self._catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        return self._catalog.create_table_if_not_exists(name, columns)


def _of_keys(names: Sequence[str], keys: Collection[tuple[Any, ...]]) -> BooleanExpression:
    """Return the condition that is true of the rows with these keys."""
    from pyiceberg import expressions

    made: Any = expressions  # whose types do not know what its constructors take
    if len(names) == 1:
        found: BooleanExpression = made.In(names[0], {key[0] for key in keys})
    else:
        rows = [made.And(*(made.EqualTo(*pair) for pair in zip(names, key, strict=True))) for key in keys]
        found = rows[0] if len(rows) == 1 else made.Or(*rows)
    return found


def _keys(rows: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


def _newer(rows: pa.Table, old: pa.Table, names: list[str]) -> pa.Table:
    """Return the rows whose number is above that of the row that is there, or that have none."""
    stands = dict(zip(_keys(old, names), old.column(NUMBER).to_pylist(), strict=True))
    numbers = rows.column(NUMBER).to_pylist()
    return rows.filter(
        pa.array(
            number == UNNUMBERED or number > stands.get(key, UNNUMBERED)
            for key, number in zip(_keys(rows, names), numbers, strict=True)
        )
    )


def _filled(rows: pa.Table, old: pa.Table, names: list[str], kept: Collection[str]) -> pa.Table:
    """Return the rows with the columns that are kept as they are."""
    lacking = [name for name in old.column_names if name in kept and name not in rows.column_names]
    if not lacking:
        return rows
    there = {key: place for place, key in enumerate(_keys(old, names))}
    places = pa.array([there.get(key) for key in _keys(rows, names)], pa.int64())
    for name in lacking:
        rows = rows.append_column(name, old.column(name).take(places))
    return rows


def _in_order(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return the rows with all columns of the table; those that they lack are null."""
    return pa.table(
        [
            rows.column(each.name) if each.name in rows.column_names else pa.nulls(len(rows), each.type)
            for each in columns
        ],
        names=columns.names,
    )
