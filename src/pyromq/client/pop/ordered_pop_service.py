"""Handlers of a push consumer that pops in order: the messages of a queue one after another, a failed one in its place.

The broker hands out nothing more of a queue while a message of it is open. So a message that fails is kept here, with
those behind it, and handled again after a pause, until it is done or a dead letter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ...protocol.bodies.keyed import MessageQueue
from ..consume.orderly_service import suspend_s
from ..core.retry import Reject, reason_of
from ..errors import Error
from ..handle.failures import DEAD
from .pop_service import LATE, PopService, log
from .popped import Popped


@dataclass(eq=False, repr=False, kw_only=True)
class OrderedPopService(PopService):
    """At most `concurrency` queues at a time."""

    _slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.concurrency)

    @property
    def is_stuck(self) -> bool:
        """Return False: the broker hands out nothing of a queue whose messages are open."""
        return False

    def offer(self, place: MessageQueue, messages: Sequence[Popped]) -> None:
        for each in messages:
            self.held[place] += 1
            self.bytes += len(each.body)
        by_queue = sorted(messages, key=lambda each: (each.queue.queue_id, each.offset))
        for _, queue in groupby(by_queue, key=lambda each: each.queue.queue_id):
            task = self.tasks.start(self._drain(place, list(queue)))
            self.handlers.add(task)
            task.add_done_callback(self.handlers.discard)

    async def _drain(self, place: MessageQueue, messages: list[Popped]) -> None:
        """Handle the messages of one queue. What is behind one whose time is over is left: it comes again, in order."""
        now = self.clock.monotonic()
        self._renewed.update(dict.fromkeys(messages, now))
        try:
            for at in range(0, len(messages), self.max_batch):
                if self.is_stopping or not await self._until_done(messages[at : at + self.max_batch]):
                    return
        finally:
            for each in messages:
                self._renewed.pop(each, None)
            self.release(place, messages)

    async def _until_done(self, left: list[Popped]) -> bool:
        """Return False, if the time of a message was over before it was done."""
        while not self.is_stopping:
            if any(each.is_expired for each in left):
                return False
            async with self._slots:
                outcomes = await self.call(left)
            self._renewed.update(dict.fromkeys(left, self.clock.monotonic()))
            failed = []
            for each, fault in zip(left, outcomes, strict=True):
                if each.is_expired:
                    self.failures.log(each, fault or TimeoutError(LATE), LATE)
                    return False
                counted = None if fault is None else self.failures.outcome(each, fault)
                if counted is None:
                    self.ack(each)
                elif not await self._is_dead(each, counted):
                    failed.append((each, counted))
            if not failed:
                return True
            left = [each for each, _ in failed]
            for each in left:
                each.message.reconsume_times += 1
            await self.clock.sleep(max(suspend_s(fault) for _, fault in failed))
        return False

    async def _is_dead(self, message: Popped, fault: Exception) -> bool:
        """Return whether the failed message is among the dead letters now."""
        times = message.message.reconsume_times
        is_dead = isinstance(fault, Reject) or times >= await self.most_retries(message)
        self.failures.log(message, fault, DEAD if is_dead else f"again in its place in {suspend_s(fault):g} s")
        if is_dead:
            try:
                await message.dead_letter(reason_of(fault))
            except Error as refusal:
                log.warning("a message is not among the dead letters yet", id=message.id, fault=str(refusal))
                return False
        return is_dead
