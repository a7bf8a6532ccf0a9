"""Processes of simulated machines, all on one virtual loop: each step of the loop is of one process, or of nobody.

A process may stand still between any two of its steps (as SIGSTOP does), and end between any two (as kill -9 does):
then no step of it runs any more, so nothing is cleaned up either. Which process a step is of, its context says:
whatever a process begins (tasks, timers, callbacks of futures) is of the same process.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

from pyromq.ambient import Random, Timer
from pyromq.testing.virtual_time import VirtualClock, VirtualLoop

T = TypeVar("T")

_OWN: contextvars.ContextVar[SimulatedProcess | None] = contextvars.ContextVar("process", default=None)


class SimulatedProcess:
    """One process of a simulated machine. `hiccups`: the chance of each step that it stands still before it."""

    def __init__(self, loop: ProcessLoop, name: str, rng: Random) -> None:
        self.name = name
        self._loop, self._rng = loop, rng
        self.context = contextvars.copy_context()
        self.context.run(_OWN.set, self)
        self.is_over = False
        self.hiccups = 0.0
        self._stops = 0
        self._held: list[asyncio.Handle] = []
        self.tasks: dict[asyncio.Task[Any], None] = {}

    def begin(self, part: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a task of this process."""
        task: asyncio.Task[T] = self._loop.create_task(part, context=self.context)
        return task

    def pause(self, seconds: float) -> None:
        """Stand still for so long."""
        self._stops += 1
        self._loop.call_later(seconds, self._resume, context=contextvars.Context())

    def _resume(self) -> None:
        self._stops -= 1
        if not self._stops and not self.is_over:
            self._loop.release(self._held)
            self._held = []

    def end(self) -> None:
        """End at once. What it was about to do is never done."""
        self.is_over = True
        self._held.clear()

    def may_step(self, handle: asyncio.Handle) -> bool:
        """Return whether this step runs now; it is kept for later, or for never, if not."""
        if self.is_over:
            return False
        if not self._stops and self.hiccups and self._rng.random() < self.hiccups:
            self.pause(self._rng.random() ** 3 * 4)
        if self._stops:
            self._held.append(handle)
        return not self._stops

    def bury(self) -> None:
        """Free what an ended process has left. Its code may try to clean up; nobody hears of that."""
        for task in self.tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                asyncio.tasks._unregister_task(task)
                coroutine = task.get_coro()
                with suppress(BaseException):
                    coroutine.close()
        self.tasks.clear()


class _NumberedTask(asyncio.Task[T]):
    """A task whose place in sets is by its number, not by where it lies in memory: the same seed, the same order."""

    def __init__(self, number: int, *args: Any, **more: Any) -> None:
        self._number = number
        super().__init__(*args, **more)

    def __hash__(self) -> int:
        return self._number


class _Step(asyncio.Handle):
    """A callback of a process."""

    __slots__ = ("process",)
    process: SimulatedProcess

    def _run(self) -> None:
        if self.process.may_step(self):
            super()._run()


class _TimedStep(asyncio.TimerHandle):
    """A timer of a process."""

    __slots__ = ("process",)
    process: SimulatedProcess

    def _run(self) -> None:
        if self.process.may_step(self):
            super()._run()


class ProcessLoop(VirtualLoop):
    """A virtual loop that knows of whom each step is."""

    _ready: Any
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self._task_numbers = count()

    def _call_soon(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> asyncio.Handle:
        process = _OWN.get() if context is None else context.get(_OWN)
        if process is None:
            return super()._call_soon(callback, args, context)  # type: ignore[misc,no-any-return]
        step = _Step(callback, args, self, context)
        step.process = process
        self._ready.append(step)
        return step

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        process = _OWN.get() if context is None else context.get(_OWN)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        timer = _TimedStep(when, callback, args, self, context)
        timer.process = process
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def create_task(self, coro: Any, *, name: object = None, context: contextvars.Context | None = None) -> Any:
        task: asyncio.Task[Any] = _NumberedTask(next(self._task_numbers), coro, loop=self, name=name, context=context)
        process = _OWN.get() if context is None else context.get(_OWN)
        if process is not None:
            process.tasks[task] = None
            task.add_done_callback(lambda done: process.tasks.pop(done, None), context=contextvars.Context())
        return task

    def release(self, steps: list[asyncio.Handle]) -> None:
        """Let steps run that were held, in their order."""
        self._ready.extend(steps)


class OutsideClock(VirtualClock):
    """The time outside of all processes. What is set here happens, whatever becomes of the process that has set it."""

    def __init__(self, loop: ProcessLoop) -> None:
        super().__init__(loop)
        self._loop = loop

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        return self._loop.call_later(seconds, callback, *args, context=contextvars.Context())
