"""What lies between a push consumer's pulls and its handlers: an assigned queue, and who handles its messages.

The handlers are run by a `ConsumeService`: `concurrent_service.py` or `orderly_service.py`. Its contract: return is
ack, an exception is a retry, `Reject` is a dead letter, `RetryLater(t)` a retry after t. Of a batch each message has an
outcome of its own. Nothing is acked before the handler has ended. An end after its queue was given up does not count.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from ...ambient import Clock
from ...model.message import StoredMessage
from ...protocol.bodies.keyed import MessageQueue
from ..connect.background import Tasks
from ..core.process_queue import ProcessQueue
from ..handle.attempts import Attempt
from ..handle.failures import Failures
from ..handle.handlers import Outcomes
from ..handle.stopping import finish_handlers
from ..received import Received

Describe = Callable[[StoredMessage, MessageQueue], Received]


class InFlight:
    """Which messages handlers of this process are busy with, so that none is handled twice at once.

    A queue may move from one client of a process to another while its messages are in flight, and each client may run
    on a loop and thread of its own. So there is one table for each queue in the process (`in_flight_of`); any thread
    may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[Hashable, list[Future[None]] | None] = {}  # with those who wait, if there are any

    def try_enter(self, keys: Sequence[Hashable]) -> bool:
        """Enter all keys at once; return False if one is busy."""
        held = self._held
        with self._lock:
            for key in keys:
                if key in held:
                    return False
            for key in keys:
                held[key] = None
        return True

    async def enter(self, keys: Sequence[Hashable]) -> None:
        """Enter all keys, as soon as none is busy. None is entered while this waits."""
        while not self.try_enter(keys):
            if (busy := self._waiter(keys)) is not None:
                await asyncio.wrap_future(busy)

    def leave(self, keys: Iterable[Hashable]) -> None:
        waiting: list[Future[None]] = []
        with self._lock:
            for key in keys:
                if (found := self._held.pop(key)) is not None:
                    waiting += found
        for future in waiting:
            if future.set_running_or_notify_cancel():  # it may have given up
                future.set_result(None)

    def _waiter(self, keys: Sequence[Hashable]) -> Future[None] | None:
        """Return a future that is done when the first busy key is free again; None if all are free by now."""
        with self._lock:
            for key in keys:
                if key in self._held:
                    future: Future[None] = Future()
                    self._held[key] = [*(self._held[key] or ()), future]
                    return future
        return None


_tables: WeakValueDictionary[Hashable, InFlight] = WeakValueDictionary()
_lock = threading.Lock()


def in_flight_of(owner: Hashable, queue: Hashable) -> InFlight:
    """Return the table of this queue's offsets, one for all who have it now. It lives as long as one of them does."""
    with _lock:
        return _tables.setdefault((owner, queue), InFlight())


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class AssignedQueue:
    """One queue that a push consumer has now. A queue assigned again is a new object. Event loop only."""

    queue: MessageQueue
    process: ProcessQueue
    next_offset: int = -1
    committed: int = -1  # the offset that the broker has of us
    locked_until: float = float("-inf")  # orderly only; seconds of the monotonic clock
    in_flight: InFlight | None = None  # concurrent only: offsets that handlers of this process are busy with
    is_ready: bool = False  # concurrent only: stands in the row of queues with messages for handlers
    is_leaving: bool = False  # no new message is handled; those in flight are finished
    pulling: asyncio.Task[Any] | None = None
    draining: asyncio.Task[Any] | None = None
    pulled_ms: int = 0
    handled_ms: int = 0
    confirmed_offset: int = -1

    @property
    def is_over(self) -> bool:
        return self.is_leaving or self.process.is_dropped

    def leave(self) -> None:
        """End the pulls, and start no more handlers."""
        self.is_leaving = True
        if self.pulling is not None:
            self.pulling.cancel()

    def confirms_offset(self, offset: int) -> bool:
        """Return whether a broker moves us to where we are, as it does once after a reset. A repeat is a move."""
        if offset != self.next_offset or offset == self.confirmed_offset or len(self.process):
            return False
        self.confirmed_offset = offset
        return True


@dataclass(eq=False, repr=False, kw_only=True)
class ConsumeService(ABC):
    """Runs the handler for the messages of assigned queues. Event loop only."""

    attempt: Attempt
    describe: Describe
    failures: Failures
    concurrency: int
    max_batch: int
    clock: Clock
    tasks: Tasks
    running: int = field(init=False, default=0)  # messages that handlers are busy with
    is_stopping: bool = field(init=False, default=False)
    is_cut: bool = field(init=False, default=False)  # handlers were cancelled: what they return does not count
    handlers: set[asyncio.Task[None]] = field(init=False, default_factory=set)  # that `finish` waits for

    @abstractmethod
    def start(self) -> None:
        """Start what does not wait for the first message."""

    @abstractmethod
    def offer(self, assigned: AssignedQueue) -> None:
        """Handle the messages of a queue that have come."""

    @abstractmethod
    async def left(self, assigned: AssignedQueue) -> None:
        """Return when the queue, which is leaving already, may go to another member."""

    def interruption(self, fault: asyncio.CancelledError) -> BaseException:
        """Return what ends a task whose handler was cancelled: the same at a stop, else an error, which kills the
        consumer. Its message would wait for good, and nobody would know."""
        text = "a handler was cancelled while its consumer runs: did it cancel its own task?"
        return fault if self.is_stopping else RuntimeError(text)

    def log_uncounted(self, received: Sequence[Received], outcomes: Outcomes) -> None:
        """Log what failed of a queue that was given up meanwhile."""
        for each, fault in zip(received, outcomes, strict=True):
            if fault is not None:
                self.failures.log(each, fault, "handled by whoever has its queue now")

    async def finish(self, grace_s: float) -> None:
        """Let the running handlers end; cancel those that need longer than the grace. It ends in any case."""
        self.is_stopping = True
        await finish_handlers(tuple(self.handlers), grace_s, self.clock, self.tasks, self._cut)

    def _cut(self) -> None:
        self.is_cut = True
