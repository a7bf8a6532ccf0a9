"""One export: the families of now with their times, as sums since the start or as what was added since the last one.

Shared by the two exporters that send by themselves. Pure but for the clock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from ..ambient import Clock
from .families import Family, HistogramValue, Labels, MetricKind, Value

Limited = Callable[[], AsyncIterator[Family]]


class Points(NamedTuple):
    """What one export carries. Times are nanoseconds."""

    families: list[Family]
    begun_ns: int  # of sums and what was added
    now_ns: int


class Course:
    """What was exported before. Event loop only."""

    def __init__(self, limited: Limited, clock: Clock, *, in_delta: bool) -> None:
        self._limited, self._clock, self.in_delta = limited, clock, in_delta
        self._begun_ns = clock.now_ms() * 1_000_000
        self._before: dict[tuple[str, Labels], Value] = {}

    async def next(self) -> Points:
        """Return the points of now. With `in_delta` those of the next export begin here."""
        families, now = [], dict[tuple[str, Labels], Value]()
        async for family in self._limited():
            if not self.in_delta or family.kind is MetricKind.GAUGE:
                families.append(family)
                continue
            series = []
            for labels, value in family.series:
                now[family.name, labels] = value
                change = _less(value, self._before.get((family.name, labels)))
                series.append((Labels({**dict(labels.pairs), "aggregation": "delta"}), change))
            families.append(family._replace(series=series))
        points = Points(families, self._begun_ns, self._clock.now_ms() * 1_000_000)
        if self.in_delta:
            self._before, self._begun_ns = now, points.now_ns
        return points


def _less(value: Value, before: Value | None) -> Value:
    if isinstance(value, HistogramValue):
        if not isinstance(before, HistogramValue) or sum(before.counts) > sum(value.counts):
            return value
        counts = [mine - its for mine, its in zip(value.counts, before.counts, strict=True)]
        return HistogramValue(counts, value.total - before.total)
    if before is None or isinstance(before, HistogramValue) or before > value:
        return value
    return value - before
