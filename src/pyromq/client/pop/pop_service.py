"""Handlers of a push consumer that pops: many messages at a time, or those of a queue one after another.

Return is ack, an exception is a retry after its delay, `Reject` and too many attempts make a dead letter. A message is
renewed while its handler works; one whose time was over before its turn, or before its handler had ended, is left to
whoever gets it next.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from ... import logs
from ...ambient import Clock
from ...protocol.bodies.keyed import MessageQueue
from ..connect.background import Tasks
from ..core.retry import DEAD_LETTER, Retry, RetryLater, level_after, reason_of, seconds_of, send_back_level
from ..errors import Error, ReceiptExpired
from ..handle.attempts import Attempt
from ..handle.failures import DEAD, Failures
from ..handle.stopping import finish_handlers
from ..received import Received
from .popped import LeaseState, Popped

log = logs.get("pyromq.client")

ACK_AGAIN_S = 1.0
FEW_ACKS_S = 3.0
STUCK_S = 1.0  # handlers that are all busy for longer get nothing more: other members may be free
LATE = "handled by whoever gets it next: its invisible time was over"


@dataclass(eq=False, repr=False, kw_only=True)
class PopService:
    """Event loop only. `offer` brings messages; each leaves when it is done, later, dead or expired."""

    attempt: Attempt
    failures: Failures
    retry: Retry
    most_retries: Callable[[Received], Awaitable[int]]
    concurrency: int
    max_batch: int
    invisible_s: float
    renew_for_s: float
    clock: Clock
    tasks: Tasks
    on_free: Callable[[], None] = field(init=False, default=lambda: None)  # room for more messages
    running: int = field(init=False, default=0)  # messages that handlers are busy with
    held: Counter[MessageQueue] = field(init=False, default_factory=Counter)  # messages, by the place they came from
    bytes: int = field(init=False, default=0)
    is_stopping: bool = field(init=False, default=False)
    handlers: set[asyncio.Task[None]] = field(init=False, default_factory=set)
    _beginning: int = field(init=False, default=0)  # handlers that were started and have not looked for messages yet
    _taken_at: float = field(init=False, default=0.0)  # when a handler took a message last
    _waiting: deque[tuple[MessageQueue, Popped]] = field(init=False, default_factory=deque)
    _renewed: dict[Popped, float] = field(init=False, default_factory=dict)  # that handlers have, since when

    def start(self) -> None:
        self.tasks.start(self._renew_loop())

    def offer(self, place: MessageQueue, messages: Sequence[Popped]) -> None:
        """Handle these as soon as a handler is free."""
        for each in messages:
            self.held[place] += 1
            self.bytes += len(each.body)
            self._waiting.append((place, each))
        while self._beginning * self.max_batch < len(self._waiting):
            if len(self.handlers) >= self.concurrency or self.is_stopping:
                break
            self._beginning += 1
            task = self.tasks.start(self._work())
            self.handlers.add(task)
            task.add_done_callback(self.handlers.discard)

    @property
    def is_stuck(self) -> bool:
        """Return whether all handlers are busy, and have been for a while."""
        return len(self.handlers) >= self.concurrency and self.clock.monotonic() - self._taken_at > STUCK_S

    def _drop_expired(self) -> None:
        """Forget what waited longer than its invisible time: it has gone to another member, or will."""
        late = [(place, each) for place, each in self._waiting if each.is_expired]
        if late:
            self._waiting = deque((place, each) for place, each in self._waiting if not each.is_expired)
            for place, each in late:
                self.release(place, [each])

    def waiting(self) -> list[Popped]:
        """Return what no handler has had yet."""
        return [each for _, each in self._waiting]

    async def finish(self, grace_s: float) -> None:
        """Let the running handlers end; cancel those that need longer than the grace."""
        self.is_stopping = True
        await finish_handlers(tuple(self.handlers), grace_s, self.clock, self.tasks)

    async def _work(self) -> None:
        self._beginning -= 1
        while self._waiting and not self.is_stopping:
            place, batch = self._take()
            try:
                if good := [each for each in batch if not each.is_expired]:
                    await self.handle(good)
            finally:
                self.release(place, batch)

    def _take(self) -> tuple[MessageQueue, list[Popped]]:
        self._taken_at = self.clock.monotonic()
        place, first = self._waiting.popleft()
        batch = [first]
        while self._waiting and len(batch) < self.max_batch and self._waiting[0][1].queue == first.queue:
            batch.append(self._waiting.popleft()[1])
        return place, batch

    def release(self, place: MessageQueue, messages: Sequence[Popped]) -> None:
        self.held[place] -= len(messages)
        self.bytes -= sum(len(each.body) for each in messages)
        self.on_free()

    async def handle(self, messages: list[Popped]) -> None:
        outcomes = await self.call(messages)
        for each, fault in zip(messages, outcomes, strict=True):
            if each.is_expired:
                self.failures.log(each, fault or TimeoutError(LATE), LATE)
            elif (counted := None if fault is None else self.failures.outcome(each, fault)) is None:
                self.ack(each)
            else:
                await self._failed(each, counted)

    async def call(self, messages: list[Popped]) -> Sequence[Exception | None]:
        """Call the handler, and renew the messages meanwhile."""
        now = self.clock.monotonic()
        self._renewed.update(dict.fromkeys(messages, now))
        self.running += len(messages)
        try:
            return await self.attempt(messages)
        except asyncio.CancelledError as cancelled:
            if self.is_stopping:
                raise
            text = "a handler was cancelled while its consumer runs: did it cancel its own task?"
            raise RuntimeError(text) from cancelled
        finally:
            self.running -= len(messages)
            for each in messages:
                self._renewed.pop(each, None)

    def ack(self, message: Popped) -> None:
        """Acknowledge, again and again while it fails, as long as that counts."""
        message.ack().future.add_done_callback(lambda done: self._acked(message, done))

    def _acked(self, message: Popped, done: asyncio.Future[None]) -> None:
        if not done.cancelled() and done.exception() is not None and message.state is LeaseState.OPEN:
            if isinstance(done.exception(), ReceiptExpired) and message.until == inf:
                message.until = self.clock.monotonic() + FEW_ACKS_S  # its server has given it back, or one beside it
            if message.is_expired:
                log.warning("a message was handled and comes again: not acknowledged in time", id=message.id)
            elif not self.is_stopping:
                self.tasks.start(self._ack_later(message))

    async def _ack_later(self, message: Popped) -> None:
        await self.clock.sleep(ACK_AGAIN_S)
        if message.state is LeaseState.OPEN:
            self.ack(message)

    async def _failed(self, message: Popped, fault: Exception) -> None:
        """Let the message come again after the delay of its attempt, or put it among the dead letters."""
        times = message.message.reconsume_times
        level = send_back_level(fault, times, self.retry)
        is_dead = level == DEAD_LETTER or (self.retry.of_group and times >= await self.most_retries(message))
        delay_s = fault.seconds if isinstance(fault, RetryLater) else seconds_of(level_after(times))
        self.failures.log(message, fault, DEAD if is_dead else f"again in {delay_s:g} s")
        try:
            if is_dead:
                await message.dead_letter(reason_of(fault))
            else:
                await message.later(delay_s)
        except Error as refusal:
            log.warning("a failed message comes again after its invisible time", id=message.id, fault=str(refusal))

    async def _renew_loop(self) -> None:
        while True:
            await self.clock.sleep(self.invisible_s / 4)
            self._drop_expired()
            now = self.clock.monotonic()
            due = [each for each, since in self._renewed.items() if self._is_due(each, now - since)]
            await asyncio.gather(*map(self._renew, due))

    def _is_due(self, message: Popped, busy_s: float) -> bool:
        """Return whether its time is to be set: it ends soon, or never, since the server renews it, and it shall."""
        if busy_s < self.renew_for_s:
            return message.left_s <= self.invisible_s / 2
        return message.until == inf

    async def _renew(self, message: Popped) -> None:
        try:
            await message.later(self.invisible_s)
        except ReceiptExpired:
            self._renewed.pop(message, None)
        except Error as fault:
            log.warning("a message that is being handled was not renewed", id=message.id, fault=str(fault))
