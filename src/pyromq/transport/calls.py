"""Our own requests that wait for a response, by opaque, until their time is over. One instance per connection.

One timer watches them all: nearly every call is answered in time, and a timer for each would be most of its cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ..ambient import Clock, Timer
from ..errors import CallFailed
from ..protocol.command import Command

_LAST_OPAQUE = 0x7FFF_FFFF
_TICK_S = 0.001  # timers of event loops are no finer, and may come so much too early


class _Call(NamedTuple):
    waiter: asyncio.Future[Command]
    deadline: float  # seconds of the monotonic clock
    code: int
    timeout_s: float


class PendingCalls:
    """Opaque to waiter. An opaque is not given out again while its call is pending.

    `too_late` says by which failure a call of that code ends after so many seconds.
    """

    __slots__ = ("_calls", "_clock", "_next", "_timer", "_too_late", "_watched_until")

    def __init__(self, clock: Clock, too_late: Callable[[int, float], CallFailed]) -> None:
        self._clock = clock
        self._too_late = too_late
        self._next = 0
        self._calls: dict[int, _Call] = {}
        self._timer: Timer | None = None
        self._watched_until = float("inf")  # when the timer looks next: no deadline is earlier

    def __len__(self) -> int:
        return len(self._calls)

    def open(self, code: int, timeout_s: float) -> tuple[int, asyncio.Future[Command]]:
        opaque = self._next
        while opaque in self._calls:
            opaque = 0 if opaque == _LAST_OPAQUE else opaque + 1
        self._next = 0 if opaque == _LAST_OPAQUE else opaque + 1
        waiter: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        deadline = self._clock.monotonic() + timeout_s
        self._calls[opaque] = _Call(waiter, deadline, code, timeout_s)
        if deadline < self._watched_until:
            self._watch(timeout_s, deadline)
        return opaque, waiter

    def forget(self, opaque: int) -> None:
        self._calls.pop(opaque, None)

    def resolve(self, response: Command) -> bool:
        """False: nobody waits for it, it came too late or was never asked for."""
        call = self._calls.pop(response.opaque, None)
        if call is None or call.waiter.done():
            return False
        call.waiter.set_result(response)
        return True

    def fail_all(self, failure: CallFailed) -> None:
        """The connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if not call.waiter.done():
                call.waiter.set_exception(failure)

    # --- time-outs ---------------------------------------------------------------------------------------------------

    def _watch(self, seconds: float, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._watched_until = until
        self._timer = self._clock.call_later(seconds, self._look)

    def _look(self) -> None:
        """Fail what is late, and look again when the next one would be."""
        self._timer, self._watched_until = None, float("inf")
        now = self._clock.monotonic()
        soon = now + _TICK_S
        late = [opaque for opaque, call in self._calls.items() if call.deadline <= soon]
        for opaque in late:
            call = self._calls.pop(opaque)
            if not call.waiter.done():
                call.waiter.set_exception(self._too_late(call.code, call.timeout_s))
        if self._calls:
            until = min(call.deadline for call in self._calls.values())
            self._watch(until - now, until)
