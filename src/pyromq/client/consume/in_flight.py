"""Which messages handlers of this process are busy with, so that none is handled twice at once.

A queue may move from one client of a process to another while its messages are in flight, and each client may run on a
loop and thread of its own. So there is one table for each queue in the process (`in_flight_of`); any thread may use it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import Future
from weakref import WeakValueDictionary


class InFlight:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[Hashable, list[Future[None]] | None] = {}  # with those who wait, if there are any

    def try_enter(self, keys: Sequence[Hashable]) -> bool:
        """Enter all of them at once; return False if one is busy."""
        held = self._held
        with self._lock:
            for key in keys:
                if key in held:
                    return False
            for key in keys:
                held[key] = None
        return True

    async def enter(self, keys: Sequence[Hashable]) -> None:
        """Enter all of them, as soon as none is busy. None is entered while this waits."""
        while not self.try_enter(keys):
            if (busy := self._waiter(keys)) is not None:
                await asyncio.wrap_future(busy)

    def leave(self, keys: Iterable[Hashable]) -> None:
        waiting: list[Future[None]] = []
        with self._lock:
            for key in keys:
                if (found := self._held.pop(key)) is not None:
                    waiting += found
        for future in waiting:
            if future.set_running_or_notify_cancel():  # it may have given up
                future.set_result(None)

    def _waiter(self, keys: Sequence[Hashable]) -> Future[None] | None:
        """Return a future that is done when the first busy one is free again; None: all are free by now."""
        with self._lock:
            for key in keys:
                if key in self._held:
                    future: Future[None] = Future()
                    self._held[key] = [*(self._held[key] or ()), future]
                    return future
        return None


_tables: WeakValueDictionary[Hashable, InFlight] = WeakValueDictionary()
_lock = threading.Lock()


def in_flight_of(owner: Hashable, queue: Hashable) -> InFlight:
    """Return the table of this queue's offsets, one for all who have it now. It lives as long as one of them does."""
    with _lock:
        return _tables.setdefault((owner, queue), InFlight())
