"""Concurrent consumers: workers share all queues, and messages are handled in any order, many at a time.

A failed message goes back to its broker, which delivers it later. The push consumer calls this; `consume_service.py`
has the contract.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from ...model.message import StoredMessage
from ..handle.failures import DROPPED
from ..received import Received
from .consume_service import AssignedQueue, ConsumeService, in_flight_of
from .send_back import ConsumerSendBack

KEPT_RETRY_S = 5.0  # a message that could not be given back is handled again after this
STREAK = 32  # handler calls of a worker before everything else on the event loop gets a turn, such as the next pulls


@dataclass(eq=False, repr=False, kw_only=True)
class ConcurrentService(ConsumeService):
    """`concurrency` workers share all queues; one that is given up may go at once, since its messages are independent.

    `send_back` is None for broadcast, where failed messages are dropped. `owner` says whose deliveries exclude one
    another: those of all members of the group in this process.
    """

    send_back: ConsumerSendBack | None
    owner: Hashable
    _ready: deque[AssignedQueue] = field(init=False, default_factory=deque)  # with messages that wait, each queue once
    _idle: deque[asyncio.Future[None]] = field(init=False, default_factory=deque)  # workers that found nothing to do
    _is_waking: bool = field(init=False, default=False)  # a worker was woken and has not run yet
    # A worker lets the loop run after a streak and goes on at once: no other is to begin.
    _is_passing: bool = field(init=False, default=False)
    _last: object = field(init=False, default=None)  # the worker that took a message last

    def start(self) -> None:
        self.handlers.update(self.tasks.start(self._work()) for _ in range(self.concurrency))

    def offer(self, assigned: AssignedQueue) -> None:
        if not assigned.is_ready:
            assigned.is_ready = True
            self._ready.append(assigned)
        self._wake()

    async def left(self, assigned: AssignedQueue) -> None:
        """Return at once: another member may handle the other messages of the queue meanwhile."""

    async def finish(self, grace_s: float) -> None:
        self.is_stopping = True
        for idle in self._idle:
            if not idle.done():
                idle.set_result(None)
        await super().finish(grace_s)

    async def _work(self) -> None:
        """Handle message after message of a queue, until a handler has let other workers in or the streak is over."""
        me = object()
        while not self.is_stopping:
            assigned = None if self._is_passing else self._next()
            if assigned is None:
                self._idle.append(idle := asyncio.get_running_loop().create_future())
                try:
                    await idle
                finally:
                    self._is_waking = False
                continue
            self._last = me
            for _ in range(STREAK):
                if assigned.is_over or not (messages := assigned.process.take(self.max_batch)):
                    break
                await self._handle(assigned, messages)
                if self._last is not me or self.is_stopping:
                    break
            else:
                self._is_passing = True
                await self.clock.sleep(0)
                self._is_passing = False

    def _next(self) -> AssignedQueue | None:
        """Return the queue whose turn it is. Wake one more worker if more messages wait: this one may have to wait."""
        ready = self._ready
        while ready:
            assigned = ready[0]
            if assigned.is_over or not assigned.process.waiting:
                ready.popleft()
                assigned.is_ready = False
                continue
            ready.rotate(-1)
            if assigned.process.waiting > self.max_batch or len(ready) > 1:
                self._wake()
            return assigned
        return None

    def _wake(self) -> None:
        """Wake one worker at a time: most handlers of a burst are through before a second one runs."""
        while self._idle and not self._is_waking:
            idle = self._idle.popleft()
            if not idle.done():
                self._is_waking = True
                idle.set_result(None)

    async def _handle(self, assigned: AssignedQueue, messages: list[StoredMessage]) -> None:
        """Call the handler, never twice at once for a message: it may be in flight from an earlier assignment."""
        in_flight = assigned.in_flight
        if in_flight is None:
            in_flight = assigned.in_flight = in_flight_of(self.owner, assigned.queue)
        process, count = assigned.process, len(messages)
        # A comprehension costs as much as the rest of this for one message, and nearly always it is one.
        offsets = [messages[0].queue_offset] if count == 1 else [message.queue_offset for message in messages]
        if not in_flight.try_enter(offsets):
            await in_flight.enter(offsets)
        self.running += count
        try:
            if process.is_dropped:
                return
            received = [self.describe(messages[0], assigned.queue)]
            if count > 1:
                received += [self.describe(message, assigned.queue) for message in messages[1:]]
            outcomes = await self.attempt(received)
        except asyncio.CancelledError as cancelled:
            raise self.interruption(cancelled) from None
        finally:
            self.running -= count
            in_flight.leave(offsets)
        assigned.handled_ms = self.clock.now_ms()
        if process.is_dropped or self.is_cut:
            self.log_uncounted(received, outcomes)
            return
        if outcomes.count(None) == count:
            process.done(messages)
            return
        failed = [(each, fault) for each, fault in zip(received, outcomes, strict=True) if fault is not None]
        lost = {each.message.queue_offset for each, _ in failed}
        process.done(each for each in messages if each.queue_offset not in lost)
        await asyncio.gather(*(self._failed(assigned, each, fault) for each, fault in failed))

    async def _failed(self, assigned: AssignedQueue, received: Received, fault: Exception) -> None:
        """Let somebody else have the failed message, or handle it again here. Broadcast drops it: the log names it."""
        counted = self.failures.outcome(received, fault)
        if counted is not None:
            then = DROPPED if self.send_back is None else self.send_back.outlook(received, counted)
            self.failures.log(received, counted, then)
        if counted is None or self.send_back is None or await self.send_back(received, counted):
            assigned.process.done([received.message])
        elif not assigned.process.is_dropped:
            received.message.reconsume_times += 1
            self.tasks.start(self._again(assigned, received.message))

    async def _again(self, assigned: AssignedQueue, message: StoredMessage) -> None:
        await self.clock.sleep(KEPT_RETRY_S)
        if not assigned.is_over:
            assigned.process.give_back([message])
            self.offer(assigned)
