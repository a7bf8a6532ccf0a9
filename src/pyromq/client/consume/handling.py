"""Running handlers: many at a time (`ConcurrentService`), or one after another in each queue (`OrderlyService`).

The contract: return is ack, an exception is a retry, `Reject` is a dead letter, `RetryLater(t)` a retry after t. Of a
batch each message has an outcome of its own. Nothing is acked before the handler has ended. What ends after its queue
was taken away does not count.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Hashable
from typing import Protocol

from ... import logs
from ...ambient import Clock
from ...model.message import StoredMessage
from ...protocol.bodies.keyed import MessageQueue
from ..connect.background import Tasks
from ..core.retry import Reject, Retry, RetryLater, send_back_level
from ..received import Received
from .assigned import AssignedQueue
from .attempts import Attempt
from .in_flight import in_flight_of

log = logs.get("pyromq.client")

KEPT_RETRY_S = 5.0  # a message that could not be given back is handled again after this
SUSPEND_S = 1.0  # a failed message of an ordered queue
_LEAST_SUSPEND_S, _MOST_SUSPEND_S = 0.01, 30.0
_LOCK_WAIT_S = 1.0
STREAK = 32  # handler calls of a worker before everything else on the event loop gets a turn, such as the next pulls

GiveBack = Callable[[Received, int], Awaitable[bool]]
Describe = Callable[[StoredMessage, MessageQueue], Received]


class _Pass:
    """Awaited, it lets everything else on the event loop run once."""

    def __await__(self) -> Generator[None, None, None]:
        yield


_PASS = _Pass()


class ConsumeService(Protocol):
    """What a push consumer asks of either kind."""

    running: int  # messages that handlers are busy with

    def start(self) -> None: ...

    def offer(self, assigned: AssignedQueue) -> None:
        """Messages have come."""
        ...

    async def left(self, assigned: AssignedQueue) -> None:
        """Returns when no handler works on this queue any more. It is leaving already."""
        ...

    async def finish(self, grace_s: float) -> None:
        """Let running handlers end, cancel those that need longer than the grace."""
        ...


class ConcurrentService:
    """`concurrency` workers share all queues. Event loop only."""

    def __init__(
        self,
        attempt: Attempt,
        give_back: GiveBack | None,
        retry: Retry,
        clock: Clock,
        tasks: Tasks,
        *,
        concurrency: int,
        max_batch: int,
        describe: Describe,
        owner: Hashable,
    ) -> None:
        """`owner`: whose deliveries exclude one another, all members of the group in this process."""
        self._attempt = attempt
        self._give_back = give_back  # None: broadcast, where failures are dropped
        self._retry = retry
        self._clock = clock
        self._tasks = tasks
        self._concurrency = concurrency
        self._max_batch = max_batch
        self._describe = describe
        self._owner = owner
        self._ready: deque[AssignedQueue] = deque()  # queues with messages that wait for a worker, each once
        self._resting: deque[asyncio.Future[None]] = deque()  # workers that found nothing to do
        self._is_waking = False  # a worker was woken and has not looked yet
        self._is_passing = False  # one whose handlers wait for nothing goes on in a moment: no other is needed
        self._last: object = None  # the worker that took a message last
        self._is_stopping = False
        self._workers: list[asyncio.Task[None]] = []
        self.running = 0

    def start(self) -> None:
        self._workers = [self._tasks.start(self._work()) for _ in range(self._concurrency)]

    def offer(self, assigned: AssignedQueue) -> None:
        if not assigned.is_ready:
            assigned.is_ready = True
            self._ready.append(assigned)
        self._wake()

    async def left(self, assigned: AssignedQueue) -> None:
        """Others may take the queue while we finish: the group's messages are independent of one another."""

    async def finish(self, grace_s: float) -> None:
        self._is_stopping = True
        for resting in self._resting:
            if not resting.done():
                resting.set_result(None)
        await _ended(self._workers, self._clock, grace_s)

    # --- workers --------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Message after message of one queue, until a handler has let other workers in or the streak is long enough."""
        me = object()
        while not self._is_stopping:
            assigned = None if self._is_passing else self._next()
            if assigned is None:
                await self._rest()
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
        """The queue whose turn it is. One more worker is woken for what is behind, in case this one has to wait."""
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
        """One at a time, and that one the next: most handlers of a burst are through before a second worker looks."""
        while self._resting and not self._is_waking:
            resting = self._resting.popleft()
            if not resting.done():
                self._is_waking = True
                resting.set_result(None)

    async def _rest(self) -> None:
        resting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting.append(resting)
        try:
            await resting
        finally:
            self._is_waking = False

    # --- one call -------------------------------------------------------------------------------------------------

    async def _handle(self, assigned: AssignedQueue, messages: list[StoredMessage]) -> None:
        """Never a message twice at once: its queue may have left and come back, or come from another client here."""
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
            self._tasks.start(self._again(assigned, received.message))

    async def _settled(self, received: Received, fault: Exception) -> bool:
        """A failed message is somebody else's now. Broadcast has nobody: it is dropped, and the log has said so."""
        if self._give_back is None:
            return True
        return await self._give_back(received, send_back_level(fault, received.message.reconsume_times, self._retry))

    async def _again(self, assigned: AssignedQueue, message: StoredMessage) -> None:
        await self._clock.sleep(KEPT_RETRY_S)
        if not assigned.is_over:
            assigned.process.give_back([message])
            self.offer(assigned)


