"""One queue of the revive topic: the check points that were read of it, what is acked of them, how far it is done.

`revive_topic.py` reads the queue and decides. Check points are decided when their time is over, not in the order of the
queue, but the group's offset can say no more than "all up to here": those that are done behind one that is not are
remembered until it is. Pure.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .java_records import PointKey, StoredAck, StoredCheckPoint, point_key

# So long behind a check point's time, as the timer delivers, its acks were read: for queues that are not read whole.
SURE_MS = 2_000


@dataclass(slots=True, eq=False, repr=False)
class RevivePoint:
    """A check point that was read. `end`: where its copies end in the log; None: it is not decided yet."""

    stored: StoredCheckPoint
    at: int  # its offset in the revive queue
    open: set[int]  # offsets without an ack
    end: int | None = None


@dataclass(slots=True, eq=False, repr=False)
class ReviveQueue:
    """What was read of one queue, and is not done."""

    queue_id: int
    next: int  # offset to read
    slot_ms: int = 0  # the last slot of the timer from which something was read
    is_at_end: bool = False
    _open: dict[PointKey, RevivePoint] = field(default_factory=dict)  # not decided
    _by_time: list[tuple[int, int, RevivePoint]] = field(default_factory=list)  # a heap, with some that are decided
    _line: deque[RevivePoint] = field(default_factory=deque)  # in the order of the queue, from the first not noted on
    _to_note: int = 0  # decided ones of these

    def __len__(self) -> int:
        """Return how many are not decided."""
        return len(self._open)

    def add(self, stored: StoredCheckPoint, at: int) -> None:
        """Add a check point. One that is there already stands at its new place, and keeps what was acked of it."""
        offsets = stored.open_offsets
        key = point_key(stored)
        before = self._open.pop(key, None)
        if before is not None:
            offsets = before.open | (offsets - set(before.stored.offsets))
            self._done(before, 0)
        point = self._open[key] = RevivePoint(stored, at, offsets)
        self._line.append(point)
        heapq.heappush(self._by_time, (stored.revive_ms, at, point))

    def ack(self, ack: StoredAck, key: PointKey) -> set[int]:
        """Note what is acked, and return what is new of it. What has no check point here was decided before, or never
        was one."""
        point = self._open.get(key)
        settled = set() if point is None else point.open.intersection(ack.acked)
        if point is not None:
            point.open -= settled
        return settled

    def undecided(self) -> Iterator[RevivePoint]:
        """Return those that are not decided."""
        return iter(self._open.values())

    def known_until(self, timer_ms: int) -> int:
        """Return up to which time all acks were read, if the timer has delivered or shown those up to its own."""
        return timer_ms if self.is_at_end else min(timer_ms, self.slot_ms - SURE_MS)

    def has_room(self, most: int) -> bool:
        """Return whether to read on: there are not so many yet, or none of them could be decided by what was read."""
        first = self.first_due()
        return len(self) < most or (first is not None and first.stored.revive_ms > self.slot_ms - SURE_MS)

    def first_due(self) -> RevivePoint | None:
        """Return the one of all that are not decided whose time is over first."""
        while self._by_time and self._by_time[0][2].end is not None:
            heapq.heappop(self._by_time)
        return self._by_time[0][2] if self._by_time else None

    def decided(self, point: RevivePoint, end: int) -> None:
        """Note that everything of a check point is acked or put again, up to this place of the log."""
        del self._open[point_key(point.stored)]
        self._done(point, end)

    def _done(self, point: RevivePoint, end: int) -> None:
        point.end = end
        self._to_note += 1

    def take_done(self, flushed: int) -> int | None:
        """Return the offset up to which all is decided and on the medium; None: nothing new is."""
        last = None
        while self._line and self._line[0].end is not None and self._line[0].end <= flushed:
            last = self._line.popleft().at
            self._to_note -= 1
        return last

    def is_noted(self) -> bool:
        """Return whether nothing is decided that the group's offset does not say."""
        return not self._to_note

    def decided_ahead(self) -> Iterator[RevivePoint]:
        """Return those that are decided though one before them is not, or that wait for the medium."""
        return (point for point in self._line if point.end is not None)


def first_of(queues: Iterable[ReviveQueue]) -> RevivePoint | None:
    """Return the check point of all queues whose time is over first."""
    found = [point for point in (queue.first_due() for queue in queues) if point is not None]
    return min(found, key=lambda point: point.stored.revive_ms, default=None)
