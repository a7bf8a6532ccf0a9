"""An archive's rows as an Iceberg table: snapshots are committed by the package `pyiceberg`, rows are written by Spark.

A batch is one snapshot; its number becomes a property of the table in the same commit, so what was committed is known
after any kill, also when old snapshots have been removed. The catalog is one that `pyiceberg` is configured for (its
file or environment variables), or, without a name, a SQLite file beside the table: then the folder is on a disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from ...errors import PyroError
from .catalog import open_catalog
from .table_files import NewFile

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyspark.sql.types import StructType

NAME = "archive.messages"
_BY = ("topic", "date")
_WORDS = {"bigint": "long", "timestamp": "timestamptz"}  # types whose names differ from Spark's


class IcebergTable:
    """`place` is the folder of the rows, `run` the archive's name; `catalog` and `name` say which table."""

    def __init__(self, place: str, run: str, catalog: str, name: str) -> None:
        self._place = place
        self._mark = f"pyromq.batch.{run}"
        self._catalog = catalog
        self._name = name or NAME

    def has(self, batch: int) -> bool:
        with self._connect() as catalog:
            if not catalog.table_exists(self._name):
                return False
            return int(catalog.load_table(self._name).properties.get(self._mark, -1)) >= batch

    def add(self, files: Sequence[NewFile], batch: int, schema: StructType) -> None:
        """Make the files part of the table together, and the batch with them."""
        paths = [f"{self._place}/{each.path}" for each in files]
        with self._connect() as catalog:
            table = catalog.load_table(self._name) if catalog.table_exists(self._name) else self._made(catalog, schema)
            with table.transaction() as commit:
                commit.add_files(paths, snapshot_properties={self._mark: str(batch)}, check_duplicate_files=False)
                commit.set_properties({self._mark: str(batch)})

    def files(self) -> list[str]:
        with self._connect() as catalog:
            tasks = list(catalog.load_table(self._name).scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise PyroError(
                f"{self._name}: rows were deleted from the table by delete files, which are not read here. "
                "Rewrite the data files first (rewrite_data_files)"
            )
        return [task.file.file_path for task in tasks]

    def _connect(self) -> Catalog:
        return open_catalog(self._place, self._catalog)

    def _made(self, catalog: Catalog, schema: StructType) -> Table:
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.transforms import IdentityTransform

        columns = columns_of(schema)
        fields = [
            PartitionField(columns.find_field(name).field_id, 1000 + number, IdentityTransform(), name)
            for number, name in enumerate(_BY)
        ]
        catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        return catalog.create_table(self._name, columns, partition_spec=PartitionSpec(*fields))


def columns_of(schema: StructType) -> Schema:
    """Return the columns of Spark's schema, with the ids that Iceberg gives to columns."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import MapType, NestedField, StringType

    ids, text, found = count(1), StringType(), []
    for each in schema.fields:
        field_id, name = next(ids), each.dataType.simpleString()
        kind: Any = _WORDS.get(name, name)
        if name == "map<string,string>":
            kind = MapType(next(ids), text, next(ids), text, value_required=False)
        found.append(NestedField(field_id, each.name, kind, required=False))
    return Schema(*found)
