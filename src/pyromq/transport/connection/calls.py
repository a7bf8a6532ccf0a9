"""Our own requests that wait for a response, by opaque, until their time is over. One instance per connection."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import NamedTuple

from ...ambient import Clock
from ...errors import CallFailed
from ...protocol.command import Command
from ..turns.timeouts import Timeouts
from .flow import FlowControl

_LAST_OPAQUE = 0x7FFF_FFFF


class _Call(NamedTuple):
    waiter: asyncio.Future[Command]
    code: int
    timeout_s: float


Send = Callable[[Command, bool], None]  # how a request leaves; true: at once, nothing is expected to join it


class PendingCalls:
    """Opaque to waiter. An opaque is not given out again while its call is pending.

    `timed_out` says by which failure a call of that code ends after so many seconds.
    """

    __slots__ = ("_calls", "_next", "_timed_out", "_timeouts")

    def __init__(self, clock: Clock, timed_out: Callable[[int, float], CallFailed]) -> None:
        self._timed_out = timed_out
        self._timeouts: Timeouts[int] = Timeouts(clock, self._expire)
        self._next = 0
        self._calls: dict[int, _Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    async def call(self, request: Command, timeout_s: float, flow: FlowControl, send: Send) -> Command:
        """Send as soon as the peer reads, and await the response. Raises what ended the call if none comes."""
        opaque, waiter = self._open(request.code, timeout_s)
        request.opaque = opaque
        try:
            while flow.is_blocked and not waiter.done():  # done: timed out or lost meanwhile
                await asyncio.wait((flow.unblocked(), waiter), return_when=asyncio.FIRST_COMPLETED)
            if waiter.done():
                return waiter.result()
            send(request, len(self._calls) == 1)
            try:
                return await waiter
            except CallFailed as failure:
                failure.was_sent = True
                raise
        finally:
            self._calls.pop(opaque, None)
            self._timeouts.end(opaque)

    def _open(self, code: int, timeout_s: float) -> tuple[int, asyncio.Future[Command]]:
        opaque = self._next
        while opaque in self._calls:
            opaque = 0 if opaque == _LAST_OPAQUE else opaque + 1
        self._next = 0 if opaque == _LAST_OPAQUE else opaque + 1
        waiter: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._calls[opaque] = _Call(waiter, code, timeout_s)
        self._timeouts.begin(opaque, timeout_s)
        return opaque, waiter

    def resolve(self, response: Command) -> bool:
        """Hand a response to who waits for it; False: nobody does, it came too late or was never asked for."""
        call = self._calls.pop(response.opaque, None)
        if call is None or call.waiter.done():
            return False
        call.waiter.set_result(response)
        return True

    def fail_all(self, failure: CallFailed) -> None:
        """End all calls: the connection has ended."""
        self._timeouts.stop()
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if not call.waiter.done():
                call.waiter.set_exception(copy.copy(failure))  # each says of itself whether it was sent

    def _expire(self, opaque: int) -> None:
        call = self._calls.pop(opaque, None)
        if call is not None and not call.waiter.done():
            call.waiter.set_exception(self._timed_out(call.code, call.timeout_s))
