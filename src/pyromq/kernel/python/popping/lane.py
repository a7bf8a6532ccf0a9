"""One lane's check points in plain Python: in order of start and pop time, found by binary search.

Settled ones stay in the list as dead entries until they are at its front or are the larger part of it, so that leaving
costs no search and no shift. The table is the only caller.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from ...pops import GAP_BYTES, POINT_BYTES, CheckPoint
from .entries import HIGHEST, LOWEST, has_gaps

_FEW = 32  # dead entries that are not worth a new list


class Epoch:
    """A stretch of the journal, and how many check points that were told in it are open."""

    __slots__ = ("begin", "open")

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self.open = 0


class OpenPoint:
    """A check point that is open as long as `open_bits` is not 0."""

    __slots__ = (
        "epoch",
        "invisible_ms",
        "lane",
        "offsets",
        "open_bits",
        "pop_time",
        "revive_queue",
        "start",
        "suspend",
    )

    def __init__(
        self,
        lane: Lane,
        start: int,
        offsets: tuple[int, ...],
        pop_time: int,
        invisible_ms: int,
        revive_queue: int,
        suspend: bool,
        epoch: Epoch,
    ) -> None:
        self.lane, self.start, self.offsets = lane, start, offsets
        self.pop_time, self.invisible_ms, self.revive_queue = pop_time, invisible_ms, revive_queue
        self.suspend, self.epoch = suspend, epoch
        self.open_bits = (1 << len(offsets)) - 1

    @property
    def due_ms(self) -> int:
        return max(LOWEST, min(HIGHEST, self.pop_time + self.invisible_ms))

    @property
    def size(self) -> int:
        return POINT_BYTES + (GAP_BYTES * len(self.offsets) if has_gaps(self.start, self.offsets) else 0)

    @property
    def lowest_open(self) -> int:
        return self.offsets[(self.open_bits & -self.open_bits).bit_length() - 1]

    def bit_of(self, offset: int) -> int:
        """Return the message's bit; 0: it is not in here."""
        at = bisect_left(self.offsets, offset)
        return 1 << at if at < len(self.offsets) and self.offsets[at] == offset else 0

    def as_given(self) -> CheckPoint:
        return CheckPoint(
            self.lane.number,
            self.start,
            self.pop_time,
            self.invisible_ms,
            self.revive_queue,
            self.offsets,
            self.open_bits,
            self.suspend,
        )


def _key(point: OpenPoint) -> tuple[int, int]:
    return point.start, point.pop_time


class Lane:
    """A lane: where the next pop reads, and what is open."""

    __slots__ = (
        "_dead",
        "_first",
        "_points",
        "group",
        "messages",
        "next_offset",
        "number",
        "points",
        "queue_id",
        "told",
        "topic",
    )

    def __init__(self, number: int, group: str, topic: str, queue_id: int) -> None:
        self.number, self.group, self.topic, self.queue_id = number, group, topic, queue_id
        self.next_offset = -1
        self.told: Epoch | None = None  # in which its LANE entry was written last
        self.messages = self.points = 0  # open ones
        self._points: list[OpenPoint] = []
        self._first = 0  # all before it left
        self._dead = 0  # left, in the whole list

    @property
    def key(self) -> tuple[str, str, int]:
        return self.group, self.topic, self.queue_id

    def find(self, start: int, pop_time: int) -> OpenPoint | None:
        at = bisect_left(self._points, (start, pop_time), self._first, key=_key)
        while at < len(self._points) and _key(self._points[at]) == (start, pop_time):
            if self._points[at].open_bits:
                return self._points[at]
            at += 1
        return None

    def moved(self, offset: int) -> int | None:
        """Return the pop time of the newest check point that has this message alone."""
        until = bisect_right(self._points, (offset, HIGHEST), self._first, key=_key)
        for at in range(until - 1, self._first - 1, -1):
            point = self._points[at]
            if point.start != offset:
                break
            if point.open_bits and point.offsets == (offset,):
                return point.pop_time
        return None

    def add(self, point: OpenPoint) -> None:
        at = bisect_right(self._points, _key(point), self._first, key=_key)
        self._points.insert(at, point)
        self.points += 1
        self.messages += len(point.offsets)

    def left(self) -> None:
        """Note that one of the points has no open bits any more; the caller has counted its messages."""
        self.points -= 1
        self._dead += 1
        if self._dead > _FEW and 2 * self._dead > len(self._points):
            self._points = [point for point in self._points if point.open_bits]
            self._dead = self._first = 0
        while self._first < len(self._points) and not self._points[self._first].open_bits:
            self._first += 1

    def open(self) -> Iterator[OpenPoint]:
        """Yield what is open, in order of start and pop time. Nothing may leave meanwhile."""
        points = self._points
        return (points[at] for at in range(self._first, len(points)) if points[at].open_bits)

    def base(self) -> int:
        """Return the first offset that is not settled; without any the next one."""
        lowest = self.next_offset
        found = False
        for point in self.open():
            if found and point.start >= lowest:
                break
            lowest = min(lowest, point.lowest_open) if found else point.lowest_open
            found = True
        return lowest
