"""How a counter grew over the last minute, hour and day. Pure: the time is an argument.

A counter keeps points of itself, one per step in which it changed; what stands still costs neither memory nor time.
What a span had is the difference of its end and its beginning, as Java's tools expect it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ...protocol.bodies.stats import BrokerStatsData, BrokerStatsItem


class Span(NamedTuple):
    """How far back it reaches, and how often points are taken; minutes at every call."""

    ms: int
    step_ms: int


MINUTE = Span(60_000, 1)
HOUR = Span(3_600_000, 600_000)
DAY = Span(86_400_000, 3_600_000)


class Point(NamedTuple):
    at_ms: int
    value: int
    times: int


class Counter:
    """One counted thing. `times` is how often something was added. Born with a point of nothing, so that its first
    messages count."""

    __slots__ = ("day", "hour", "minute", "times", "value")

    def __init__(self, now_ms: int) -> None:
        self.value = self.times = 0
        self.minute, self.hour, self.day = ([Point(now_ms, 0, 0)] for _ in range(3))


@dataclass(slots=True, eq=False, repr=False)
class _Ticks:
    """One span: when points were taken last, and which counters changed since."""

    span: Span
    trail: str
    last_ms: int
    changed: set[Counter] = field(default_factory=set)

    def is_due(self, now_ms: int) -> bool:
        return now_ms // self.span.step_ms != self.last_ms // self.span.step_ms

    def take(self, counter: Counter, now_ms: int) -> None:
        trail: list[Point] = getattr(counter, self.trail)
        if trail[-1].at_ms > now_ms:
            trail.clear()  # the clock was set back: points of the future would never leave
        trail.append(Point(now_ms, counter.value, counter.times))
        while len(trail) > 1 and trail[1].at_ms <= now_ms - self.span.ms:
            del trail[0]

    def first(self, counter: Counter) -> Point:
        """Return the point that the span begins with."""
        trail: list[Point] = getattr(counter, self.trail)
        begin = self.last_ms - self.span.ms
        return next((point for point in reversed(trail) if point.at_ms <= begin), trail[0])

    def over(self, counter: Counter) -> BrokerStatsItem:
        trail: list[Point] = getattr(counter, self.trail)
        first, last = self.first(counter), trail[-1]
        elapsed = self.last_ms - max(first.at_ms, self.last_ms - self.span.ms)
        amount, adds = last.value - first.value, last.times - first.times
        return BrokerStatsItem(
            sum=amount,
            tps=amount * 1000 / elapsed if elapsed > 0 else 0.0,
            avgpt=amount / adds if adds else 0.0,
        )


class Spans:
    """The three spans of all counters."""

    def __init__(self, now_ms: int) -> None:
        self._minute = _Ticks(MINUTE, "minute", now_ms)
        self._hour = _Ticks(HOUR, "hour", now_ms)
        self._day = _Ticks(DAY, "day", now_ms)
        self._all = (self._minute, self._hour, self._day)
        self.day_has_ended = False  # at the last sampling a step of the day was over

    def changed(self, counter: Counter) -> None:
        for ticks in self._all:
            ticks.changed.add(counter)

    def sampling(self, now_ms: int, slice_: int) -> Iterator[None]:
        """Add points of what changed, so many between two chances for others to run."""
        self.day_has_ended = self._day.is_due(now_ms)
        for ticks in self._all:
            if not ticks.is_due(now_ms):
                continue
            changed, ticks.changed, ticks.last_ms = ticks.changed, set(), now_ms
            for number, counter in enumerate(changed, 1):
                ticks.take(counter, now_ms)
                if not number % slice_:
                    yield

    def data(self, counter: Counter) -> BrokerStatsData:
        minute, hour, day = (ticks.over(counter) for ticks in self._all)
        return BrokerStatsData(stats_minute=minute, stats_hour=hour, stats_day=day)

    def of_day(self, counter: Counter) -> int:
        """Return the sum of the last 24 hours or a little more, up to now: it falls only by what is older."""
        return counter.value - self._day.first(counter).value

    def is_idle(self, counter: Counter) -> bool:
        """Return whether nothing was added for as long as the day's points reach."""
        last = counter.day[-1]
        return last.value == counter.value and last.at_ms <= self._day.last_ms - DAY.ms
