"""How long requests took from their arrival to their answer, by request and response code: an array of counts each.

`Service` makes one for each listener and notes what handlers answer; what a kernel answers it counts itself. Metrics
read them. Pure but for the clock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

# Upper ends in seconds: 1-2-5 steps, and those of RocketMQ's own histogram (3 and 7 ms, 3 s).
BOUNDS = (
    *(0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.007),
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0),
)


class AnswerKind(NamedTuple):
    code: int
    response: int
    held: bool  # it waited for a message


class TimeHistogram:
    """`counts`: of each of `BOUNDS`, and of what took longer."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total_s = 0.0

    def note(self, seconds: float, times: int = 1) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += times
        self.total_s += seconds * times


class AnswerTimes:
    """Event loop only."""

    __slots__ = ("_monotonic", "_times")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._times: dict[tuple[int, int, bool], TimeHistogram] = {}

    def note(self, code: int, response: int, arrived: float, held: bool = False) -> None:
        """Note an answer that leaves now."""
        times = self._times.get((code, response, held))
        if times is None:
            times = self._times[code, response, held] = TimeHistogram()
        times.note(self._monotonic() - arrived)

    def all(self) -> Iterator[tuple[AnswerKind, TimeHistogram]]:
        for key, times in list(self._times.items()):
            yield AnswerKind(*key), times
