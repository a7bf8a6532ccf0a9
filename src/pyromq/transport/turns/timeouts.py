"""Time limits of many things with one timer: calls that wait for an answer, handlers at work, the deadlines of one
connection. No awaits.

Nearly all of them end in time. A timer for each would be a good part of what they cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ...ambient import Clock, Timer

K = TypeVar("K")

_TICK_S = 0.001  # timers of event loops are no finer, and may come so much too early
NEVER = float("inf")


class Timeouts(Generic[K]):
    """`late` is called with each key whose time is over. Event loop only."""

    __slots__ = ("_clock", "_fires_at", "_late", "_timer", "deadlines")

    def __init__(self, clock: Clock, late: Callable[[K], object]) -> None:
        self._clock = clock
        self._late = late
        self.deadlines: dict[K, float] = {}
        self._timer: Timer | None = None
        self._fires_at = NEVER  # no deadline is earlier

    def begin(self, key: K, seconds: float) -> None:
        """Set a limit from now on; for a key that has one already, anew."""
        deadline = self._clock.monotonic() + seconds
        self.deadlines[key] = deadline
        if deadline < self._fires_at:
            self._set_timer(deadline, seconds)

    def end(self, key: K) -> None:
        self.deadlines.pop(key, None)

    def stop(self) -> None:
        self.deadlines.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._fires_at = None, NEVER

    def _set_timer(self, deadline: float, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires_at = deadline
        self._timer = self._clock.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._timer, self._fires_at = None, NEVER
        now = self._clock.monotonic()
        for key in [key for key, deadline in self.deadlines.items() if deadline <= now + _TICK_S]:
            del self.deadlines[key]
            self._late(key)
        if self.deadlines:
            deadline = min(self.deadlines.values())
            if deadline < self._fires_at:
                self._set_timer(deadline, deadline - now)
        else:
            self.deadlines.clear()  # gives back the memory of what was there: most connections are idle


class Watchdog(Timeouts[str]):
    """Calls `late(name)` once when the named deadline of one connection has passed, and names no other then.

    A busy connection moves its deadlines thousands of times a second; that costs an assignment each. The timer is set
    again only when it must fire earlier, looks again when it fires, and sleeps until the next.
    """

    __slots__ = ("_idle_s", "active_at")

    def __init__(self, clock: Clock, idle_s: float, late: Callable[[str], None]) -> None:
        super().__init__(clock, late)
        self._idle_s = idle_s  # the deadline of idleness is not among the others
        self.active_at = clock.monotonic()  # the owner moves it with each read and write
        self._set_timer(self.active_at + idle_s, idle_s)

    def expect(self, name: str, within_s: float) -> None:
        """Set a deadline from now on; one of that name that is set already stays."""
        if name not in self.deadlines:
            self.begin(name, within_s)

    def _expire(self) -> None:
        self._timer, self._fires_at = None, NEVER
        name, deadline = "idle_s", self.active_at + self._idle_s
        for other, moment in self.deadlines.items():
            if moment < deadline:
                name, deadline = other, moment
        left_s = deadline - self._clock.monotonic()
        if left_s < _TICK_S:
            self._late(name)
        else:
            self._set_timer(deadline, left_s)
