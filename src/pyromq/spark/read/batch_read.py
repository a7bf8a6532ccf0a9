"""`spark.read.format("rocketmq")` from brokers: the plan, made once on the driver's side, and its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ..connect.cluster import Cluster
from ..options import ReadOptions
from ..spark_schema import arrow_of
from .offsets import Offsets, Queue
from .planner import OffsetRange, split
from .starting import planned


@dataclass
class QueuePart(InputPartition):
    """One task. Everything that it needs is in it or in the options: readers are copied into other processes."""

    part: OffsetRange
    address: str


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        arrow_of(schema)  # an unknown column is an error now, not in a task

    def partitions(self) -> list[QueuePart]:  # Spark takes nothing but a list
        found = planned(self._options, self.narrowed_by_time)
        addresses = {part.queue: address for part, address in found}
        return parts_of(self.narrowed([part for part, _ in found]), addresses, self._options)

    def narrowed_by_time(self, cluster: Cluster, start: Offsets, end: Offsets) -> tuple[Offsets, Offsets]:
        """Return what the query's own filters leave; see pushdown.py."""
        return start, end

    def narrowed(self, found: list[OffsetRange]) -> list[OffsetRange]:
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_part(partition, self._options, self._schema)


def parts_of(found: list[OffsetRange], queues: dict[Queue, str], options: ReadOptions) -> list[QueuePart]:
    pieces = split(found, options.min_partitions, options.max_records_per_partition)
    return [QueuePart(part, queues.get(part.queue, "")) for part in pieces]


def read_part(partition: InputPartition, options: ReadOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    from .pulling import read_range

    if not isinstance(partition, QueuePart):
        return iter(())  # Spark makes a task of its own where there is none
    return read_range(partition.part, partition.address, options, arrow_of(schema))
