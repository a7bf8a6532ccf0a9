"""What totals were, for charts: rings of numbers in memory, ten seconds apart for six hours and five minutes apart for
two weeks. Pure: the time comes with the snapshot.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isnan, nan

from .figures import ClusterSnapshot, Unknown, total

FINE_MS, FINE_POINTS = 10_000, 2_160
COARSE_MS, COARSE_POINTS = 300_000, 4_032
MOST_POINTS = 240  # of a chart
Point = tuple[int, float | None]


class Ring:
    """The last points of one series, each the mean of its step; NaN where nothing was told."""

    def __init__(self, step_ms: int, points: int) -> None:
        self.step_ms = step_ms
        self._values = array("f", [nan]) * points
        self._last = self._first = -1  # numbers of the newest step and of the oldest
        self._sum, self._count = 0.0, 0

    def add(self, at_ms: int, value: float | None) -> None:
        step = at_ms // self.step_ms
        if step < self._last:
            return  # the clock was set back
        if self._last < 0:
            self._first = step
        if step > self._last:
            for skipped in range(max(self._last + 1, step - len(self._values) + 1), step + 1):
                self._values[skipped % len(self._values)] = nan
            self._last, self._sum, self._count = step, 0.0, 0
        if value is not None:
            self._sum, self._count = self._sum + value, self._count + 1
            self._values[step % len(self._values)] = self._sum / self._count

    def since(self, begin_ms: int) -> Iterator[Point]:
        """Yield time and value of each step from then on; None where nothing is known."""
        if self._last < 0:
            return
        first = max(begin_ms // self.step_ms, self._last - len(self._values) + 1, self._first)
        for step in range(first, self._last + 1):
            value = self._values[step % len(self._values)]
            yield step * self.step_ms, None if isnan(value) else value


@dataclass(slots=True, eq=False, repr=False)
class History:
    """Series of the whole cluster. Event loop only."""

    _fine: dict[str, Ring] = field(default_factory=dict)
    _coarse: dict[str, Ring] = field(default_factory=dict)

    def note(self, snapshot: ClusterSnapshot) -> None:
        for name, value in _totals(snapshot).items():
            self._fine.setdefault(name, Ring(FINE_MS, FINE_POINTS)).add(snapshot.at_ms, value)
            self._coarse.setdefault(name, Ring(COARSE_MS, COARSE_POINTS)).add(snapshot.at_ms, value)

    def points(self, name: str, begin_ms: int, now_ms: int) -> list[Point]:
        """Return a series from then to now, in as many points at most as are worth drawing."""
        rings = self._fine if now_ms - begin_ms <= FINE_MS * FINE_POINTS else self._coarse
        ring = rings.get(name)
        return [] if ring is None else _thinned(list(ring.since(begin_ms)), now_ms - begin_ms, ring.step_ms)

    def begun_ms(self, now_ms: int) -> int:
        """Return when the first point was noted."""
        return min((at for ring in self._coarse.values() for at, _ in ring.since(0)), default=now_ms)


def _thinned(points: list[Point], span_ms: int, step_ms: int) -> list[Point]:
    """Return means of neighbours, so that the whole span has no more than MOST_POINTS."""
    many = -(-span_ms // (step_ms * MOST_POINTS))
    if many <= 1:
        return points
    found: dict[int, list[float]] = {}
    for at, value in points:
        found.setdefault(at // (many * step_ms) * many * step_ms, []).extend([] if value is None else [value])
    return [(at, round(sum(values) / len(values), 2) if values else None) for at, values in found.items()]


def _totals(snapshot: ClusterSnapshot) -> dict[str, float | None]:
    masters = snapshot.masters
    found = {
        "in": total((one.name, one.in_per_second) for one in masters),
        "out": total((one.name, one.out_per_second) for one in masters),
        "bytes": total((one.name, one.bytes_per_second) for one in masters),
        "lag": total((f"{one.name} {key}", pair.lag) for one in masters for key, pair in one.pairs.items()),
    }
    is_known = bool(masters) and not snapshot.fault and not snapshot.silent
    return {name: None if isinstance(one.value, Unknown) or not is_known else one.value for name, one in found.items()}