class OrderlyService:
    """A queue's messages one after another, a failed one again in its place. At most `concurrency` queues at a time."""

    def __init__(
        self,
        attempt: Attempt,
        bury: Callable[[Received], Awaitable[bool]],
        most: Callable[[Received], Awaitable[int]],
        clock: Clock,
        tasks: Tasks,
        *,
        concurrency: int,
        max_batch: int,
        describe: Describe,
    ) -> None:
        """`most`: how often a message may come again before it is buried."""
        self._attempt = attempt
        self._bury = bury
        self._most = most
        self._clock = clock
        self._tasks = tasks
        self._max_batch = max_batch
        self._describe = describe
        self._slots = asyncio.Semaphore(concurrency)
        self._drains: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self.running = 0

    def start(self) -> None:
        """Queues start their own tasks."""

    def offer(self, assigned: AssignedQueue) -> None:
        if assigned.draining is None and not self._is_stopping:
            assigned.draining = self._tasks.start(self._drain(assigned))
            self._drains.add(assigned.draining)
            assigned.draining.add_done_callback(self._drains.discard)

    async def left(self, assigned: AssignedQueue) -> None:
        """The lock is ours until then, so nobody else handles the queue meanwhile."""
        if assigned.draining is not None:
            await asyncio.wait((assigned.draining,))

    async def finish(self, grace_s: float) -> None:
        self._is_stopping = True
        await _ended(list(self._drains), self._clock, grace_s)

    def _is_over(self, assigned: AssignedQueue) -> bool:
        return self._is_stopping or assigned.is_over

    async def _drain(self, assigned: AssignedQueue) -> None:
        try:
            while not self._is_over(assigned) and (messages := assigned.process.take(self._max_batch)):
                await self._until_done(assigned, messages)
        finally:
            assigned.draining = None

    async def _until_done(self, assigned: AssignedQueue, messages: list[StoredMessage]) -> None:
        """Of a batch those that failed come again, in their order, before anything behind them."""
        left = [self._describe(message, assigned.queue) for message in messages]
        while not self._is_over(assigned):
            if self._clock.monotonic() >= assigned.locked_until:
                await self._clock.sleep(_LOCK_WAIT_S)
                continue
            async with self._slots:
                self.running += len(left)
                try:
                    outcomes = await self._attempt(left)
                finally:
                    self.running -= len(left)
            assigned.handled_ms = self._clock.now_ms()
            if assigned.process.is_dropped:
                return
            failed = []
            for received, fault in zip(left, outcomes, strict=True):
                if fault is None or (await self._is_dead(fault, received) and await self._bury(received)):
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
        return isinstance(fault, Reject) or received.message.reconsume_times >= await self._most(received)


def _suspend_s(fault: Exception) -> float:
    wanted = fault.seconds if isinstance(fault, RetryLater) else SUSPEND_S
    return min(max(wanted, _LEAST_SUSPEND_S), _MOST_SUSPEND_S)


async def _ended(tasks: list[asyncio.Task[None]], clock: Clock, grace_s: float) -> None:
    try:
        async with clock.timeout(grace_s):
            if tasks:
                await asyncio.wait(tasks)
    except TimeoutError:
        if grace_s > 0:
            running = sum(not task.done() for task in tasks)
            log.warning("handlers did not end in time and are cancelled", running=running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
