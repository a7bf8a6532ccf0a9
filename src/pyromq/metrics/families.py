"""What a scrape is made of: families of series, with labels whose text is made once and kept. Pure.

labels = LabelSets({"cluster": "c", "node_id": "b"})
Family("rocketmq_topic_number", MetricKind.GAUGE, "Topics of this broker.", [(labels.of(), 12)])
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class MetricKind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Merge(Enum):
    """What stands in the one row for series beyond a limit."""

    SUM = "sum"
    MOST = "most"  # of times and ages a sum says nothing


class Labels:
    """The labels of one series, in the order of their names, and their text in an exposition."""

    __slots__ = ("pairs", "text")

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self.pairs = tuple(sorted(pairs.items()))
        self.text = ",".join([f'{name}="{value.translate(_ESCAPED)}"' for name, value in self.pairs])


class HistogramValue(NamedTuple):
    """`counts`: of each bound, and of what is above the last one. Not summed up yet."""

    counts: Sequence[int]
    total: float  # of all that was measured


Value: TypeAlias = int | float | HistogramValue


class Family(NamedTuple):
    """All series of one name. `bare` is the name without its unit, under which it leaves over OTLP."""

    name: str
    kind: MetricKind
    help: str
    series: Sequence[tuple[Labels, Value]]
    bare: str = ""
    unit: str = ""
    bounds: Sequence[float] = ()  # of a histogram
    merge: Merge = Merge.SUM

    @property
    def bare_name(self) -> str:
        return self.bare or self.name


# Yields the families of one scrape. Between two of them others are served; long ones give way inside, too.
Collect: TypeAlias = Callable[[], AsyncIterator[Family]]


@dataclass(slots=True, eq=False, repr=False)
class LabelSets:
    """Makes labels. Those that two scrapes in a row did not ask for are forgotten: call `end_scrape` after each."""

    constant: Mapping[str, str]
    _used: dict[tuple[tuple[str, str], ...], Labels] = field(default_factory=dict)
    _before: dict[tuple[tuple[str, str], ...], Labels] = field(default_factory=dict)

    def of(self, **own: str) -> Labels:
        key = tuple(own.items())
        found = self._used.get(key)
        if found is None:
            found = self._before.get(key) or Labels({**self.constant, **own})
            self._used[key] = found
        return found

    def end_scrape(self) -> None:
        self._before, self._used = self._used, {}


def bucket_of(bounds: Sequence[float], value: float) -> int:
    """Return the place of a value among the counts of a histogram."""
    for place, bound in enumerate(bounds):
        if value <= bound:
            return place
    return len(bounds)


def words(flag: bool) -> str:
    """Return a flag as label values have it."""
    return "true" if flag else "false"


def added(values: Iterable[Value]) -> Value:
    """Return the sum of values of one kind."""
    numbers: int | float = 0
    counts: list[int] = []
    total = 0.0
    for value in values:
        if isinstance(value, HistogramValue):
            counts = [mine + its for mine, its in zip(counts or [0] * len(value.counts), value.counts, strict=True)]
            total += value.total
        else:
            numbers += value
    return HistogramValue(counts, total) if counts else numbers
