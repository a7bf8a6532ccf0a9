"""The three positions of an open log, and what moves with them: appended, flushed, readable.

The writer's side calls `publish`, the flusher's side `flushed_to`; everybody else awaits the watermarks. The flush
mode decides, here alone, which of the two makes records readable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...kernel.state import QueueTail
from ..config import FlushMode
from ..errors import StoreNotWritable
from .readable import Readable
from .watermark import Watermark


class Watermarks:
    """Event loop only. Invariants: appended >= flushed; readable is appended under ASYNC_FLUSH, else flushed."""

    def __init__(self, end: int, flush_mode: FlushMode) -> None:
        self.appended = Watermark(end)
        self.flushed = Watermark(end)
        self.arrivals = Readable(end)
        self.readable = self.arrivals.watermark
        self.on_append: list[Callable[[], None]] = []  # called after every append
        self.readable_at_once = flush_mode is FlushMode.ASYNC

    @property
    def unflushed(self) -> int:
        return self.appended.value - self.flushed.value

    def publish(self, queues: Sequence[QueueTail], end: int) -> None:
        """Move on after an append that ends at `end` and gave these queues new entries."""
        self.arrivals.appended(queues, end)
        self.appended.advance(end)
        if self.readable_at_once:
            self.arrivals.advance(end)
        for listener in self.on_append:
            listener()

    def flushed_to(self, position: int) -> None:
        self.flushed.advance(position)
        if not self.readable_at_once:
            self.arrivals.advance(position)

    def fail(self, failure: StoreNotWritable) -> None:
        """Raise `failure` in everybody who waits for a flush, now or afterwards."""
        self.flushed.fail(failure)
        if not self.readable_at_once:
            self.readable.fail(failure)
