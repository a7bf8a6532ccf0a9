"""Our own requests that wait for a response, by opaque, until their time is over. One instance per connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ...ambient import Clock
from ...errors import CallFailed
from ...protocol.command import Command
from ..turns.timeouts import Timeouts

_LAST_OPAQUE = 0x7FFF_FFFF


class _Call(NamedTuple):
    waiter: asyncio.Future[Command]
    code: int
    timeout_s: float


class PendingCalls:
    """Opaque to waiter. An opaque is not given out again while its call is pending.

    `too_late` says by which failure a call of that code ends after so many seconds.
    """

    __slots__ = ("_calls", "_next", "_timeouts", "_too_late")

    def __init__(self, clock: Clock, too_late: Callable[[int, float], CallFailed]) -> None:
        self._too_late = too_late
        self._timeouts: Timeouts[int] = Timeouts(clock, self._expire)
        self._next = 0
        self._calls: dict[int, _Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def open(self, code: int, timeout_s: float) -> tuple[int, asyncio.Future[Command]]:
        opaque = self._next
        while opaque in self._calls:
            opaque = 0 if opaque == _LAST_OPAQUE else opaque + 1
        self._next = 0 if opaque == _LAST_OPAQUE else opaque + 1
        waiter: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._calls[opaque] = _Call(waiter, code, timeout_s)
        self._timeouts.begin(opaque, timeout_s)
        return opaque, waiter

    def forget(self, opaque: int) -> None:
        self._calls.pop(opaque, None)
        self._timeouts.end(opaque)

    def resolve(self, response: Command) -> bool:
        """False: nobody waits for it, it came too late or was never asked for."""
        call = self._calls.pop(response.opaque, None)
        if call is None or call.waiter.done():
            return False
        call.waiter.set_result(response)
        return True

    def fail_all(self, failure: CallFailed) -> None:
        """The connection has ended."""
        self._timeouts.stop()
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if not call.waiter.done():
                call.waiter.set_exception(failure)

    def _expire(self, opaque: int) -> None:
        call = self._calls.pop(opaque, None)
        if call is not None and not call.waiter.done():
            call.waiter.set_exception(self._too_late(call.code, call.timeout_s))
