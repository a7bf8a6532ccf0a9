"""What pulls and offset requests must know of popping: who pops a queue leaves it before he pulls there."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol


class PoppedLanes(Protocol):
    """`broker.pop`: queues that groups pop. Event loop only."""

    def is_open(self, topic: str, group: str, queue_id: int) -> bool:
        """Return whether the group pops the queue, so that its committed offset is not where others go on."""
        ...

    def leave(self, topic: str, group: str, queue_id: int) -> Awaitable[None] | None:
        """Let what is in flight leave memory, and commit where the next pop would have read. None: nothing to do."""
        ...
