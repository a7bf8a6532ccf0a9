"""Which messages handlers of this process are busy with, so that none is handled twice at once.

A queue may move from one client of a process to another while its messages are still in work, and each client may run
on a loop and thread of its own. So this is one table for the process, and any thread may use it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import Future


class InWork:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[Hashable, list[Future[None]]] = {}

    def try_enter(self, keys: Sequence[Hashable]) -> bool:
        """All of them at once, or False."""
        with self._lock:
            for key in keys:
                if key in self._held:
                    return False
            for key in keys:
                self._held[key] = []
        return True

    async def enter(self, keys: Sequence[Hashable]) -> None:
        """All of them, as soon as nobody has one of them. Nothing is held while this waits."""
        while not self.try_enter(keys):
            if (busy := self._waiter(keys)) is not None:
                await asyncio.wrap_future(busy)

    def leave(self, keys: Iterable[Hashable]) -> None:
        with self._lock:
            waiting = [future for key in keys for future in self._held.pop(key)]
        for future in waiting:
            if future.set_running_or_notify_cancel():  # it may have given up
                future.set_result(None)

    def _waiter(self, keys: Sequence[Hashable]) -> Future[None] | None:
        """Done when the first of them that somebody has is free again; None: all are free by now."""
        with self._lock:
            for key in keys:
                if (waiting := self._held.get(key)) is not None:
                    future: Future[None] = Future()
                    waiting.append(future)
                    return future
        return None


OF_PROCESS = InWork()
