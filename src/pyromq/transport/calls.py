"""Our own requests that wait for a response, by opaque. One instance per connection."""

from __future__ import annotations

import asyncio

from ..errors import CallFailed
from ..protocol.command import Command

_LAST_OPAQUE = 0x7FFF_FFFF


class PendingCalls:
    """Opaque to waiter. An opaque is not given out again while its call is pending."""

    __slots__ = ("_next", "_waiters")

    def __init__(self) -> None:
        self._next = 0
        self._waiters: dict[int, asyncio.Future[Command]] = {}

    def __len__(self) -> int:
        return len(self._waiters)

    def open(self) -> tuple[int, asyncio.Future[Command]]:
        while self._next in self._waiters:
            self._step()
        opaque = self._next
        self._step()
        waiter: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiters[opaque] = waiter
        return opaque, waiter

    def forget(self, opaque: int) -> None:
        self._waiters.pop(opaque, None)

    def resolve(self, response: Command) -> bool:
        """False: nobody waits for it, it came too late or was never asked for."""
        waiter = self._waiters.pop(response.opaque, None)
        if waiter is None or waiter.done():
            return False
        waiter.set_result(response)
        return True

    def fail(self, opaque: int, failure: CallFailed) -> None:
        waiter = self._waiters.pop(opaque, None)
        if waiter is not None and not waiter.done():
            waiter.set_exception(failure)

    def fail_all(self, failure: CallFailed) -> None:
        for opaque in list(self._waiters):
            self.fail(opaque, failure)

    def _step(self) -> None:
        self._next = 0 if self._next == _LAST_OPAQUE else self._next + 1
