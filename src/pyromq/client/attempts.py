"""One attempt at a message, or at a batch of them: the handler is called, and each message gets its outcome.

Push consumers hand messages to an `Attempt`: a `Runner`, or what stands around it (traces, middleware). It never
raises, apart from being cancelled. What follows from an outcome is decided in `handling.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from .. import logs
from ..ambient import Clock, Timer
from .core.retry import Reject, RetryLater
from .handlers import Outcomes, Work
from .received import Received

log = logs.get("pyromq.client")

Attempt = Callable[[Sequence[Received]], Awaitable[Outcomes]]


class Deadline:
    """Cancels the block once its time is over (TimeoutError); `renew` lets the time begin anew."""

    def __init__(self, clock: Clock, limit_s: float | None) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._scope = asyncio.Timeout(None)
        self._timer: Timer | None = None

    def renew(self, seconds: float | None = None) -> None:
        """`seconds` from now on, or the whole limit once more. Where there is no limit, nothing happens."""
        if self._limit_s is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        limit_s = self._limit_s if seconds is None else seconds
        # A moment in the loop's past fires at once: asyncio's own rules for nested cancellation apply.
        self._timer = self._clock.call_later(limit_s, self._scope.reschedule, 0.0)

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        self.renew()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limit_s = None  # a handler may have given the message away: no renewal after the end
        if self._timer is not None:
            self._timer.cancel()
        await self._scope.__aexit__(kind, fault, trace)


class Counted:
    """An attempt, and how many messages are in it now."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self.running = 0

    async def __call__(self, messages: Sequence[Received]) -> Outcomes:
        self.running += len(messages)
        try:
            return await self._attempt(messages)
        finally:
            self.running -= len(messages)


class Runner:
    """Calls the handler."""

    def __init__(self, work: Work, clock: Clock, timeout_s: float | None) -> None:
        self._work = work
        self._clock = clock
        self._timeout_s = timeout_s
        self.done = 0
        self.failed = 0

    async def __call__(self, messages: Sequence[Received]) -> Outcomes:
        """For each message what went wrong with it, None if it is done."""
        try:
            async with Deadline(self._clock, self._timeout_s) as deadline:
                for each in messages:
                    each.deadline = deadline
                outcomes = await self._work(messages)
        except Exception as fault:
            outcomes = [fault] * len(messages)
        for message, outcome in zip(messages, outcomes, strict=True):
            self._note(message, outcome)
        return outcomes

    def _note(self, message: Received, outcome: Exception | None) -> None:
        if outcome is None:
            self.done += 1
            return
        self.failed += 1
        if not isinstance(outcome, Reject | RetryLater):
            log.warning(
                "handler failed", topic=message.topic, id=message.id, attempt=message.attempt, fault=repr(outcome)
            )
