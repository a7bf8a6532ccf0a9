"""One queue that a push consumer holds now: its messages, its tasks, its lock. A queue taken again gets a new one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from ...protocol.bodies.keyed import MessageQueue
from ..core.process_queue import ProcessQueue
from .in_flight import InFlight


@dataclass(slots=True, eq=False, kw_only=True)
class AssignedQueue:
    """Event loop only."""

    queue: MessageQueue
    process: ProcessQueue
    next_offset: int = -1
    committed: int = -1  # what the broker was told last
    locked_until: float = float("-inf")  # orderly only; seconds of the monotonic clock
    in_flight: InFlight | None = None  # concurrent only: offsets that handlers of this process are busy with
    is_ready: bool = False  # concurrent only: stands in the row of queues with messages for handlers
    is_leaving: bool = False  # no new message is handled; the one in work is finished
    pulling: asyncio.Task[Any] | None = None
    draining: asyncio.Task[Any] | None = None
    pulled_ms: int = 0
    handled_ms: int = 0
    told_offset: int = -1

    @property
    def is_over(self) -> bool:
        return self.is_leaving or self.process.is_dropped

    def is_told_its_own_offset(self, offset: int) -> bool:
        """A group that was reset while nobody consumed: the broker moves the first pull to where it already is.

        There is nothing to drop and nobody to wait for. One that says so again and again is illegal like any other.
        """
        if offset != self.next_offset or offset == self.told_offset or len(self.process):
            return False
        self.told_offset = offset
        return True
