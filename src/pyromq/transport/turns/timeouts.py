"""Time limits of many things with one timer: calls that wait for an answer, handlers at work. No awaits.

Nearly all of them end in time. A timer for each would be a good part of what they cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ...ambient import Clock, Timer

K = TypeVar("K")

_TICK_S = 0.001  # timers of event loops are no finer, and may come so much too early
_NEVER = float("inf")


class Timeouts(Generic[K]):
    """`late` is called with each key whose time is over. Event loop only."""

    __slots__ = ("_clock", "_deadlines", "_fires_at", "_late", "_timer")

    def __init__(self, clock: Clock, late: Callable[[K], object]) -> None:
        self._clock = clock
        self._late = late
        self._deadlines: dict[K, float] = {}
        self._timer: Timer | None = None
        self._fires_at = _NEVER  # no deadline is earlier

    def begin(self, key: K, seconds: float) -> None:
        """Set a limit from now on; for a key that has one already, anew."""
        deadline = self._clock.monotonic() + seconds
        self._deadlines[key] = deadline
        if deadline < self._fires_at:
            self._set_timer(deadline, seconds)

    def end(self, key: K) -> None:
        self._deadlines.pop(key, None)

    def stop(self) -> None:
        self._deadlines.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._fires_at = None, _NEVER

    def _set_timer(self, deadline: float, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires_at = deadline
        self._timer = self._clock.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._timer, self._fires_at = None, _NEVER
        now = self._clock.monotonic()
        for key in [key for key, deadline in self._deadlines.items() if deadline <= now + _TICK_S]:
            del self._deadlines[key]
            self._late(key)
        if self._deadlines:
            deadline = min(self._deadlines.values())
            if deadline < self._fires_at:
                self._set_timer(deadline, deadline - now)
