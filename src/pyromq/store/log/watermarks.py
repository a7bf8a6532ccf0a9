"""The three positions of an open log, who waits for them, and what moves with them: appended, flushed, readable.

The writer's side calls `publish`, the flusher's side `flushed_to`, a master of slaves `confirm`; everybody else awaits
the watermarks, the store's only meeting point with the event loop. What makes records readable is decided by `Gates`
(store/gates.py). Each queue's `readable_end` follows.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ... import logs
from ...kernel import state
from ...kernel.state import QueueTail
from ..config import FlushMode
from ..errors import StoreNotWritable
from ..gates import Gates

log = logs.get("pyromq.store")
ArrivalListener: TypeAlias = Callable[[QueueTail], None]


class Watermark:
    """Event loop only. Invariant: `value` never goes down; a waiter is woken once, in order of position."""

    def __init__(self, value: int = 0) -> None:
        self.state = state.WatermarkState(value)
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tickets = 0
        self._failure: Exception | None = None
        self._listeners: list[Callable[[int], None]] = []
        self._is_held = False
        self._on_failure: list[Callable[[], None]] = []

    @property
    def value(self) -> int:
        return self.state.value

    def _note_watched(self) -> None:
        self.state.is_watched = bool(self._listeners or self._waiters or self._is_held)

    def hold(self, is_held: bool) -> None:
        """Set whether it is moved by `advance` alone: a kernel that appends must not move it by itself."""
        self._is_held = is_held
        self._note_watched()

    def on_advance(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with the new value each time it grows, before waiters wake."""
        self._listeners.append(listener)
        self._note_watched()

    def on_failure(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the value will not grow any more."""
        self._on_failure.append(listener)

    def advance(self, value: int) -> None:
        """Move to `value`, unless it is there already: call who listens, wake who waits.

        A listener that fails is logged: what is stored stays so, and whoever appended it must not put it again.
        """
        if value <= self.state.value:
            return
        self.state.value = value
        if not self.state.is_watched:
            return
        for listener in self._listeners:
            try:
                listener(value)
            except Exception:
                log.exception("who listens to a watermark failed", position=value)
        while self._waiters and self._waiters[0][0] <= value:
            waiter = heapq.heappop(self._waiters)[2]
            if not waiter.done():
                waiter.set_result(None)
        self._note_watched()

    async def reached(self, position: int) -> None:
        """Return once the value is at or beyond `position`; raise what `fail` was given if it never will be."""
        if self.value >= position:
            return
        if self._failure is not None:
            raise self._failure
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tickets += 1
        heapq.heappush(self._waiters, (position, self._tickets, waiter))
        self._note_watched()
        await waiter

    def fail(self, failure: Exception) -> None:
        """Raise `failure` in everybody who waits, now or afterwards: the value does not grow any more."""
        self._failure = failure
        for listener in self._on_failure:
            listener()
        waiters, self._waiters = self._waiters, []
        self._note_watched()
        for _, _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(failure)


class Readable:
    """Event loop only. Invariant: a queue's `readable_end` covers exactly its records below the watermark."""

    def __init__(self, position: int) -> None:
        self.watermark = Watermark(position)
        self.waiting: deque[tuple[int, QueueTail, int]] = deque()  # end of a burst, queue, its end of offsets then
        self.listeners: dict[str, tuple[ArrivalListener, ...]] = {}  # by topic: who waits for nothing costs nothing
        self.whole = position  # a record ends here, and everything before it is readable

    def on_arrival(self, topic: str, listener: ArrivalListener) -> None:
        """Call `listener` with each queue of the topic that has new readable messages: this wakes long polls."""
        self.listeners[topic] = (*self.listeners.get(topic, ()), listener)

    def off_arrival(self, topic: str, listener: ArrivalListener) -> None:
        """Stop calling `listener`; also from within a call of it."""
        left = tuple(other for other in self.listeners.pop(topic, ()) if other != listener)
        if left:
            self.listeners[topic] = left

    def appended(self, queues: Sequence[QueueTail], end: int) -> None:
        """Note that an append that ends at `end` gave these queues new entries."""
        for queue in queues:
            self.waiting.append((end, queue, queue.next_offset))

    def advance(self, position: int) -> None:
        if len(self.waiting) == 1:  # the usual case of a single sender
            self._advance_one(position)
            return
        arrived: dict[int, QueueTail] = {}
        while self.waiting and self.waiting[0][0] <= position:
            self.whole, queue, offset = self.waiting.popleft()
            queue.readable_end = max(queue.readable_end, offset)
            arrived[id(queue)] = queue
        self.watermark.advance(position)
        for queue in arrived.values():
            self._notify(queue)

    def _advance_one(self, position: int) -> None:
        end, queue, offset = self.waiting[0]
        if end > position:
            self.watermark.advance(position)
            return
        self.waiting.clear()
        self.whole = end
        queue.readable_end = max(queue.readable_end, offset)
        self.watermark.advance(position)
        self._notify(queue)

    def _notify(self, queue: QueueTail) -> None:
        """Call the topic's listeners. The messages are stored: if one fails, their senders do not hear of it."""
        for listener in self.listeners.get(queue.topic, ()):
            try:
                listener(queue)
            except Exception:
                self.log_failure(queue.topic)

    def log_failure(self, topic: str) -> None:
        """Log the exception that a listener of this topic raised."""
        log.exception("who waits for messages could not be told of them", topic=topic)


class Watermarks:
    """Event loop only. Invariants: appended >= flushed; readable is what has passed the gates, and never sinks."""

    def __init__(self, end: int, flush_mode: FlushMode, confirmed: int | None = None) -> None:
        """`confirmed`: other copies are known to have the log up to here, and are waited for from the start."""
        self.appended = Watermark(end)
        self.flushed = Watermark(end)
        self.arrivals = Readable(end if confirmed is None else min(confirmed, end))
        self.readable = self.arrivals.watermark
        self.readable.hold(confirmed is not None)
        self.on_append: list[Callable[[], None]] = []  # called after every append
        self.gates = Gates(flush_mode, confirmed)

    @property
    def unflushed(self) -> int:
        return self.appended.value - self.flushed.value

    def begin_at(self, position: int) -> None:
        """Move all of them: an empty log begins here."""
        self.appended.advance(position)
        self.flushed.advance(position)
        self.arrivals.advance(position)

    def publish(self, queues: Sequence[QueueTail], end: int) -> None:
        """Move on after an append that ends at `end` and gave these queues new entries."""
        self.arrivals.appended(queues, end)
        self.appended.advance(end)
        if not self.gates.needs_sync:
            self._move_readable()
        for listener in self.on_append:
            listener()

    def flushed_to(self, position: int) -> None:
        self.flushed.advance(position)
        if self.gates.needs_sync:
            self._move_readable()

    def confirm(self, position: int | None) -> None:
        """Note that other copies have the log up to here; None: no others are waited for."""
        self.gates.confirmed = position
        self.readable.hold(position is not None)
        self._move_readable()

    def _move_readable(self) -> None:
        self.arrivals.advance(self.gates.passed(self.appended.value, self.flushed.value))

    def fail(self, failure: StoreNotWritable) -> None:
        """Raise `failure` in everybody who waits for a flush, now or afterwards."""
        self.flushed.fail(failure)
        if self.gates.needs_sync:
            self.readable.fail(failure)
