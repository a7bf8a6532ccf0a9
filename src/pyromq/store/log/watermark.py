"""A position that only grows, and those who wait for it: the store's only meeting point with the event loop.

`appended`, `flushed` and `readable` are watermarks. The store moves them; handlers await `reached`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable


class Watermark:
    """Event loop only. Invariant: `value` never goes down; a waiter is woken once, in order of position."""

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self.waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tickets = 0
        self._failure: Exception | None = None
        self.listeners: list[Callable[[int], None]] = []
        self._on_failure: list[Callable[[], None]] = []

    def on_advance(self, listener: Callable[[int], None]) -> None:
        """Call it with the new value each time it grows, before waiters wake."""
        self.listeners.append(listener)

    def on_failure(self, listener: Callable[[], None]) -> None:
        """Call it when the value will not grow any more."""
        self._on_failure.append(listener)

    def advance(self, value: int) -> None:
        if value <= self.value:
            return
        self.value = value
        for listener in self.listeners:
            listener(value)
        while self.waiters and self.waiters[0][0] <= value:
            waiter = heapq.heappop(self.waiters)[2]
            if not waiter.done():
                waiter.set_result(None)

    async def reached(self, position: int) -> None:
        """Return once the value is at or beyond `position`; raise what `fail` was given if it never will be."""
        if self.value >= position:
            return
        if self._failure is not None:
            raise self._failure
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tickets += 1
        heapq.heappush(self.waiters, (position, self._tickets, waiter))
        await waiter

    def fail(self, failure: Exception) -> None:
        """It will not grow any more: everyone who waits, now or later, is told why."""
        self._failure = failure
        for listener in self._on_failure:
            listener()
        waiters, self.waiters = self.waiters, []
        for _, _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(failure)

    @property
    def waiting(self) -> int:
        return len(self.waiters)
