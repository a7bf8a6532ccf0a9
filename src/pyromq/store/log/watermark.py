"""A position that only grows, and those who wait for it: the store's only meeting point with the event loop.

`appended`, `flushed` and `readable` are watermarks. The store moves them; handlers await `reached`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from ... import logs
from ...kernel import state

log = logs.get("pyromq.store")


class Watermark:
    """Event loop only. Invariant: `value` never goes down; a waiter is woken once, in order of position."""

    def __init__(self, value: int = 0) -> None:
        self.state = state.WatermarkState(value)
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tickets = 0
        self._failure: Exception | None = None
        self._listeners: list[Callable[[int], None]] = []
        self._on_failure: list[Callable[[], None]] = []

    @property
    def value(self) -> int:
        return self.state.value

    def _note_watched(self) -> None:
        self.state.is_watched = bool(self._listeners or self._waiters)

    def on_advance(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with the new value each time it grows, before waiters wake."""
        self._listeners.append(listener)
        self._note_watched()

    def on_failure(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the value will not grow any more."""
        self._on_failure.append(listener)

    def advance(self, value: int) -> None:
        """Move to `value`, unless it is there already: call who listens, wake who waits.

        A listener that fails is logged: what is stored stays so, and whoever appended it must not put it again.
        """
        if value <= self.state.value:
            return
        self.state.value = value
        if not self.state.is_watched:
            return
        for listener in self._listeners:
            try:
                listener(value)
            except Exception:
                log.exception("who listens to a watermark failed", position=value)
        while self._waiters and self._waiters[0][0] <= value:
            waiter = heapq.heappop(self._waiters)[2]
            if not waiter.done():
                waiter.set_result(None)
        self._note_watched()

    async def reached(self, position: int) -> None:
        """Return once the value is at or beyond `position`; raise what `fail` was given if it never will be."""
        if self.value >= position:
            return
        if self._failure is not None:
            raise self._failure
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tickets += 1
        heapq.heappush(self._waiters, (position, self._tickets, waiter))
        self._note_watched()
        await waiter

    def fail(self, failure: Exception) -> None:
        """Raise `failure` in everybody who waits, now or afterwards: the value does not grow any more."""
        self._failure = failure
        for listener in self._on_failure:
            listener()
        waiters, self._waiters = self._waiters, []
        self._note_watched()
        for _, _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(failure)

    @property
    def waiting(self) -> int:
        return len(self._waiters)
