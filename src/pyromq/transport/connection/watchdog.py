"""The deadlines of one connection behind a single timer that is set again only when it must fire earlier.

A busy connection moves its deadlines thousands of times a second; that costs an assignment each. The timer fires at the
earliest one it was set for, looks again, and sleeps until the next.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ambient import Clock, Timer

NEVER = float("inf")
_NOW_S = 0.001  # a deadline that close has come: timers and sums of seconds are not exact


class Watchdog:
    """Calls `late(name)` once when the named deadline has passed."""

    __slots__ = ("_clock", "_fires_at", "_idle_s", "_late", "_timer", "active_at", "deadlines")

    def __init__(self, clock: Clock, idle_s: float, late: Callable[[str], None]) -> None:
        self._clock = clock
        self._idle_s = idle_s
        self._late = late
        self.deadlines: dict[str, float] = {}  # all but the one of idleness, by name
        self._timer: Timer | None = None
        self._fires_at = NEVER
        self.active_at = clock.monotonic()  # the owner moves it with each read and write
        self._set_timer(self.active_at + idle_s)

    def expect(self, name: str, within_s: float) -> None:
        """Set a deadline from now on; one of that name that is set already stays."""
        if name not in self.deadlines:
            deadline = self._clock.monotonic() + within_s
            self.deadlines[name] = deadline
            if deadline < self._fires_at:
                self._set_timer(deadline)

    def met(self, name: str) -> None:
        self.deadlines.pop(name, None)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fires_at = NEVER

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires_at = deadline
        self._timer = self._clock.call_later(deadline - self._clock.monotonic(), self._check)

    def _check(self) -> None:
        self._timer, self._fires_at = None, NEVER
        name, deadline = "idle_s", self.active_at + self._idle_s
        for other, moment in self.deadlines.items():
            if moment < deadline:
                name, deadline = other, moment
        if deadline - self._clock.monotonic() < _NOW_S:
            self._late(name)
        else:
            self._set_timer(deadline)
