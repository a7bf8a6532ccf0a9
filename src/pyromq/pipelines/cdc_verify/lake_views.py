"""Delta and Iceberg tables, looked at as they were at one version: tasks divide Delta's files, one reads Iceberg's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from ...cdc.key_ranges import KeyRange
from ..cdc.delta_sink import DeltaSink
from ..cdc.iceberg_sink import IcebergSink
from ..cdc.lake_rows import DELETED, NUMBER, alike, as_arrow
from ..cdc.rows import RowWrite
from ..cdc.sinks import SinkRefused
from ..lake.catalog import open_catalog
from .chunks import ComparedRow, TaskPart, compared
from .views import ComparedTable, OpenView

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression


@dataclass(frozen=True)
class DeltaView:
    sink: DeltaSink
    version: int | None = None
    has_shares: bool = True

    @property
    def place(self) -> str:
        return self.sink.place

    def check(self) -> None:
        self.sink.check()

    def at(self, table: ComparedTable) -> Self:
        found = self._table(table)
        return replace(self, version=None if found is None else found.version())

    def has_ranges(self, table: ComparedTable) -> bool:
        return False  # but files that have none of a range are left out

    def _table(self, table: ComparedTable) -> Any:
        from deltalake import DeltaTable

        place = f"{self.sink.folder}/{table.name}"
        return DeltaTable(place, version=self.version) if DeltaTable.is_deltatable(place) else None

    @contextmanager
    def opened(self, table: ComparedTable) -> Iterator[OpenView]:
        found = self._table(table)
        dataset = None if found is None else found.to_pyarrow_dataset()
        yield _OpenDelta(table, {} if dataset is None else _types(dataset.schema), dataset)


@dataclass(frozen=True)
class IcebergView:
    sink: IcebergSink
    snapshot: int | None = None
    has_shares: bool = False

    @property
    def place(self) -> str:
        return self.sink.place

    def check(self) -> None:
        self.sink.check()

    def at(self, table: ComparedTable) -> Self:
        with open_catalog(self.sink.folder, self.sink.catalog) as catalog:
            if not catalog.table_exists(table.name):
                return self
            found = catalog.load_table(table.name).current_snapshot()
        return replace(self, snapshot=None if found is None else found.snapshot_id)

    def has_ranges(self, table: ComparedTable) -> bool:
        return False

    @contextmanager
    def opened(self, table: ComparedTable) -> Iterator[OpenView]:
        with open_catalog(self.sink.folder, self.sink.catalog) as catalog:
            found = catalog.load_table(table.name) if catalog.table_exists(table.name) else None
            known = {} if found is None else _types(found.schema().as_arrow())
            yield _OpenIceberg(table, known, found, self.snapshot)


class _OpenLake:
    def __init__(self, table: ComparedTable, known: Mapping[str, pa.DataType]) -> None:
        self._table = table
        self._known = known

    def expected(self, writes: Sequence[RowWrite]) -> Iterator[ComparedRow]:
        for part in alike(writes):
            for write, row in zip(part, self._kept(part), strict=True):
                yield self._compared(row)._replace(first=write.key[self._table.first])

    def _kept(self, writes: Sequence[RowWrite]) -> list[dict[str, Any]]:
        """Return the rows in the types of the table; one that it does not take as it is."""
        try:
            rows = as_arrow(writes, self._known)
            lacking = [name for name in writes[0].key if name not in rows.column_names]
            return [dict.fromkeys(lacking) | row for row in rows.to_pylist()]
        except SinkRefused:
            if len(writes) == 1:
                return [{**(writes[0].values or {}), **writes[0].key}]
            return [row for write in writes for row in self._kept([write])]

    def _compared(self, row: Mapping[str, Any]) -> ComparedRow:
        key = {name: row.get(name) for name in self._table.key}
        return compared(key, self._table.first, row, self._table.columns, (NUMBER, DELETED))

    def _shown(self, batches: Iterable[pa.RecordBatch]) -> Iterator[ComparedRow]:
        for batch in batches:
            yield from map(self._compared, batch.to_pylist())


class _OpenDelta(_OpenLake):
    def __init__(self, table: ComparedTable, known: Mapping[str, pa.DataType], dataset: Any) -> None:
        super().__init__(table, known)
        self._dataset = dataset

    def rows(self, piece: TaskPart) -> Iterator[ComparedRow]:
        if self._dataset is None:
            return
        condition = self._condition(piece.ranges)
        files = sorted(self._dataset.get_fragments(condition), key=lambda file: str(file.path))
        for file in files[piece.share :: piece.shares]:
            yield from self._shown(file.to_batches(schema=self._dataset.schema, filter=condition))

    def _condition(self, ranges: Sequence[KeyRange]) -> Any:
        import pyarrow.compute as pc

        stands, first = ~pc.field(DELETED), pc.field(self._table.first)
        if not _is_whole(self._known, self._table.first) or KeyRange() in ranges:
            return stands
        found = None
        for each in ranges:
            part = pc.scalar(True)
            part = part if each.low is None else part & (first >= each.low)
            part = part if each.high is None else part & (first < each.high)
            found = part if found is None else found | part
        return stands & found


class _OpenIceberg(_OpenLake):
    def __init__(
        self, table: ComparedTable, known: Mapping[str, pa.DataType], found: Any, snapshot: int | None
    ) -> None:
        super().__init__(table, known)
        self._found = found
        self._snapshot = snapshot

    def rows(self, piece: TaskPart) -> Iterator[ComparedRow]:
        if self._found is None or self._snapshot is None:
            return
        scan = self._found.scan(row_filter=self._condition(piece.ranges), snapshot_id=self._snapshot)
        yield from self._shown(scan.to_arrow_batch_reader())

    def _condition(self, ranges: Sequence[KeyRange]) -> BooleanExpression:
        from pyiceberg import expressions

        made: Any = expressions  # whose types do not know what its constructors take
        stands: BooleanExpression = made.EqualTo(DELETED, False)
        if not _is_whole(self._known, self._table.first) or KeyRange() in ranges:
            return stands
        parts = []
        for each in ranges:
            bounds = [made.GreaterThanOrEqual(self._table.first, each.low)] if each.low is not None else []
            bounds += [made.LessThan(self._table.first, each.high)] if each.high is not None else []
            parts.append(made.And(*bounds) if len(bounds) > 1 else bounds[0])
        return made.And(stands, made.Or(*parts) if len(parts) > 1 else parts[0])  # type: ignore[no-any-return]


def _types(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema}


def _is_whole(known: Mapping[str, pa.DataType], name: str) -> bool:
    return name in known and pa.types.is_integer(known[name])
