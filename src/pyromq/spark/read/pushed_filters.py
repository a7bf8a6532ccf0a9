"""Filters of a query that a batch read takes upon itself: on topic, broker, queue, offset, store time and tag.

Spark does not apply again what was taken, so each filter holds for every row that is given: most of them choose what is
read at all, and `row_filter` chooses from the rows where that is not exact.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StringType, StructType

from ..options import ReadOptions
from ..schema import COLUMNS, arrow_of
from .offsets import OffsetRange

QUEUE_COLUMNS = {"topic": 0, "brokerName": 1, "queueId": 2}
OFFSET, TIME, TAGS = "queueOffset", "storeTimestamp", "tags"
_COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
_EPOCH = datetime.fromtimestamp(0, UTC)
_MILLISECOND, _MICROSECOND = timedelta(milliseconds=1), timedelta(microseconds=1)
_MOST_TAGS = 64  # in one subscription; more are chosen from the rows


@dataclass(frozen=True)
class PushedFilters:
    """What was taken. Pickled into every task."""

    filters: tuple[Filter, ...] = ()

    def has(self, column: str, value: Any) -> bool:
        """Return whether rows with this value may pass."""
        return all(_holds(each, value) for each in self._of(column))

    def narrowed(self, part: OffsetRange) -> OffsetRange | None:
        """Return what of the range can pass; None if nothing can."""
        if not all(self.has(name, part.queue[place]) for name, place in QUEUE_COLUMNS.items()):
            return None
        low, high = self._between(OFFSET, int, 1)
        begin = part.begin if low is None else max(part.begin, low)
        end = part.end if high is None else min(part.end, high + 1)
        return OffsetRange(part.queue, begin, end) if begin < end else None

    def times_ms(self) -> tuple[int | None, int | None]:
        """Return the first store time in milliseconds that may pass, and the first one after all that may."""
        low, high = self._between(TIME, lambda value: (value - _EPOCH) // _MILLISECOND, _MICROSECOND)
        return low, None if high is None else high + 1

    def with_tags(self, options: ReadOptions) -> ReadOptions:
        """Return the options with the tags that a broker can choose by, where it does not choose by others already."""
        if options.tag_list or options.sql:
            return options
        for each in self._of(TAGS):
            found = sorted(set(_values(each)))
            if 0 < len(found) <= _MOST_TAGS and all(map(_is_plain, found)):
                return replace(options, tags=" || ".join(found))
        return options

    def row_filter(self, *, exact: Iterable[str] = ()) -> Any:
        """Return Arrow's expression of what rows must fit besides, None if nothing: `exact` columns fit anyway."""
        left = [_condition(each) for each in self.filters if _column(each) not in exact]
        return reduce(operator.and_, left) if left else None

    def _of(self, column: str) -> list[Filter]:
        return [each for each in self.filters if _column(each) == column]

    def _between(self, column: str, number: Callable[[Any], int], step: Any) -> tuple[int | None, int | None]:
        """Return the least and the greatest number that may pass, both included; None where there is no limit."""
        limits = [_limits(each, number, step) for each in self._of(column)]
        lows = [low for low, _ in limits if low is not None]
        highs = [high for _, high in limits if high is not None]
        return max(lows, default=None), min(highs, default=None)


class FilteringReader(DataSourceReader):
    """Keeps what it takes of a query's filters in `pushed`."""

    def __init__(self, schema: StructType, *, is_asked: bool) -> None:
        self.pushed = PushedFilters()
        self._types = schema
        self._is_asked = is_asked

    @property
    def pushFilters(self) -> _PushFiltersIfAllowed:  # noqa: N802 - Spark's name
        return _PushFiltersIfAllowed(self)

    def take(self, filters: list[Filter]) -> list[Filter]:
        """Take what can be taken, and return the rest, which Spark applies."""
        taken = {id(each) for each in filters if self._is_asked and is_applicable(each, self._types)}
        self.pushed = PushedFilters(tuple(each for each in filters if id(each) in taken))
        return [each for each in filters if id(each) not in taken]


class _PushFiltersIfAllowed:
    """`pushFilters` of a reader, which is Spark's own one where Spark looks whether the reader has one.

    While `spark.sql.python.filterPushdown.enabled` is off, Spark fails every query of a reader that takes filters,
    instead of not asking it. A reader cannot know whether it is on.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: FilteringReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._reader.take(filters)


def is_applicable(filter: Any, schema: StructType) -> bool:
    """Return whether this filter can be applied exactly as Spark would."""
    column = _column(filter)
    if column not in (*QUEUE_COLUMNS, OFFSET, TIME, TAGS) or column not in schema.names:
        return False
    own, asked = COLUMNS[column][0], arrow_of(schema).field(column).type
    if pa.types.is_string(own) and schema[column].dataType != StringType():  # another collation, or another type
        return False
    if own != asked and not (pa.types.is_integer(own) and pa.types.is_integer(asked)):
        return False
    if isinstance(filter, IsNotNull):
        return True
    if not isinstance(filter, In) and (type(filter) not in _COMPARED or filter.value is None):
        return False
    is_ordered = not isinstance(filter, (In, EqualTo))
    return not (is_ordered and pa.types.is_string(own)) and all(_is_of(own, value) for value in _values(filter))


def _is_of(kind: pa.DataType, value: Any) -> bool:
    if pa.types.is_timestamp(kind):
        return isinstance(value, datetime) and value.tzinfo is not None
    return type(value) is (str if pa.types.is_string(kind) else int)


def _column(filter: Filter) -> str:
    return ".".join(getattr(filter, "attribute", ()))


def _values(filter: Any) -> list[Any]:
    """Return what a column is compared with. Null is equal to nothing."""
    if isinstance(filter, In):
        return [value for value in filter.value if value is not None]
    return [] if isinstance(filter, IsNotNull) else [filter.value]


def _is_plain(tag: str) -> bool:
    """Return whether a subscription can name the tag."""
    return bool(tag) and tag.strip() == tag and "|" not in tag and "*" not in tag


def _holds(filter: Any, value: Any) -> bool:
    if isinstance(filter, IsNotNull):
        return value is not None
    return value in _values(filter) if isinstance(filter, In) else bool(_COMPARED[type(filter)](value, filter.value))


def _limits(filter: Any, number: Callable[[Any], int], step: Any) -> tuple[int | None, int | None]:
    """Return the least and the greatest number that fit; `step` is the least difference of two values."""
    if isinstance(filter, IsNotNull):
        return None, None
    values = _values(filter)
    if not values:
        return 1, 0
    if isinstance(filter, GreaterThan):
        return number(values[0]) + 1, None
    if isinstance(filter, GreaterThanOrEqual):
        return number(values[0]), None
    if isinstance(filter, LessThan):
        return None, number(values[0] - step)
    if isinstance(filter, LessThanOrEqual):
        return None, number(values[0])
    return number(min(values)), number(max(values))


def _condition(filter: Any) -> Any:
    found = pc.field(_column(filter))
    if isinstance(filter, IsNotNull):
        return found.is_valid()
    kind = COLUMNS[_column(filter)][0]
    if isinstance(filter, In):
        return found.isin(pa.array(_values(filter), kind))
    return _COMPARED[type(filter)](found, pa.scalar(filter.value, kind))
