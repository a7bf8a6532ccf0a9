"""Threads of plain functions: handlers that may block, and whose calls may be given up.

A thread cannot be ended from outside. One whose call was given up runs on and is no longer counted among the busy ones;
another takes its place, until as many run on as the consumer may have busy. From then on calls wait for the end of one.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from ... import logs
from ...ambient import Clock
from . import places

log = logs.get("pyromq.client")

REPEAT_S = 60.0  # between two lines about threads that all run on


class _Thread:
    """One thread, which begins with its first call."""

    def __init__(self) -> None:
        self.ident = 0
        self.calls = ThreadPoolExecutor(1, "pyromq-handler", self._began)

    def _began(self) -> None:
        self.ident = threading.get_ident()

    @property
    def place(self) -> str:
        return places.of_thread(self.ident)


class HandlerThreads:
    """Event loop only. `most` calls at a time are for the caller to see to."""

    def __init__(self, most: int) -> None:
        self._left = 2 * most  # threads that may begin a call
        self._ended_one = asyncio.Event()
        self._said_at = float("-inf")
        self._idle: list[_Thread] = []
        self._busy: dict[asyncio.Task[Any] | None, _Thread] = {}
        self._given_up: set[_Thread] = set()

    async def free(self, clock: Clock) -> None:
        """Return when a thread is there for a call, which must begin before the caller awaits anything else.

        As long as none is there, the log says so.
        """
        while not self._left:
            now = clock.monotonic()
            if now - self._said_at >= REPEAT_S:  # one line, however many wait
                self._said_at = now
                self._log_given_up("no message is handled: too many threads of handlers run on after their time-out")
            with suppress(TimeoutError):
                async with clock.timeout(REPEAT_S):
                    await self._next_end()

    async def _next_end(self) -> None:
        self._ended_one.clear()
        await self._ended_one.wait()

    async def call(self, handler: Any, *arguments: Any) -> Any:
        """Call the function in a thread, with the caller's context. When this is cancelled, the thread runs on."""
        while not self._left:
            await self._next_end()
        thread = self._idle.pop() if self._idle else _Thread()
        # RuntimeError, if the machine has no thread left: then nothing is counted yet.
        running: Future[Any] = thread.calls.submit(copy_context().run, _called, handler, arguments)
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        self._busy[task] = thread
        self._left -= 1
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            if running.done():
                raise
            self._given_up.add(thread)
            raise asyncio.CancelledError(f"its thread runs on, at {thread.place}") from None
        finally:
            del self._busy[task]
            if running.done():
                self._ended(thread)
            else:
                running.add_done_callback(lambda _: self._ended_late(loop, thread))

    def place_of(self, task: asyncio.Task[Any] | None) -> str:
        """Return where the thread stands whose end the task awaits; "" if it awaits none."""
        return self._busy[task].place if task in self._busy else ""

    def close(self) -> None:
        """End the threads, those at work after their calls. A program ends after all its threads."""
        if self._given_up:
            self._log_given_up("handlers run on in threads, and this program ends after them")
        for each in (*self._idle, *self._busy.values(), *self._given_up):
            each.calls.shutdown(wait=False)

    def _log_given_up(self, event: str) -> None:
        stand_at = sorted({each.place for each in self._given_up})
        log.warning(event, threads=len(self._given_up), at="; ".join(stand_at[:5]))

    def _ended(self, thread: _Thread) -> None:
        self._given_up.discard(thread)
        self._idle.append(thread)
        self._left += 1
        self._ended_one.set()

    def _ended_late(self, loop: asyncio.AbstractEventLoop, thread: _Thread) -> None:
        """Let the loop know, on the thread itself. The loop may be closed by then."""
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._ended, thread)


def _called(handler: Any, arguments: tuple[Any, ...]) -> Any:
    """Call the function. RuntimeError for a StopIteration of its own, with which no future of asyncio could end."""
    try:
        return handler(*arguments)
    except StopIteration as fault:
        raise RuntimeError("the handler raised StopIteration") from fault
