"""What a rule may look at: a metric now, its growth, its course; compared with a number or with another metric.

Each form gives its words in Prometheus' language by `promql`; `evaluate.py` judges the same forms over samples. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Comparison = Literal[">", "<", ">=", "=="]


def duration(seconds: int) -> str:
    """Return a duration as Prometheus writes it: `90s`, `15m`, `6h`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size and not seconds % size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


@dataclass(frozen=True, slots=True)
class Now:
    """The newest value of each series of a metric, multiplied by `factor`. `where` leaves out other label values."""

    metric: str
    where: Mapping[str, str] = field(default_factory=dict)
    factor: float = 1.0

    def promql(self) -> str:
        scaled = f"{self.factor:g} * " if self.factor != 1.0 else ""
        return scaled + selector(self.metric, self.where)


@dataclass(frozen=True, slots=True)
class Growth:
    """By how much a counter grew within the last seconds. A counter that fell began anew at 0."""

    metric: str
    seconds: int
    where: Mapping[str, str] = field(default_factory=dict)

    def promql(self) -> str:
        return f"increase({selector(self.metric, self.where)}[{duration(self.seconds)}])"


@dataclass(frozen=True, slots=True)
class Change:
    """The difference of a gauge between now and some seconds ago."""

    metric: str
    seconds: int
    where: Mapping[str, str] = field(default_factory=dict)

    def promql(self) -> str:
        return f"delta({selector(self.metric, self.where)}[{duration(self.seconds)}])"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a gauge will be `ahead_s` from now if it goes on as in the last `over_s` (a line of least squares)."""

    metric: str
    over_s: int
    ahead_s: int

    def promql(self) -> str:
        return f"predict_linear({self.metric}[{duration(self.over_s)}], {self.ahead_s})"


Term = Now | Growth | Change | Forecast


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of a term over all series that agree in the labels `by`."""

    term: Term
    by: tuple[str, ...]

    def promql(self) -> str:
        return f"sum by ({', '.join(self.by)}) ({self.term.promql()})"


@dataclass(frozen=True, slots=True)
class Compare:
    """Holds for each series of `left` that compares so with a number, or with the series of the same labels."""

    left: Term | Total
    how: Comparison
    right: float | Term

    def promql(self) -> str:
        right = _number(self.right) if isinstance(self.right, float | int) else self.right.promql()
        return f"{self.left.promql()} {self.how} {right}"


@dataclass(frozen=True, slots=True)
class Both:
    """Holds where the first holds and the second holds for a series that agrees in the labels `on`."""

    first: Condition
    second: Condition
    on: tuple[str, ...]

    def promql(self) -> str:
        return f"({self.first.promql()})\nand on ({', '.join(self.on)}) ({self.second.promql()})"


@dataclass(frozen=True, slots=True)
class Unless:
    """Holds where the first holds and the second holds for no series that agrees in the labels `on`."""

    first: Condition
    second: Condition
    on: tuple[str, ...]

    def promql(self) -> str:
        return f"({self.first.promql()})\nunless on ({', '.join(self.on)}) ({self.second.promql()})"


Condition = Compare | Both | Unless


def _number(value: float) -> str:
    return f"{value:.0f}" if value == round(value) else repr(value)


def selector(metric: str, where: Mapping[str, str]) -> str:
    if not where:
        return metric
    return metric + "{" + ", ".join(f'{name}="{value}"' for name, value in where.items()) + "}"


def metrics_of(condition: Condition) -> set[str]:
    """Return the names of all metrics that a condition looks at."""
    if isinstance(condition, Both | Unless):
        return metrics_of(condition.first) | metrics_of(condition.second)
    terms = [condition.left.term if isinstance(condition.left, Total) else condition.left]
    if not isinstance(condition.right, float | int):
        terms.append(condition.right)
    return {term.metric for term in terms}
