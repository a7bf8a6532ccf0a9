"""Which queue a message goes to, where its sender decides: by an order key, or by a function of the sender's own.

Sends of one order key wait for one another in `OrderLanes`, those of other keys do not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from ...ambient import Clock
from ...protocol.bodies.keyed import MessageQueue
from ..arguments import check_text
from ..core.routing import queue_for_key
from ..errors import BadMessage, TimedOut

QueueChoice = Callable[[Sequence[MessageQueue]], MessageQueue]


def queue_choice(order_key: str | None, queue: QueueChoice | None = None) -> QueueChoice | None:
    """Return the function that chooses the queue; None: any will do. BadMessage if both arguments choose."""
    if order_key is None:
        return None if queue is None else _checked_choice(queue)
    if queue is not None:
        raise BadMessage("order_key chooses the queue, and so does queue", hint="Give one of them")
    check_text("order_key", order_key)
    if not order_key:
        raise BadMessage("order_key is empty", hint="Leave it out for messages without order")
    return lambda queues: queue_for_key(queues, order_key)


def _checked_choice(queue: QueueChoice) -> QueueChoice:
    hint = "Write for instance queue=lambda queues: queues[0]"
    if not callable(queue):
        raise BadMessage(f"queue is {queue!r}, and not a function that chooses one of the queues", hint=hint)

    def choose(queues: Sequence[MessageQueue]) -> MessageQueue:
        chosen = queue(queues)
        if not isinstance(chosen, MessageQueue):
            raise BadMessage(f"the function given as queue returned {chosen!r}, and none of the queues", hint=hint)
        return chosen

    return choose


def always(queue: MessageQueue) -> QueueChoice:
    return lambda queues: queue


class OrderLanes:
    """Event loop only. A lane is there as long as somebody uses it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, topic: str, order_key: str | None, limit_s: float | None = None) -> AsyncIterator[None]:
        """Wait for the sends of this key that came before. asyncio's lock is fair: a retry is never overtaken.

        TimedOut, if they take longer than the limit.
        """
        if order_key is None:
            yield
            return
        lock = self._locks.setdefault((topic, order_key), asyncio.Lock())
        try:
            if limit_s is None:
                await lock.acquire()
            else:
                async with self._clock.timeout(limit_s):
                    await lock.acquire()
        except TimeoutError:
            text = f"earlier sends of order key {order_key!r} to {topic!r} took longer than {limit_s:.3g} s"
            raise TimedOut(text, hint="Nothing was sent. Raise timeout, or leave it out") from None
        try:
            yield
        finally:
            lock.release()
