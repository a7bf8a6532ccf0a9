"""Orderly consumers: the messages of a queue one after another, only while the broker's lock on it is ours.

A failed message is handled again in its place, and holds up what is behind it until it is done or a dead letter. The
push consumer calls this; `consume_service.py` has the contract.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ...model.message import StoredMessage
from ..core.retry import Reject, RetryLater
from ..received import Received
from .consume_service import AssignedQueue, HandlerCalls, end_all

SUSPEND_S = 1.0  # a failed message of an ordered queue
_LEAST_SUSPEND_S, _MOST_SUSPEND_S = 0.01, 30.0
_LOCK_WAIT_S = 1.0


class OrderlyService:
    """A queue's messages one after another, a failed one again in its place. At most `concurrency` queues at a time."""

    def __init__(
        self,
        calls: HandlerCalls,
        most_retries: Callable[[Received], Awaitable[int]],
        send_dead: Callable[[Received], Awaitable[bool]],
    ) -> None:
        """`most_retries`: how often a message may come again before `send_dead` makes it a dead letter."""
        self._calls = calls
        self._clock = calls.clock
        self._most_retries = most_retries
        self._send_dead = send_dead
        self._slots = asyncio.Semaphore(calls.concurrency)
        self._drains: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self.running = 0

    def start(self) -> None:
        """Start nothing: queues start their own tasks."""

    def offer(self, assigned: AssignedQueue) -> None:
        if assigned.draining is None and not self._is_stopping:
            assigned.draining = self._calls.tasks.start(self._drain(assigned))
            self._drains.add(assigned.draining)
            assigned.draining.add_done_callback(self._drains.discard)

    async def left(self, assigned: AssignedQueue) -> None:
        """Return when no handler works on the queue: the lock is ours until then, so nobody else handles it."""
        if assigned.draining is not None:
            await asyncio.wait((assigned.draining,))

    async def finish(self, grace_s: float) -> None:
        self._is_stopping = True
        await end_all(list(self._drains), self._clock, grace_s)

    def _is_over(self, assigned: AssignedQueue) -> bool:
        return self._is_stopping or assigned.is_over

    async def _drain(self, assigned: AssignedQueue) -> None:
        try:
            while not self._is_over(assigned) and (messages := assigned.process.take(self._calls.max_batch)):
                await self._until_done(assigned, messages)
        finally:
            assigned.draining = None

    async def _until_done(self, assigned: AssignedQueue, messages: list[StoredMessage]) -> None:
        """Handle the messages until they are done. Of a batch those that failed come again, in their order."""
        left = [self._calls.describe(message, assigned.queue) for message in messages]
        while not self._is_over(assigned):
            if self._clock.monotonic() >= assigned.locked_until:
                await self._clock.sleep(_LOCK_WAIT_S)
                continue
            async with self._slots:
                self.running += len(left)
                try:
                    outcomes = await self._calls.attempt(left)
                finally:
                    self.running -= len(left)
            assigned.handled_ms = self._clock.now_ms()
            if assigned.process.is_dropped:
                return
            failed = []
            for received, fault in zip(left, outcomes, strict=True):
                if fault is None or (await self._is_dead(fault, received) and await self._send_dead(received)):
                    assigned.process.done([received.message])
                else:
                    failed.append((received, fault))
            if not failed:
                return
            left = [received for received, _ in failed]
            for received in left:
                received.message.reconsume_times += 1
            await self._clock.sleep(max(_suspend_s(fault) for _, fault in failed))
        assigned.process.give_back([received.message for received in left])

    async def _is_dead(self, fault: Exception, received: Received) -> bool:
        return isinstance(fault, Reject) or received.message.reconsume_times >= await self._most_retries(received)


def _suspend_s(fault: Exception) -> float:
    wanted = fault.seconds if isinstance(fault, RetryLater) else SUSPEND_S
    return min(max(wanted, _LEAST_SUSPEND_S), _MOST_SUSPEND_S)
