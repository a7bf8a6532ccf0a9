"""What readers may see: `readable` is the one watermark they use, and each queue's `readable_end` follows it.

Under ASYNC_FLUSH a record is readable once it is appended, under SYNC_FLUSH once it is synced (else a consumer could
see a message that a power cut takes back).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ... import logs
from ...kernel.state import QueueTail
from .watermark import Watermark

log = logs.get("pyromq.store")

ArrivalListener: TypeAlias = Callable[[QueueTail], None]


class Readable:
    """Event loop only. Invariant: a queue's `readable_end` covers exactly its records below the watermark."""

    def __init__(self, position: int) -> None:
        self.watermark = Watermark(position)
        self.waiting: deque[tuple[int, QueueTail, int]] = deque()  # end of a burst, queue, its end of offsets then
        self.listeners: dict[str, tuple[ArrivalListener, ...]] = {}  # by topic: who waits for nothing costs nothing

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
            _, queue, offset = self.waiting.popleft()
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
