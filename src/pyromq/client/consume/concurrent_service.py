"""Concurrent consumers: workers share all queues, and messages are handled in any order, many at a time.

A failed message goes back to its broker, which delivers it later. The push consumer calls this; `consume_service.py`
has the contract.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Hashable

from ...model.message import StoredMessage
from ..core.retry import Retry, send_back_level
from ..received import Received
from .consume_service import AssignedQueue, HandlerCalls, end_all, in_flight_of

KEPT_RETRY_S = 5.0  # a message that could not be given back is handled again after this
STREAK = 32  # handler calls of a worker before everything else on the event loop gets a turn, such as the next pulls

SendBack = Callable[[Received, int], Awaitable[bool]]


class _Pass:
    """Awaited, it lets everything else on the event loop run once."""

    def __await__(self) -> Generator[None, None, None]:
        yield


_PASS = _Pass()


class ConcurrentService:
    """`concurrency` workers share all queues. Event loop only."""

    def __init__(self, calls: HandlerCalls, retry: Retry, send_back: SendBack | None, owner: Hashable) -> None:
        """`send_back` is None for broadcast, where failed messages are dropped.

        `owner` says whose deliveries exclude one another: those of all members of the group in this process.
        """
        self._calls = calls
        self._attempt, self._describe = calls.attempt, calls.describe
        self._max_batch, self._clock = calls.max_batch, calls.clock
        self._retry = retry
        self._send_back = send_back
        self._owner = owner
        self._ready: deque[AssignedQueue] = deque()  # queues with messages that wait for a worker, each once
        self._idle: deque[asyncio.Future[None]] = deque()  # workers that found nothing to do
        self._is_waking = False  # a worker was woken and has not run yet
        self._is_passing = False  # a worker lets the loop run after a streak and goes on at once: no other is to begin
        self._last: object = None  # the worker that took a message last
        self._is_stopping = False
        self._workers: list[asyncio.Task[None]] = []
        self.running = 0

    def start(self) -> None:
        self._workers = [self._calls.tasks.start(self._work()) for _ in range(self._calls.concurrency)]

    def offer(self, assigned: AssignedQueue) -> None:
        if not assigned.is_ready:
            assigned.is_ready = True
            self._ready.append(assigned)
        self._wake()

    async def left(self, assigned: AssignedQueue) -> None:
        """Return at once: others may take the queue while we finish, since its messages are independent."""

    async def finish(self, grace_s: float) -> None:
        self._is_stopping = True
        for idle in self._idle:
            if not idle.done():
                idle.set_result(None)
        await end_all(self._workers, self._clock, grace_s)

    # --- workers --------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Handle message after message of a queue, until a handler has let other workers in or the streak is over."""
        me = object()
        while not self._is_stopping:
            assigned = None if self._is_passing else self._next()
            if assigned is None:
                await self._wait_for_work()
                continue
            self._last = me
            for _ in range(STREAK):
                if assigned.is_over or not (messages := assigned.process.take(self._max_batch)):
                    break
                await self._handle(assigned, messages)
                if self._last is not me or self._is_stopping:
                    break
            else:
                self._is_passing = True
                await _PASS
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
            if assigned.process.waiting > self._max_batch or len(ready) > 1:
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

    async def _wait_for_work(self) -> None:
        idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(idle)
        try:
            await idle
        finally:
            self._is_waking = False

    # --- one call -------------------------------------------------------------------------------------------------

    async def _handle(self, assigned: AssignedQueue, messages: list[StoredMessage]) -> None:
        """Call the handler, never twice at once for a message: it may be in flight from an earlier assignment."""
        in_flight = assigned.in_flight
        if in_flight is None:
            in_flight = assigned.in_flight = in_flight_of(self._owner, assigned.queue)
        process, count = assigned.process, len(messages)
        # A comprehension costs as much as the rest of this for one message, and nearly always it is one.
        offsets = [messages[0].queue_offset] if count == 1 else [message.queue_offset for message in messages]
        if not in_flight.try_enter(offsets):
            await in_flight.enter(offsets)
        self.running += count
        try:
            if process.is_dropped:
                return
            received = [self._describe(messages[0], assigned.queue)]
            if count > 1:
                received += [self._describe(message, assigned.queue) for message in messages[1:]]
            outcomes = await self._attempt(received)
        finally:
            self.running -= count
            in_flight.leave(offsets)
        assigned.handled_ms = self._clock.now_ms()
        if process.is_dropped:
            return
        if outcomes.count(None) == count:
            process.done(messages)
            return
        failed = [(each, fault) for each, fault in zip(received, outcomes, strict=True) if fault is not None]
        lost = {each.message.queue_offset for each, _ in failed}
        process.done(each for each in messages if each.queue_offset not in lost)
        await asyncio.gather(*(self._failed(assigned, each, fault) for each, fault in failed))

    async def _failed(self, assigned: AssignedQueue, received: Received, fault: Exception) -> None:
        if await self._settled(received, fault):
            assigned.process.done([received.message])
        elif not assigned.process.is_dropped:
            received.message.reconsume_times += 1
            self._calls.tasks.start(self._again(assigned, received.message))

    async def _settled(self, received: Received, fault: Exception) -> bool:
        """Return whether the failed message is somebody else's now. Broadcast drops it; the log names it already."""
        if self._send_back is None:
            return True
        return await self._send_back(received, send_back_level(fault, received.message.reconsume_times, self._retry))

    async def _again(self, assigned: AssignedQueue, message: StoredMessage) -> None:
        await self._clock.sleep(KEPT_RETRY_S)
        if not assigned.is_over:
            assigned.process.give_back([message])
            self.offer(assigned)
