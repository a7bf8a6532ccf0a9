"""Filters of a query that a plan can use: topic, broker, queue, offset, store time. Used where `filterPushdown=true`.

Spark fails every query of a reader that takes filters while its own setting is off, so readers take none by default.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from ..connect.cluster import Cluster
from .batch_read import BatchReader
from .offsets import Offsets, Queue
from .planner import OffsetRange

_QUEUE_COLUMNS = {"topic": 0, "brokerName": 1, "queueId": 2}


class FilteringReader(BatchReader):
    """Narrows the plan. Spark applies the filters to the rows all the same, so a filter may be used in part."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        self._filters = list(filters)
        return list(filters)

    def narrowed_by_time(self, cluster: Cluster, start: Offsets, end: Offsets) -> tuple[Offsets, Offsets]:
        low, high = store_times(getattr(self, "_filters", ()))
        begins = {} if low is None else cluster.at_times(dict.fromkeys(start, low))
        ends = {} if high is None else cluster.at_times(dict.fromkeys(end, high))
        return (
            {queue: max(offset, begins.get(queue, offset)) for queue, offset in start.items()},
            {queue: min(offset, ends.get(queue, offset)) for queue, offset in end.items()},
        )

    def narrowed(self, found: list[OffsetRange]) -> list[OffsetRange]:
        for each in getattr(self, "_filters", ()):
            found = [part for old in found if (part := _narrowed(old, each)) is not None]
        return found


def _narrowed(part: OffsetRange, filter: Filter) -> OffsetRange | None:
    """Return what of the range can fit; None if nothing can."""
    column = ".".join(getattr(filter, "attribute", ()))
    value = getattr(filter, "value", None)
    if column in _QUEUE_COLUMNS:
        return part if _queue_fits(part.queue, column, filter) else None
    if column == "queueOffset" and isinstance(value, int):
        begin, end = _offsets(part, filter, value)
        return OffsetRange(part.queue, begin, end) if begin < end else None
    return part


def _queue_fits(queue: Queue, column: str, filter: Filter) -> bool:
    own: Any = queue[_QUEUE_COLUMNS[column]]
    if isinstance(filter, EqualTo):
        return bool(own == filter.value)
    return not isinstance(filter, In) or own in filter.value


def _offsets(part: OffsetRange, filter: Filter, value: int) -> tuple[int, int]:
    if isinstance(filter, EqualTo):
        return max(part.begin, value), min(part.end, value + 1)
    if isinstance(filter, GreaterThan):
        return max(part.begin, value + 1), part.end
    if isinstance(filter, GreaterThanOrEqual):
        return max(part.begin, value), part.end
    if isinstance(filter, LessThan):
        return part.begin, min(part.end, value)
    if isinstance(filter, LessThanOrEqual):
        return part.begin, min(part.end, value + 1)
    return part.begin, part.end


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
