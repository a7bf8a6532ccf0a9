"""What a scrape leaves out: families by their labels (`metricsDetail`), and series beyond the limit of a family.

Of a family with too many series the largest values stay; the others are one series `otel_metric_overflow="true"`, as in
Java. Pure.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from heapq import nlargest

from .families import Collect, Family, HistogramValue, Labels, Merge, MetricKind, Value, added
from .settings import Detail

LEFT_OUT = "pyromq_series_left_out"
_GROUP, _TOPIC = "consumer_group", "topic"


@dataclass(slots=True, eq=False, repr=False)
class Limiting:
    """`left_out` has, by family, how many series the last scrape put into the row of the others."""

    most: int
    left_out: dict[str, int] = field(default_factory=dict)
    _now: dict[str, int] = field(default_factory=dict)

    async def limited(self, collect: Collect, detail: Detail) -> AsyncIterator[Family]:
        self._now = {}
        async for family in collect():
            if is_wanted(family, detail):
                yield self._cut(family)
        self.left_out = self._now

    def _cut(self, family: Family) -> Family:
        beyond = len(family.series) - self.most
        if beyond <= 0 or family.name == LEFT_OUT:
            return family
        self._now[family.name] = beyond
        kept = nlargest(self.most, range(len(family.series)), key=lambda at: size_of(family.series[at][1]))
        chosen = set(kept)
        others = [value for at, (_, value) in enumerate(family.series) if at not in chosen]
        if family.merge is Merge.MOST and family.kind is not MetricKind.HISTOGRAM:
            rest: Value = max(others, key=size_of)
        else:
            rest = added(others)
        common = set(family.series[0][0].pairs)
        for labels, _ in family.series:
            common &= set(labels.pairs)
        row = Labels({**dict(common), "otel_metric_overflow": "true"})
        return family._replace(series=[*(family.series[at] for at in sorted(kept)), (row, rest)])


def size_of(value: Value) -> float:
    return sum(value.counts) if isinstance(value, HistogramValue) else value


def is_wanted(family: Family, detail: Detail) -> bool:
    """Return whether a family is part of a scrape with so much detail: judged by its first series."""
    if detail is Detail.FULL or not family.series:
        return True
    names = {name for name, _ in family.series[0][0].pairs}
    if _GROUP in names:
        return False
    return detail is Detail.TOPIC or _TOPIC not in names
