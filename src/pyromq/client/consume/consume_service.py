"""What a push consumer asks of whoever runs its handlers: `concurrent_service.py` or `orderly_service.py`.

The contract: return is ack, an exception is a retry, `Reject` is a dead letter, `RetryLater(t)` a retry after t. Of a
batch each message has an outcome of its own. Nothing is acked before the handler has ended. What ends after its queue
was given up does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ... import logs
from ...ambient import Clock
from ...model.message import StoredMessage
from ...protocol.bodies.keyed import MessageQueue
from ..connect.background import Tasks
from ..received import Received
from .assigned import AssignedQueue
from .attempts import Attempt

log = logs.get("pyromq.client")

Describe = Callable[[StoredMessage, MessageQueue], Received]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerCalls:
    """How messages reach the handler, the same for both services."""

    attempt: Attempt
    describe: Describe
    concurrency: int
    max_batch: int
    clock: Clock
    tasks: Tasks


class ConsumeService(Protocol):
    """Runs the handler for the messages of assigned queues. Event loop only."""

    running: int  # messages that handlers are busy with

    def start(self) -> None: ...

    def offer(self, assigned: AssignedQueue) -> None:
        """Hand over the messages that have come for this queue."""
        ...

    async def left(self, assigned: AssignedQueue) -> None:
        """Return when the queue may go to another member. It is leaving already."""
        ...

    async def finish(self, grace_s: float) -> None:
        """Let the running handlers end; cancel those that need longer than the grace."""
        ...


async def end_all(tasks: list[asyncio.Task[None]], clock: Clock, grace_s: float) -> None:
    """Wait for these handlers; cancel those that need longer than the grace."""
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
