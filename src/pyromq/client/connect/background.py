"""What runs beside the caller: tasks, whose faults go to their owner and are never lost.

Clients, producers, consumers and apps are each a `Lifecycle`: started and stopped as an `async with` block.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from ...ambient import Clock


class Lifecycle(ABC):
    """The block starts it and, however it ends, stops it."""

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None: ...

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class Tasks:
    """Event loop only."""

    def __init__(self, on_fault: Callable[[BaseException], None]) -> None:
        self._on_fault = on_fault
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finished(self) -> None:
        """Wait until all tasks that run now, and those that they start, have ended."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def cancel(self) -> None:
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def abandon(self, task: asyncio.Task[Any]) -> None:
        """Leave a task behind that ignores being cancelled: neither `cancel` nor the end of the program awaits it."""
        import ctypes  # not at the top: every program would wait for it, and hardly one comes here

        self._tasks.discard(task)
        asyncio._unregister_task(task)  # else `asyncio.run` waits for it
        # Never collected: what ignores the end of its task ignores the one of its coroutine, too, and loops for ever.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._on_fault(fault)


class Bell:
    """Wakes one loop early."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def wait(self, seconds: float) -> bool:
        """Return True if the bell was rung, False if the time has passed."""
        try:
            async with self._clock.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True


async def first_ended(works: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Wait until the first of these ends, and raise what it raised. The others are cancelled."""
    waits = [asyncio.ensure_future(each) for each in works]
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in waits:
            each.cancel()


@contextmanager
def sigterm() -> Iterator[asyncio.Event]:
    """Yield an event that SIGTERM sets, in the main thread of a program that does not handle the signal itself."""
    terminated = asyncio.Event()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield terminated
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, terminated.set)
    try:
        yield terminated
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
