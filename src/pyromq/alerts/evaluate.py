"""Conditions judged over samples in memory, as Prometheus would judge them over its own. Pure."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from .conditions import Both, Compare, Comparison, Condition, Forecast, Growth, Now, Term, Total

V = TypeVar("V")
Labels = tuple[tuple[str, str], ...]  # in the order of their names
Sample = tuple[float, float]  # seconds, value

_COMPARE: Mapping[Comparison, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "==": operator.eq,
}


class Figures(Protocol):
    """What is known of a cluster. A metric or a series that is unknown just now is left out, never given as 0."""

    def now(self, metric: str) -> Mapping[Labels, float]:
        """Return the newest value of each series of a metric."""
        ...

    def past(self, metric: str, seconds: float) -> Mapping[Labels, Sequence[Sample]]:
        """Return the samples of the last seconds by series, oldest first, the newest value included."""
        ...


def found(condition: Condition, figures: Figures) -> dict[Labels, float]:
    """Return the series for which a condition holds, with the value of its first term."""
    if isinstance(condition, Compare):
        return _compared(condition, figures)
    first, second = found(condition.first, figures), found(condition.second, figures)
    others = {_only(labels, condition.on) for labels in second}
    wanted = isinstance(condition, Both)
    return {labels: value for labels, value in first.items() if (_only(labels, condition.on) in others) is wanted}


def _compared(condition: Compare, figures: Figures) -> dict[Labels, float]:
    left, holds = values(condition.left, figures), _COMPARE[condition.how]
    if isinstance(condition.right, float | int):
        limit = condition.right
        return {labels: value for labels, value in left.items() if holds(value, limit)}
    right = values(condition.right, figures)
    return {labels: value for labels, value in left.items() if labels in right and holds(value, right[labels])}


def values(term: Term | Total, figures: Figures) -> dict[Labels, float]:
    """Return the value of a term for each of its series."""
    if isinstance(term, Total):
        sums: dict[Labels, float] = {}
        for labels, value in values(term.term, figures).items():
            key = _only(labels, term.by)
            sums[key] = sums.get(key, 0.0) + value
        return sums
    if isinstance(term, Now):
        wanted = _matching(figures.now(term.metric), term.where)
        return {labels: value * term.factor for labels, value in wanted.items()}
    if isinstance(term, Forecast):
        courses = figures.past(term.metric, term.over_s)
        return {at: _on_line(course, term.ahead_s) for at, course in courses.items() if len(course) > 1}
    by = _growth if isinstance(term, Growth) else _change
    wanted_past = _matching(figures.past(term.metric, term.seconds), term.where)
    return {labels: by(course) for labels, course in wanted_past.items() if len(course) > 1}


def _growth(course: Sequence[Sample]) -> float:
    pairs = itertools.pairwise(course)
    return sum(after - before if after >= before else after for (_, before), (_, after) in pairs)


def _change(course: Sequence[Sample]) -> float:
    return course[-1][1] - course[0][1]


def _on_line(course: Sequence[Sample], ahead_s: float) -> float:
    """Return the value so many seconds after the newest sample, on the line of least squares."""
    end, count = course[-1][0], len(course)
    times, heights = [at - end for at, _ in course], [value for _, value in course]
    middle, height = sum(times) / count, sum(heights) / count
    spread = sum((at - middle) ** 2 for at in times)
    slope = sum((at - middle) * (value - height) for at, value in zip(times, heights, strict=True)) / spread
    return height + slope * (ahead_s - middle)


def _matching(series: Mapping[Labels, V], where: Mapping[str, str]) -> dict[Labels, V]:
    return {labels: value for labels, value in series.items() if where.items() <= dict(labels).items()}


def _only(labels: Labels, names: Sequence[str]) -> Labels:
    return tuple(pair for pair in labels if pair[0] in names)
