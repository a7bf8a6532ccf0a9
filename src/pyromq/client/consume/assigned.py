"""One queue that a push consumer has now: its messages, its tasks, its lock. A queue assigned again is a new object."""

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
        """Return whether a broker moves us to where we are: it does so once, if the group was reset before.

        There is nothing to drop and nobody to wait for. A broker that repeats it is taken at its word.
        """
        if offset != self.next_offset or offset == self.confirmed_offset or len(self.process):
            return False
        self.confirmed_offset = offset
        return True
