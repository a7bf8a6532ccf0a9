"""Wakes who waits on a queue when its block ends: nothing arrives then that would.

One timer for all lanes, to the tenth of a second. `order_pops.py` sets the ends; those that were moved or taken back
meanwhile are passed over when their time comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from ....ambient import Clock, Timer
from .table import OrderLane

TICK_S = 0.1
LONGEST_S = 86_400.0  # that a timer is set ahead; it is set again then
MANY = 64


@dataclass(slots=True, eq=False, repr=False)
class BlockEnds:
    """Event loop only. `wake` is called with each lane whose end has come."""

    clock: Clock
    wake: Callable[[OrderLane], None]
    _ends: dict[OrderLane, int] = field(default_factory=dict)
    _heap: list[tuple[int, OrderLane]] = field(default_factory=list)
    _timer: Timer | None = None
    _timer_ms: int = 0

    def __len__(self) -> int:
        return len(self._ends)

    def set(self, lane: OrderLane, end_ms: int) -> None:
        """Note when a lane is free again; 0 or a time that has passed: it is, whoever waits is woken by the caller."""
        if end_ms <= self.clock.now_ms():
            self._ends.pop(lane, None)
            return
        if self._ends.get(lane) == end_ms:
            return
        self._ends[lane] = end_ms
        heappush(self._heap, (end_ms, lane))
        self._trim()
        self._set_timer()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _trim(self) -> None:
        """Drop ends that do not count any more: renewals would pile them up."""
        if len(self._heap) > MANY and len(self._heap) > 4 * len(self._ends):
            self._heap = [(end_ms, lane) for lane, end_ms in self._ends.items()]
            heapify(self._heap)

    def _set_timer(self) -> None:
        if not self._heap or (self._timer is not None and self._timer_ms <= self._heap[0][0]):
            return
        self.close()
        self._timer_ms = self._heap[0][0]
        ahead_s = (self._timer_ms - self.clock.now_ms()) / 1000
        self._timer = self.clock.call_later(min(max(ahead_s, TICK_S), LONGEST_S), self._serve)

    def _serve(self) -> None:
        self._timer, now_ms = None, self.clock.now_ms()
        ended: list[OrderLane] = []
        while self._heap and self._heap[0][0] <= now_ms:
            end_ms, lane = heappop(self._heap)
            if self._ends.get(lane) == end_ms:
                del self._ends[lane]
                ended.append(lane)
        self._set_timer()
        for lane in ended:
            self.wake(lane)
