"""An event loop whose time jumps to the next timer as soon as nothing else is ready: simulations of hours in seconds.

    run_virtually(lambda clock: scenario(clock, seeded_random(7)))

The same code with the same seed takes the same steps. Nothing real may be waited for: no sockets, no threads.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..ambient import SystemClock

T = TypeVar("T")


class NothingWillHappen(AssertionError):
    """Everything waits for something that no timer brings."""


class _JumpingSelector(selectors.SelectSelector):
    """Lets time pass instead of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise NothingWillHappen("every task waits, and no timer is set: what they wait for will never come")
        self.now += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at 0 s. One thread only."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._clock_resolution = 1e-9  # what rounding leaves of a timer's moment counts as come

    def time(self) -> float:
        return self._jumping.now


class VirtualClock(SystemClock):
    """Implements `ambient.Clock` by the time of a virtual loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.monotonic = loop.time

    def now_ms(self) -> int:
        return 1_700_000_000_000 + round(self.monotonic() * 1000)


def run_virtually(main: Callable[[VirtualClock], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end on a loop of its own; tasks that are left are cancelled then."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main(VirtualClock(runner.get_loop())))
