"""`spark.read.format("rocketmq")` from brokers: the plan, made once on the driver's side, and its tasks.

With `filterPushdown=true` the plan also uses filters of the query: topic, broker, queue, offset, store time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from ..failures import shown_in_a_sentence
from ..options import ReadOptions
from ..schema import arrow_of
from .offsets import OffsetRange, Queue, split
from .starting import planned, within_times

_QUEUE_COLUMNS = {"topic": 0, "brokerName": 1, "queueId": 2}
# How far from a filter's value the first offset is that fits, and the end of those that do.
_FIRST: dict[type, int] = {EqualTo: 0, GreaterThan: 1, GreaterThanOrEqual: 0}
_END: dict[type, int] = {EqualTo: 1, LessThan: 0, LessThanOrEqual: 1}


@dataclass
class QueuePart(InputPartition):
    """One task. Everything that it needs is in it or in the options: readers are copied into other processes."""

    part: OffsetRange
    address: str


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._filters: list[Filter] = []
        arrow_of(schema)  # an unknown column is an error now, not in a task

    @shown_in_a_sentence()
    def partitions(self) -> list[QueuePart]:  # Spark takes nothing but a list
        found = planned(self._options, within_times(*store_times(self._filters)))
        ranges, addresses = [part for part, _ in found], {part.queue: address for part, address in found}
        for each in self._filters:
            ranges = [part for old in ranges if (part := _narrowed(old, each)) is not None]
        return parts_of(ranges, addresses, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_part(partition, self._options, self._schema)


def parts_of(found: list[OffsetRange], queues: dict[Queue, str], options: ReadOptions) -> list[QueuePart]:
    pieces = split(found, options.min_partitions, options.max_records_per_partition)
    return [QueuePart(part, queues.get(part.queue, "")) for part in pieces]


def read_part(partition: InputPartition, options: ReadOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    from .pulling import read_range

    if isinstance(partition, QueuePart):  # Spark makes a task of its own where there is none
        with shown_in_a_sentence():
            yield from read_range(partition.part, partition.address, options, arrow_of(schema))


class FilteringReader(BatchReader):
    """Narrows the plan. Spark applies the filters to the rows all the same, so a filter may be used in part.

    A reader of its own: Spark fails every query of a reader that takes filters while its own setting is off.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        self._filters = list(filters)
        return filters


def _narrowed(part: OffsetRange, filter: Filter) -> OffsetRange | None:
    """Return what of the range can fit; None if nothing can."""
    column, kind, value = ".".join(getattr(filter, "attribute", ())), type(filter), getattr(filter, "value", None)
    if column in _QUEUE_COLUMNS:
        own: Any = part.queue[_QUEUE_COLUMNS[column]]
        fits = own == value if kind is EqualTo else not isinstance(filter, In) or own in filter.value
        return part if fits else None
    if column == "queueOffset" and isinstance(value, int):
        begin = max(part.begin, value + _FIRST[kind]) if kind in _FIRST else part.begin
        end = min(part.end, value + _END[kind]) if kind in _END else part.end
        return OffsetRange(part.queue, begin, end) if begin < end else None
    return part


def store_times(filters: Iterable[Filter]) -> tuple[int | None, int | None]:
    """Return the earliest and (not included) latest store time that the filters leave, in milliseconds."""
    low: int | None = None
    high: int | None = None
    for each in filters:
        value = getattr(each, "value", None)
        if ".".join(getattr(each, "attribute", ())) != "storeTimestamp" or not isinstance(value, datetime):
            continue
        time = int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
        if isinstance(each, (GreaterThan, GreaterThanOrEqual)):
            low = time if low is None else max(low, time)
        elif isinstance(each, (LessThan, LessThanOrEqual)):
            high = time + 1 if high is None else min(high, time + 1)
    return low, high
