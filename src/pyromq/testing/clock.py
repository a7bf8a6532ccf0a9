"""Time in the test's hand: a `Clock` that moves only when told to.

    clock = ManualClock()
    broker = Broker(clock=clock, ...)
    await clock.advance(minutes=2)        # two minutes of timers, in order, in a millisecond

Event loop only. A callback that raises ends `advance` with that exception, so a test cannot miss it.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

MOST_AT_ONCE = 100_000  # timers of one moment, one set by the other
SETTLE_ROUNDS = 25  # passes of the loop: several request and reply hops over in-memory streams


@dataclass(slots=True, eq=False)
class ManualTimer:
    """What is called when its moment has come. Cancelled ones stay in the heap and are skipped."""

    call: Callable[[], object] | None

    def cancel(self) -> None:
        self.call = None


class ManualClock:
    """Implements `ambient.Clock`. Counts in whole microseconds, so that many small steps add up exactly."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.quiet: Callable[[], Awaitable[None]] | None = None  # who knows better than `settle` when all is done
        self._wall_us = now_ms * 1000
        self._passed_us = 0
        self._timers: list[tuple[int, int, ManualTimer]] = []
        self._sequence = 0

    def now_ms(self) -> int:
        return (self._wall_us + self._passed_us) // 1000

    def monotonic(self) -> float:
        return self._passed_us / 1_000_000

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, _resolve, done)
        try:
            await done
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> ManualTimer:
        timer = ManualTimer(partial(callback, *args))
        self._sequence += 1  # timers of one moment run in the order in which they were set
        # What is left of a float is a time too: who sets a timer for it again and again would stay in this moment.
        wait_us = max(_micros(seconds), 1 if seconds > 0 else 0)
        heapq.heappush(self._timers, (self._passed_us + wait_us, self._sequence, timer))
        return timer

    @asynccontextmanager
    async def timeout(self, seconds: float | None) -> AsyncIterator[object]:
        # A moment in the loop's past fires at once: asyncio's own rules for nested cancellation apply.
        async with asyncio.Timeout(None if seconds is None or seconds > 0 else 0.0) as scope:
            if seconds is None or seconds <= 0:
                yield scope
                return
            timer = self.call_later(seconds, scope.reschedule, 0.0)
            try:
                yield scope
            finally:
                timer.cancel()

    @property
    def timers(self) -> int:
        """Return how many timers are set: a part that was stopped leaves none behind."""
        return sum(timer.call is not None for _, _, timer in self._timers)

    async def advance(
        self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0
    ) -> None:
        """Let the time pass: each due timer runs at its own moment, and the loop settles after each."""
        length_s = seconds + 60 * (minutes + 60 * (hours + 24 * days))
        if not 0 <= length_s < math.inf:
            raise ValueError(f"advance by {length_s} s: time goes forward, and by a number of seconds")
        until = self._passed_us + _micros(length_s)
        await self._settled()
        at_once = 0
        while self._timers and self._timers[0][0] <= until:
            moment, _, timer = heapq.heappop(self._timers)
            if timer.call is None:
                continue
            at_once = 0 if moment > self._passed_us else at_once + 1
            if at_once > MOST_AT_ONCE:
                raise RuntimeError(f"time does not go on: {timer!r} and others are set for this moment for ever")
            self._passed_us = max(self._passed_us, moment)
            timer.call()
            await self._settled()
        self._passed_us = max(self._passed_us, until)  # somebody else may have gone further meanwhile
        await self._settled()

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an operator or NTP does; durations and timers do not notice."""
        self._wall_us += _micros(seconds)

    async def _settled(self) -> None:
        await (self.settle() if self.quiet is None else self.quiet())

    async def settle(self, rounds: int = SETTLE_ROUNDS) -> None:
        """Let everything run that is ready now. What waits for a real socket must be awaited by the test itself."""
        for _ in range(rounds):
            await asyncio.sleep(0)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)
