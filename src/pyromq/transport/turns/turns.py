"""Turns: what waits is served a share at a time, once per pass of the loop, and what connections have to write leaves
at the end of each turn. Both services of a server have one. Event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, Protocol, TypeVar

from ...protocol.row import RequestClass
from .fair_queue import FairQueue


class Flushed(Hashable, Protocol):
    """A connection, as turns know it."""

    def flush(self) -> None: ...


C = TypeVar("C", bound=Flushed)
T = TypeVar("T")


class Turns(Generic[C, T]):
    """`serve` is called with each request when it is its turn."""

    def __init__(self, shares: Mapping[RequestClass, int], serve: Callable[[C, T], None]) -> None:
        self._queue: FairQueue[C, T] = FairQueue(shares)
        self._serve = serve
        self._unflushed: list[C] = []
        self._turn_is_due = False
        self._flush_is_due = False

    def put(self, kind: RequestClass, connection: C, item: T) -> None:
        """Let a request wait. Who has put some says `begin_soon` or `begin`."""
        self._queue.put(kind, connection, item)

    def waiting(self, kind: RequestClass) -> int:
        """Return how many requests of a class wait to be served."""
        return self._queue.waiting(kind)

    def suspend(self, connection: C) -> None:
        """Serve nothing of this connection until `resume`: its answers could not leave."""
        self._queue.suspend(connection)

    def resume(self, connection: C) -> None:
        self._queue.resume(connection)
        self.begin_soon()

    def discard(self, connection: C) -> list[T]:
        """Take out what a connection that is gone had waiting."""
        return self._queue.discard(connection)

    def begin_soon(self) -> None:
        """Have the next turn in the next pass of the loop, if anything waits."""
        if not self._turn_is_due and self._queue.has_work:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def begin(self) -> None:
        """Have a turn now, unless others wait for one already: nobody is overtaken."""
        if not self._turn_is_due and self._queue.has_work:
            self._turn()

    def _turn(self) -> None:
        self._turn_is_due = False
        try:
            for connection, item in self._queue.turn():
                self._serve(connection, item)
        finally:
            self.flush()
            self.begin_soon()

    def flush_soon(self, connection: C) -> None:
        """Have a connection write at the end of this pass of the loop, or of a turn that comes before."""
        self._unflushed.append(connection)
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        self._flush_is_due = False
        unflushed, self._unflushed = self._unflushed, []
        for connection in unflushed:
            connection.flush()
