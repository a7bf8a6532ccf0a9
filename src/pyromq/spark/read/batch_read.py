"""`spark.read.format("rocketmq")` from brokers: the plan, made once on the driver's side, and its tasks.

The plan is narrowed by filters of the query, unless `filterPushdown=false`: see pushed_filters.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ..failures import shown_in_a_sentence
from ..options import ReadOptions
from ..schema import arrow_of
from .offsets import OffsetRange, Queue, split
from .pushed_filters import OFFSET, QUEUE_COLUMNS, FilteringReader
from .starting import planned, within_times


@dataclass
class QueuePart(InputPartition):
    """One task. Everything that it needs is in it or in the options: readers are copied into other processes."""

    part: OffsetRange
    address: str


class BatchReader(FilteringReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(schema, is_asked=options.filter_pushdown)
        self._options = options
        self._schema = schema
        arrow_of(schema)  # an unknown column is an error now, not in a task

    @shown_in_a_sentence()
    def partitions(self) -> list[QueuePart]:  # Spark takes nothing but a list
        found = planned(self._options, within_times(*self.pushed.times_ms()))
        addresses = {part.queue: address for part, address in found}
        ranges = [part for whole, _ in found if (part := self.pushed.narrowed(whole)) is not None]
        return parts_of(ranges, addresses, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self.pushed.with_tags(self._options)
        left = self.pushed.row_filter(exact=(*QUEUE_COLUMNS, OFFSET))
        for batch in read_part(partition, options, self._schema):
            yield batch if left is None else batch.filter(left)


def parts_of(found: list[OffsetRange], queues: dict[Queue, str], options: ReadOptions) -> list[QueuePart]:
    pieces = split(found, options.min_partitions, options.max_records_per_partition)
    return [QueuePart(part, queues.get(part.queue, "")) for part in pieces]


def read_part(partition: InputPartition, options: ReadOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    from .pulling import read_range

    if isinstance(partition, QueuePart):  # Spark makes a task of its own where there is none
        with shown_in_a_sentence():
            yield from read_range(partition.part, partition.address, options, arrow_of(schema))
