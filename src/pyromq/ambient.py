"""Real time and chance: the one file that may reach for them (tests/house/test_ambient.py checks it).

Everything else is handed a `Clock` and a `random.Random`, so that tests pass hours in milliseconds and a whole cluster
runs under one seed. `pyromq.testing.clock.ManualClock` is the other implementation.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

Random = random.Random  # for annotations elsewhere: importing `random` itself is banned there


class Timer(Protocol):
    """A scheduled callback that may still be cancelled."""

    def cancel(self) -> None: ...


class RunBlocking(Protocol):
    """Runs a blocking call away from the event loop (a small thread pool; tests run it at once)."""

    def __call__(self, call: Callable[[], T]) -> Awaitable[T]: ...


class Clock(Protocol):
    """Wall and monotonic time, and the only ways to wait. Event loop only, except the two readings."""

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since 1970: for what is stored or shown. May step back."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back: for durations and deadlines."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer: ...

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Raise TimeoutError in the block once the seconds have passed; None never does."""
        ...


class SystemClock:
    """The machine's own clock and the running event loop's timers."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)  # asked for each received buffer: no call of Python's in between

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback, *args)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)


class UsualClock:
    """What objects of users read the time from, if they are given no clock. A test fixture puts its own in place."""

    def __init__(self) -> None:
        self._source: Clock = SystemClock()
        self._sources: dict[object, Clock] = {object(): self._source}  # in the order in which they came

    def now_ms(self) -> int:
        return self._source.now_ms()

    def monotonic(self) -> float:
        return self._source.monotonic()

    @contextmanager
    def replaced_by(self, clock: Clock) -> Iterator[None]:
        """Read this clock in the block. Of blocks that overlap the latest counts, in whatever order they end."""
        own = object()
        self._sources[own] = self._source = clock
        try:
            yield
        finally:
            del self._sources[own]
            self._source = [*self._sources.values()][-1]


usual_clock = UsualClock()


def pause(seconds: float) -> None:
    """Stop this thread for so long: for Spark's workers, which have no event loop."""
    time.sleep(seconds)


def system_random() -> random.Random:
    """Return a generator seeded by the operating system, for the composition roots."""
    return random.Random()


def secret_word() -> str:
    """Return 256 bits that nobody can guess, as a word for links and cookies: what `system_random` gives can be."""
    return secrets.token_urlsafe(32)


def seeded_random(seed: int) -> random.Random:
    """Return the same numbers for the same seed: simulations and tests."""
    return random.Random(seed)
