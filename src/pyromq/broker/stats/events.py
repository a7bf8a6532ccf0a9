"""Rare events that metrics tell of and nothing else counts: dead letters, ends of transactions.

Event loop only. One addition each, far from the way of plain messages. Keys are topics and groups that exist: they are
forgotten with them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

FINISH_BOUNDS = (5, 60, 600, 3_600, 43_200, 86_400)  # seconds
DELAY_BOUNDS = (60, 600, 3_600, 43_200, 86_400, 259_200)
CREATION_BOUNDS_MS = (10, 100, 1_000, 3_000, 5_000)


class Histogram:
    """How values are spread over bounds."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def note(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


@dataclass(slots=True, eq=False, repr=False)
class Events:
    dead: Counter[tuple[str, str]] = field(default_factory=Counter)  # group and the topic it was first in
    committed: Counter[str] = field(default_factory=Counter)  # by topic, as all below
    rolled_back: Counter[str] = field(default_factory=Counter)
    given_up: Counter[str] = field(default_factory=Counter)
    finishes: defaultdict[str, Histogram] = field(
        default_factory=lambda: defaultdict(partial(Histogram, FINISH_BOUNDS))
    )

    def forget_topic(self, topic: str) -> None:
        for counts in (self.committed, self.rolled_back, self.given_up):
            counts.pop(topic, None)
        self.finishes.pop(topic, None)
        for key in [key for key in self.dead if key[1] == topic]:
            del self.dead[key]

    def forget_group(self, group: str) -> None:
        for key in [key for key in self.dead if key[0] == group]:
            del self.dead[key]


def delays() -> defaultdict[str, Histogram]:
    """Return histograms by topic of how long messages are to be delayed."""
    return defaultdict(partial(Histogram, DELAY_BOUNDS))
