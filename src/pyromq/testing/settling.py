"""When all is settled: nothing in the loop is ready, no bytes are under way, no handler waits for the outside.

    settling = Settling(lambda: network.is_quiet, lambda: some_handler_runs, test_wait=Mailbox.handle.__code__)
    await settling.settled(patience_s=5)

What is left then waits for the manual clock or for the test, so time may go on. `broker.py` calls this after every
timer. Turns of the loop are not counted: work takes as many as it needs, and what never ends is named (`NotSettled`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from types import CodeType
from typing import Any

from ..ambient import SystemClock
from .awaiting import busy_threads, outside_waits, waiting_handlers

BUSY_S = 20.0  # of real time, for a loop in which something is always ready
PASSES_PER_CHECK = 200  # passes between two looks at the real clock
BLIND_PASSES = 100  # of a loop that does not show what is ready
NAMED = 5


class NotSettled(AssertionError):
    """Time cannot go on: something is still under way, and does not come to its end."""


class Settling:
    """Event loop only. Several tasks may wait at once."""

    def __init__(self, is_quiet: Callable[[], bool], handlers_run: Callable[[], bool], test_wait: CodeType) -> None:
        """`handlers_run`: handlers are at work, apart from those that wait for the test in `test_wait`."""
        self._is_quiet = is_quiet
        self._handlers_run = handlers_run
        self._test_wait = test_wait
        self._clock = SystemClock()  # the real one: patience is not of the time that the test moves
        self._old_threads = busy_threads()  # this one, and those of others
        self._own_timers: list[object] = []  # of `over`
        self._passing = 0  # tasks that wait here for the end of a pass: they are always ready

    async def settled(self, patience_s: float | None) -> list[str]:
        """Return what is still under way after so many seconds of real time; empty: nothing.

        None: handlers are not waited for.
        """
        until: float | None = None
        while True:
            await self._at_rest()
            if patience_s is None or not self._may_wait_outside():
                return []
            waits = outside_waits(self._test_wait, self._old_threads, self._own_timers)
            if not waits:
                return []
            now = self._clock.monotonic()
            until = now + patience_s if until is None else until
            if now >= until:
                return waits
            await self._clock.sleep(0.001)

    async def over(self, task: asyncio.Task[Any], patience_s: float) -> bool:
        """Return whether the task has ended within so many seconds of real time.

        Others may settle meanwhile: they do not notice.
        """
        woken = asyncio.Event()
        task.add_done_callback(lambda _: woken.set())
        timer = self._clock.call_later(patience_s, woken.set)
        self._own_timers.append(timer)
        try:
            await woken.wait()
        finally:
            timer.cancel()
            self._own_timers.remove(timer)
        return task.done()

    def handlers(self) -> str:
        return "; ".join(waiting_handlers(self._test_wait)) or "no handler: a request or the clock is waited for"

    def _may_wait_outside(self) -> bool:
        """Return whether something outside may be waited for.

        Cheap, since it is asked after each timer; `outside_waits` looks at every task.
        """
        return self._handlers_run() or threading.active_count() > len(self._old_threads)

    async def _at_rest(self) -> None:
        """Run until a pass leaves nothing that is ready, and nothing is between two ends."""
        ready: Any = getattr(asyncio.get_running_loop(), "_ready", None)  # there is no public word for it
        began: float | None = None
        passes = idle = 0
        while True:
            await self._pass()
            passes += 1
            idle = 0 if ready is not None and len(ready) > self._passing else idle + 1
            if idle >= (1 if ready is not None else BLIND_PASSES) and self._is_quiet():
                return
            if passes % PASSES_PER_CHECK == 0:
                began = self._clock.monotonic() if began is None else began
                if self._clock.monotonic() - began > BUSY_S:
                    raise NotSettled(_busy(ready))

    async def _pass(self) -> None:
        self._passing += 1
        try:
            await _OnePass()
        finally:
            self._passing -= 1


class _OnePass:
    def __await__(self) -> Generator[None, None, None]:
        yield


def _busy(ready: Any) -> str:
    names = sorted({repr(handle) for handle in tuple(ready or ())})
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    what = "; ".join(names[:NAMED]) or "bytes between two ends that are not taken"
    return (
        f"the loop did not come to rest within {BUSY_S:g} s of real time; always ready: {what}{more}. "
        "A task that polls (`sleep(0)` in a loop) must wait for something instead"
    )
