"""One attempt at a message, or at a batch of them: the handler is called, and each message gets its outcome.

Push consumers hand messages to an `Attempt`: a `Runner`, or what stands around it (traces, middleware). It never
raises, apart from being cancelled. What follows from an outcome is decided in `handling.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self

from .. import logs
from ..ambient import Clock
from ..transport.timeouts import Timeouts
from .core.retry import Reject, RetryLater
from .handlers import Outcomes, Work
from .received import Received

log = logs.get("pyromq.client")

Attempt = Callable[[Sequence[Received]], Awaitable[Outcomes]]


class Deadline:
    """Cancels the block once its time is over (TimeoutError); `renew` lets the time begin anew.

    As `asyncio.timeout`, which cannot be handed a clock, and with less around it: every message passes here.
    """

    __slots__ = ("_before", "_is_late", "_limit_s", "_task", "_timeouts")

    def __init__(self, timeouts: Timeouts[Deadline], limit_s: float | None) -> None:
        self._timeouts = timeouts
        self._limit_s = limit_s
        self._task: asyncio.Task[Any] | None = None
        self._before = 0  # cancellations that were asked for already
        self._is_late = False

    def renew(self, seconds: float | None = None) -> None:
        """`seconds` from now on, or the whole limit once more. Where there is no limit, nothing happens."""
        if self._limit_s is not None and not self._is_late:
            self._timeouts.begin(self, self._limit_s if seconds is None else seconds)

    def late(self) -> None:
        self._is_late = True
        if self._task is not None:
            self._task.cancel()

    def __enter__(self) -> Self:
        if self._limit_s is not None:
            self._task = asyncio.current_task()
            self._before = 0 if self._task is None else self._task.cancelling()
            self._timeouts.begin(self, self._limit_s)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limit_s = None  # a handler may have given the message away: no renewal after the end
        self._timeouts.end(self)
        if self._is_late and self._task is not None:
            only_ours = self._task.uncancel() <= self._before
            if only_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
                raise TimeoutError("the handler took longer than its time-out") from fault


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
        self._timeouts: Timeouts[Deadline] = Timeouts(clock, Deadline.late)
        self._timeout_s = timeout_s
        self.done = 0
        self.failed = 0

    async def __call__(self, messages: Sequence[Received]) -> Outcomes:
        """For each message what went wrong with it, None if it is done."""
        outcomes: Outcomes
        try:
            with Deadline(self._timeouts, self._timeout_s) as deadline:
                for each in messages:
                    each.deadline = deadline
                outcomes = await self._work(messages)
        except Exception as fault:
            outcomes = [fault] * len(messages)
        self.done += outcomes.count(None)
        for message, outcome in zip(messages, outcomes, strict=True):
            if outcome is not None:
                self._failed(message, outcome)
        return outcomes

    def _failed(self, message: Received, outcome: Exception) -> None:
        self.failed += 1
        if not isinstance(outcome, Reject | RetryLater):
            log.warning(
                "handler failed", topic=message.topic, id=message.id, attempt=message.attempt, fault=repr(outcome)
            )
