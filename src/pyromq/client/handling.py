"""Running handlers: many at a time (`Concurrent`), or one after another in each queue (`Orderly`).

The contract: return is ack, an exception is a retry, `Reject` is a dead letter, `RetryLater(t)` a retry after t.
Nothing is acked before the handler has ended. What ends after its queue was taken away does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from .. import logs
from ..ambient import Clock
from ..model.message import StoredMessage
from ..protocol.bodies.keyed import MessageQueue
from .assigned import Assigned
from .background import Tasks
from .core.retry import Reject, Retry, RetryLater, send_back_level
from .received import Handling, Received

log = logs.get("pyromq.client")

KEPT_RETRY_S = 5.0  # a message that could not be given back is handled again after this
SUSPEND_S = 1.0  # a failed message of an ordered queue
_LEAST_SUSPEND_S, _MOST_SUSPEND_S = 0.01, 30.0
_LOCK_WAIT_S = 1.0

GiveBack = Callable[[Received, int], Awaitable[bool]]
Attempt = Callable[[Received], Awaitable[Exception | None]]  # a `Runner`, or something around it


class Runner:
    """One attempt at one message."""

    def __init__(self, handling: Handling, clock: Clock, timeout_s: float) -> None:
        self._handling = handling
        self._clock = clock
        # A thread cannot be cancelled: giving up on it would let the message be handled twice at once.
        self._timeout_s = None if handling.is_blocking else timeout_s
        self.running = 0
        self.done = 0
        self.failed = 0

    async def __call__(self, received: Received) -> Exception | None:
        """What the handler raised, None if it returned."""
        self.running += 1
        try:
            async with self._clock.timeout(self._timeout_s):
                await self._handling.run(received)
        except Exception as fault:
            self.failed += 1
            if not isinstance(fault, Reject | RetryLater):
                log.warning(
                    "handler failed", topic=received.topic, id=received.id, attempt=received.attempt, fault=repr(fault)
                )
            return fault
        finally:
            self.running -= 1
        self.done += 1
        return None


class Deliveries(Protocol):
    """What a push consumer asks of either kind."""

    def start(self) -> None: ...

    def offer(self, assigned: Assigned, count: int) -> None:
        """So many messages have come."""
        ...

    async def left(self, assigned: Assigned) -> None:
        """Returns when no handler works on this queue any more. It is leaving already."""
        ...

    async def finish(self, grace_s: float) -> None:
        """Let running handlers end, cancel those that need longer than the grace."""
        ...


class Concurrent:
    """`concurrency` workers share all queues. Event loop only."""

    def __init__(
        self, runner: Attempt, give_back: GiveBack | None, retry: Retry, clock: Clock, tasks: Tasks, concurrency: int
    ) -> None:
        self._runner = runner
        self._give_back = give_back  # None: broadcast, where failures are dropped
        self._retry = retry
        self._clock = clock
        self._tasks = tasks
        self._concurrency = concurrency
        self._inbox: asyncio.Queue[Assigned | None] = asyncio.Queue()
        self._workers: list[asyncio.Task[None]] = []
        self._running: dict[tuple[MessageQueue, int], asyncio.Event] = {}

    def start(self) -> None:
        self._workers = [self._tasks.start(self._work()) for _ in range(self._concurrency)]

    def offer(self, assigned: Assigned, count: int) -> None:
        for _ in range(count):
            self._inbox.put_nowait(assigned)

    async def left(self, assigned: Assigned) -> None:
        """Others may take the queue while we finish: the group's messages are independent of one another."""

    async def finish(self, grace_s: float) -> None:
        while not self._inbox.empty():
            self._inbox.get_nowait()
        for _ in self._workers:
            self._inbox.put_nowait(None)
        await _ended(self._workers, self._clock, grace_s)

    async def _work(self) -> None:
        while (assigned := await self._inbox.get()) is not None:
            for message in () if assigned.is_over else assigned.process.take():
                await self._handle(assigned, message)

    async def _handle(self, assigned: Assigned, message: StoredMessage) -> None:
        place = (assigned.queue, message.queue_offset)
        while (other := self._running.get(place)) is not None:
            await other.wait()  # the queue left and came back: never the same message twice at once
        if assigned.process.is_dropped:
            return
        ended = self._running[place] = asyncio.Event()
        received = Received(message, assigned.queue)
        try:
            fault = await self._runner(received)
        finally:
            del self._running[place]
            ended.set()
        assigned.handled_ms = self._clock.now_ms()
        if not assigned.process.is_dropped and (fault is None or await self._settled(received, fault)):
            assigned.process.done([message])
        elif fault is not None and not assigned.process.is_dropped:
            message.reconsume_times += 1
            self._tasks.start(self._again(assigned, message))

    async def _settled(self, received: Received, fault: Exception) -> bool:
        """A failed message is somebody else's now. Broadcast has nobody: it is dropped, and the log has said so."""
        if self._give_back is None:
            return True
        return await self._give_back(received, send_back_level(fault, received.message.reconsume_times, self._retry))

    async def _again(self, assigned: Assigned, message: StoredMessage) -> None:
        await self._clock.sleep(KEPT_RETRY_S)
        if not assigned.is_over:
            assigned.process.give_back([message])
            self.offer(assigned, 1)


class Orderly:
    """A queue's messages one after another, a failed one again in its place. At most `concurrency` queues at a time."""

    def __init__(
        self,
        runner: Attempt,
        bury: Callable[[Received], Awaitable[bool]],
        most: Callable[[Received], Awaitable[int]],
        clock: Clock,
        tasks: Tasks,
        concurrency: int,
    ) -> None:
        """`most`: how often a message may come again before it is buried."""
        self._runner = runner
        self._bury = bury
        self._most = most
        self._clock = clock
        self._tasks = tasks
        self._slots = asyncio.Semaphore(concurrency)
        self._drains: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    def start(self) -> None:
        """Queues start their own tasks."""

    def offer(self, assigned: Assigned, count: int) -> None:
        if assigned.draining is None and not self._is_stopping:
            assigned.draining = self._tasks.start(self._drain(assigned))
            self._drains.add(assigned.draining)
            assigned.draining.add_done_callback(self._drains.discard)

    async def left(self, assigned: Assigned) -> None:
        """The lock is ours until then, so nobody else handles the queue meanwhile."""
        if assigned.draining is not None:
            await asyncio.wait((assigned.draining,))

    async def finish(self, grace_s: float) -> None:
        self._is_stopping = True
        await _ended(list(self._drains), self._clock, grace_s)

    def _is_over(self, assigned: Assigned) -> bool:
        return self._is_stopping or assigned.is_over

    async def _drain(self, assigned: Assigned) -> None:
        try:
            while not self._is_over(assigned) and (messages := assigned.process.take()):
                await self._until_done(assigned, messages[0])
        finally:
            assigned.draining = None

    async def _until_done(self, assigned: Assigned, message: StoredMessage) -> None:
        received = Received(message, assigned.queue)
        while not self._is_over(assigned):
            if self._clock.monotonic() >= assigned.locked_until:
                await self._clock.sleep(_LOCK_WAIT_S)
                continue
            async with self._slots:
                fault = await self._runner(received)
            assigned.handled_ms = self._clock.now_ms()
            if assigned.process.is_dropped:
                return
            if fault is None or (await self._is_dead(fault, received) and await self._bury(received)):
                assigned.process.done([message])
                return
            message.reconsume_times += 1
            await self._clock.sleep(_suspend_s(fault))
        assigned.process.give_back([message])

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
