"""Orderly consumers: the messages of a queue one after another, only while the broker's lock on it is ours.

A failed message is handled again in its place, and holds up what is behind it until it is done or a dead letter. The
push consumer calls this; `consume_service.py` has the contract.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ...model.message import StoredMessage
from ..core.retry import Reject, RetryLater
from ..handle.failures import DEAD
from ..received import Received
from .consume_service import AssignedQueue, ConsumeService
from .send_back import ConsumerSendBack

SUSPEND_S = 1.0  # a failed message of an ordered queue
_LEAST_SUSPEND_S, _MOST_SUSPEND_S = 0.01, 30.0
_LOCK_WAIT_S = 1.0


@dataclass(eq=False, repr=False, kw_only=True)
class OrderlyService(ConsumeService):
    """A queue's messages one after another, a failed one again in its place. At most `concurrency` queues at a time."""

    send_back: ConsumerSendBack

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.concurrency)

    def start(self) -> None:
        """Start nothing: each queue has a task of its own while it has messages."""

    def offer(self, assigned: AssignedQueue) -> None:
        if assigned.draining is None and not self.is_stopping:
            assigned.draining = self.tasks.start(self._drain(assigned))
            self.handlers.add(assigned.draining)
            assigned.draining.add_done_callback(self.handlers.discard)

    async def left(self, assigned: AssignedQueue) -> None:
        """Return when no handler works on the queue: the lock is ours until then, so nobody else handles it."""
        if assigned.draining is not None:
            await asyncio.wait((assigned.draining,))

    def _is_over(self, assigned: AssignedQueue) -> bool:
        return self.is_stopping or assigned.is_over

    async def _drain(self, assigned: AssignedQueue) -> None:
        try:
            while not self._is_over(assigned) and (messages := assigned.process.take(self.max_batch)):
                await self._until_done(assigned, messages)
        finally:
            assigned.draining = None

    async def _until_done(self, assigned: AssignedQueue, messages: list[StoredMessage]) -> None:
        """Handle the messages until they are done. Of a batch those that failed come again, in their order."""
        left = [self.describe(message, assigned.queue) for message in messages]
        while not self._is_over(assigned):
            if self.clock.monotonic() >= assigned.locked_until:
                await self.clock.sleep(_LOCK_WAIT_S)
                continue
            async with self._slots:
                self.running += len(left)
                try:
                    outcomes = await self.attempt(left)
                except asyncio.CancelledError as cancelled:
                    raise self.interruption(cancelled) from None
                finally:
                    self.running -= len(left)
            assigned.handled_ms = self.clock.now_ms()
            if assigned.process.is_dropped or self.is_cut:
                self.log_uncounted(left, outcomes)
                return
            failed = []
            for received, fault in zip(left, outcomes, strict=True):
                counted = None if fault is None else self.failures.outcome(received, fault)
                if counted is None or await self._is_dead_letter(received, counted):
                    assigned.process.done([received.message])
                else:
                    failed.append((received, counted))
            if not failed:
                return
            left = [received for received, _ in failed]
            for received in left:
                received.message.reconsume_times += 1
            await self.clock.sleep(max(suspend_s(fault) for _, fault in failed))
        assigned.process.give_back([received.message for received in left])

    async def _is_dead_letter(self, received: Received, fault: Exception) -> bool:
        """Return whether the failed message is among the dead letters now."""
        times = received.message.reconsume_times
        is_dead = isinstance(fault, Reject) or times >= await self.send_back.most_retries(received)
        then = DEAD if is_dead else f"again in its place in {suspend_s(fault):g} s"
        self.failures.log(received, fault, then)
        return is_dead and await self.send_back.send_dead(received, fault)


def suspend_s(fault: Exception) -> float:
    """Return the pause before a failed message of an ordered queue is handled again."""
    wanted = fault.seconds if isinstance(fault, RetryLater) else SUSPEND_S
    return min(max(wanted, _LEAST_SUSPEND_S), _MOST_SUSPEND_S)
