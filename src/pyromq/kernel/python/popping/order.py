"""Open check points in order of a time: a heap in which those that left are skipped, and dropped in bulk."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from ...pops import CheckPoint
from .lane import OpenPoint

_FEW = 64  # entries of points that left which are not worth a new heap


class Order:
    """By time, then lane, start and pop time. Bounded: at most twice what is open, and a few."""

    def __init__(self, time_of: Callable[[OpenPoint], int]) -> None:
        self._time_of = time_of
        self._heap: list[tuple[int, int, int, int, int, OpenPoint]] = []
        self._serial = 0  # makes every entry another one: a point that left may have had the same key

    def add(self, point: OpenPoint, open_points: int) -> None:
        if len(self._heap) > 2 * open_points + _FEW:
            self._heap = [entry for entry in self._heap if entry[-1].open_bits]
            heapify(self._heap)
        self._serial += 1
        time = self._time_of(point)
        heappush(self._heap, (time, point.lane.number, point.start, point.pop_time, self._serial, point))

    def first(self, most: int, wanted: Callable[[OpenPoint], bool]) -> list[CheckPoint]:
        """Return the first open ones, `most` at most, up to one that is not wanted. All stay."""
        taken, found = [], list[CheckPoint]()
        while self._heap and len(found) < most:
            point = self._heap[0][-1]
            if point.open_bits and not wanted(point):
                break
            entry = heappop(self._heap)
            if point.open_bits:
                taken.append(entry)
                found.append(point.as_given())
        for entry in taken:
            heappush(self._heap, entry)
        return found
