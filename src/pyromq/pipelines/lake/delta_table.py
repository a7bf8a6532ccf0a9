"""An archive's rows as a Delta table: the log is written by the package `deltalake`, the rows by Spark. Needs no jar.

A batch is one commit, and its number stands in the log as the transaction of the archive's name: what was committed is
known after any kill. Credentials of object stores are those of `deltalake`'s own environment variables.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ...errors import PyroError
from .table_files import NewFile

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql.types import StructType

_DELETIONS = "deletionVectors"


class DeltaLog:
    """`place` is the table's folder, `run` the archive's name."""

    def __init__(self, place: str, run: str) -> None:
        if "%" in place:  # the package would look for its log elsewhere
            raise PyroError(f"{place}: a Delta table's path may have no % in it; take another folder")
        self._place = place
        self._run = run

    def has(self, batch: int) -> bool:
        table = self._open()
        last = None if table is None else table.transaction_version(self._run)
        return last is not None and last >= batch

    def add(self, files: Sequence[NewFile], batch: int, schema: StructType) -> None:
        """Make the files part of the table together, and the batch with them."""
        from deltalake import Schema
        from deltalake.transaction import AddAction, CommitProperties, Transaction, create_table_with_add_actions

        actions = [AddAction(each.path, each.size, {}, each.modified_ms, True, _stats(each)) for each in files]
        mark = CommitProperties(app_transactions=[Transaction(self._run, batch)])
        table = self._open()
        if table is None:
            wanted = Schema.from_json(schema.json())  # Delta writes schemas in Spark's words
            create_table_with_add_actions(self._place, wanted, actions, commit_properties=mark)
        else:
            table.create_write_transaction([*actions], "append", table.schema(), commit_properties=mark)

    def files(self) -> list[str]:
        table = self._open()
        if table is None:
            raise PyroError(f"{self._place} holds no Delta table")
        if _DELETIONS in (table.protocol().reader_features or ()):
            raise PyroError(
                f"{self._place}: rows were deleted from the table by deletion vectors, which are not read here. "
                "Rewrite the files first (REORG TABLE ... APPLY (PURGE))"
            )
        paths = [unquote(str(path)) for path in table.get_add_actions(flatten=True).column("path").to_pylist()]
        return [path if path.startswith("/") or "://" in path else f"{self._place}/{path}" for path in paths]

    def _open(self) -> DeltaTable | None:
        from deltalake import DeltaTable

        return DeltaTable(self._place) if DeltaTable.is_deltatable(self._place) else None


def _stats(file: NewFile) -> str:
    values = {"minValues": _words(file.least), "maxValues": _words(file.most)}
    return json.dumps({"numRecords": file.rows, **values, "nullCount": dict.fromkeys(file.least, 0)})


def _words(values: dict[str, Any]) -> dict[str, Any]:
    """Return dates and times as Delta writes them. Spark gives times in the zone of this process."""
    found = {}
    for name, value in values.items():
        if isinstance(value, datetime):
            value = value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found[name] = value.isoformat() if isinstance(value, date) else value
    return found
