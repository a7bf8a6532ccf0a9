"""Both sides as Spark's tasks read them: checksums of chunks, or the rows of some chunks.

The source's rows go the way that they would go as events: by the rules of the capture, folded as a sink's are, and then
shown as the sink keeps them. So nothing is compared that the sink was never given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ...cdc.changes import RowChange
from ...cdc.config import CdcConfig
from ...cdc.databases import open_rows
from ...cdc.outgoing.messages import messages_of
from ..cdc.rows import ChangeMessage, RowWrite, fold
from .chunks import Checksum, Chunks, ComparedRow, TaskPart, hash_of
from .views import ComparedTable, SinkView

SOURCE, SINK = 0, 1
_SUMS = "chunk int, rows bigint, total bigint, others string"
_SUMS_ARROW = pa.schema({"chunk": pa.int32(), "rows": pa.int64(), "total": pa.int64(), "others": pa.string()})
_SIGN = 1 << 63  # Spark's numbers have one
# As `reconcile` judges messages: by id, and by what is compared of them.
_ROWS = "id string, topic string, side int, hash bigint, storeSize bigint, place string, chunk int, row string"
_ROWS_ARROW = pa.schema(
    {"id": pa.string(), "topic": pa.string(), "side": pa.int32(), "hash": pa.int64(), "storeSize": pa.int64(),
     "place": pa.string(), "chunk": pa.int32(), "row": pa.string()}
)  # fmt: skip
_BATCH = 1_000

Yielded = Iterator[pa.RecordBatch]


class Side(Protocol):
    """One of the two. It travels to tasks."""

    def read(self, piece: TaskPart) -> Iterator[ComparedRow]: ...


@dataclass(frozen=True)
class SourceSide:
    config: CdcConfig
    view: SinkView
    table: ComparedTable

    def read(self, piece: TaskPart) -> Iterator[ComparedRow]:
        """Yield the rows of the source, as the sink keeps them."""
        rows = open_rows(self.config)
        try:
            with self.view.opened(self.table) as view:
                for within in piece.ranges:
                    for page in rows.rows(self.table.name, within):
                        yield from view.expected(writes_of(page, self.config))
        finally:
            rows.close()


@dataclass(frozen=True)
class SinkSide:
    view: SinkView
    table: ComparedTable

    def read(self, piece: TaskPart) -> Iterator[ComparedRow]:
        """Yield the rows of the sink."""
        with self.view.opened(self.table) as view:
            yield from view.rows(piece)


def writes_of(rows: list[RowChange], config: CdcConfig) -> list[RowWrite]:
    """Return what a sink would be told of these rows."""
    sent = messages_of(rows, config.rules, 1, 0)
    messages = (
        ChangeMessage(each.topic, 0, at, each.body, {**each.properties, "cdcNumber": str(at)})
        for at, each in enumerate(sent)
    )
    return list(fold(messages).writes.values())


@dataclass(frozen=True)
class SideTask:
    """How tasks read one side: each row of the frame that they map is the number of a piece."""

    number: int
    side: Side
    chunks: Chunks
    pieces: list[TaskPart]
    wanted: frozenset[int] = field(default_factory=frozenset)
    look: int = 0  # which one it is: Spark takes two plans that are the same for one, and keeps what it has persisted

    def sums(self, batches: Yielded) -> Yielded:
        """Yield the checksum of each chunk, as far as it is in the pieces of a task."""
        found: dict[int, Checksum] = {}
        others: set[str] = set()
        for row in self._rows(batches):
            chunk = self.chunks.of(row)
            found[chunk] = found.get(chunk, Checksum()).plus(hash_of(f"{row.key}\n{row.text}"))
            others |= row.others
        names = "\n".join(sorted(others))
        rows = [
            {"chunk": chunk, "rows": each.rows, "total": each.total - _SIGN, "others": names}
            for chunk, each in found.items()
        ]
        yield pa.RecordBatch.from_pylist(rows, _SUMS_ARROW)

    def listed(self, batches: Yielded) -> Yielded:
        """Yield the rows of the wanted chunks."""
        rows: list[dict[str, object]] = []
        for row in self._rows(batches):
            chunk = self.chunks.of(row)
            if chunk not in self.wanted:
                continue
            text = row.text
            number = hash_of(text) - _SIGN
            rows.append(
                {"id": row.key, "topic": "", "side": self.number, "hash": number, "storeSize": len(text),
                 "place": "", "chunk": chunk, "row": text}
            )  # fmt: skip
            if len(rows) == _BATCH:
                yield pa.RecordBatch.from_pylist(rows, _ROWS_ARROW)
                rows = []
        yield pa.RecordBatch.from_pylist(rows, _ROWS_ARROW)

    def _rows(self, batches: Yielded) -> Iterator[ComparedRow]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from self.side.read(self.pieces[number])

    def mapped(self, spark: SparkSession, how: Callable[[Yielded], Yielded], columns: str) -> DataFrame:
        count = len(self.pieces)
        return spark.range(0, count, 1, count).mapInArrow(how, columns)


def sums_of(spark: SparkSession, task: SideTask) -> tuple[dict[int, Checksum], set[str]]:
    """Return the checksums of a side's chunks, and the columns that only the sink has."""
    found: dict[int, Checksum] = {}
    others: set[str] = set()
    for chunk, rows, total, names in task.mapped(spark, task.sums, _SUMS).collect():
        found[chunk] = found.get(chunk, Checksum()).merged(Checksum(rows, total + _SIGN))
        others |= set(filter(None, names.split("\n")))
    return found, others


def rows_of_chunks(spark: SparkSession, task: SideTask) -> DataFrame:
    """Return the rows of a side's wanted chunks. Nothing is read yet."""
    return task.mapped(spark, task.listed, _ROWS)
