"""The queues of a pull consumer: where each is, one pull per queue under way, and what the caller is through with.

`pull_consumer.py` decides which queues these are; nothing here asks brokers for anything but messages.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypeAlias

from ... import logs
from ...errors import ProtocolError
from ...model.message import StoredMessage
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.messages import UnreadableMessage
from ...protocol.pulls import Pulled
from ..connect.background import Tasks
from ..connect.session import Session
from ..core.retry import announced_pause_s
from ..errors import Error, Unreadable
from ..received import Received
from ..subscription import Filter
from ..values import choose_codec
from .options import PullOptions
from .pulling import Puller, PullRequest, PullResult, log_unreadable

log = logs.get("pyromq.client")

ERROR_PAUSE_S = 1.0

Pull: TypeAlias = asyncio.Task[PullResult | None]


@dataclass(slots=True, eq=False, repr=False)
class PolledQueue:
    """`position` is the next offset to pull, `returned` one past what `poll` returned."""

    queue: MessageQueue
    position: int
    returned: int
    done: int  # one past what the caller is through with
    committed: int = -1
    pull: Pull | None = None


class PolledQueues(dict[MessageQueue, PolledQueue]):
    """By queue, the one that was polled longest ago first. Event loop only."""

    def __init__(self, session: Session, group: str, wanted: Filter, options: PullOptions) -> None:
        super().__init__()
        self._clock, self._rng = session.clock, session.rng
        self._namespace, self._outages = session.config.namespace, session.outages
        self._codec = choose_codec(options.codec, session.config.codec)
        self._group = group
        self._wanted = wanted
        self._options = options
        self._puller = Puller(session, group)
        self.tasks = Tasks(lambda fault: log.error("pull died", group=group, fault=repr(fault)))
        self._changed = asyncio.Event()  # queues came or went while somebody waits for messages
        self.paused: set[MessageQueue] = set()
        self.unread: list[Received] = []  # of a batch, all of one queue, the next at the end
        self.unreadable = 0  # records that came and that nobody can read

    def add(self, queue: MessageQueue, position: int) -> None:
        self[queue] = PolledQueue(queue, position, position, position)
        self._changed.set()

    def remove(self, queue: MessageQueue) -> PolledQueue:
        polled = self.pop(queue)
        self.drop_pull(polled)
        self._changed.set()
        return polled

    def drop_pull(self, polled: PolledQueue) -> None:
        self.unread = [msg for msg in self.unread if msg.queue != polled.queue]
        if polled.pull is not None:
            polled.pull.cancel()
            polled.pull = None

    def all_done(self) -> None:
        for polled in self.values():
            polled.done = polled.returned

    async def next(self) -> list[Received]:
        """Return the next messages of one queue; none if a pull brought none, or queues came or went meanwhile.

        One pull per queue is under way. The first that ends is used, and its queue goes to the end of the row.
        """
        self._changed.clear()
        pulls: dict[Pull, PolledQueue] = {}
        for polled in self.values():
            if polled.queue not in self.paused:
                if polled.pull is None:
                    polled.pull = self.tasks.start(self._pull(polled, self._options.hold_s))
                pulls[polled.pull] = polled
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((changed, *pulls), return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        for pull, polled in pulls.items():
            if pull.done() and self._is_current(pull, polled):
                return self._result(pull, polled)
        return []

    async def available(self) -> list[Received]:
        """Return messages of the first queue that has some now. Brokers are asked at once, and suspend no pull."""
        asked = [polled for polled in self.values() if polled.queue not in self.paused]
        for polled in asked:
            if polled.pull is None or not _has_messages(polled.pull):
                self.drop_pull(polled)
                polled.pull = self.tasks.start(self._pull(polled, 0))
        for polled in asked:
            while (pull := polled.pull) is not None:
                before = polled.position
                await asyncio.wait((pull,))
                if not self._is_current(pull, polled):
                    break
                if found := self._result(pull, polled):
                    return found
                if polled.position != before:  # nothing there fits the filter: on behind it
                    polled.pull = self.tasks.start(self._pull(polled, 0))
        return []

    def _is_current(self, pull: Pull, polled: PolledQueue) -> bool:
        return self.get(polled.queue) is polled and polled.pull is pull

    def _result(self, pull: Pull, polled: PolledQueue) -> list[Received]:
        """Return the messages of a pull that has ended, and let its queue go to the end of the row."""
        polled.pull = None
        self[polled.queue] = self.pop(polled.queue)
        result = pull.result()
        return [] if result is None else self._returned(polled, result)

    async def _pull(self, polled: PolledQueue, hold_s: float) -> PullResult | None:
        """Return the result of one pull; None after a failure and a pause: the next `poll` tries again."""
        try:
            most, plain_bytes = self._options.pull_messages, self._options.plain_bytes
            wanted = PullRequest(polled.queue, polled.position, self._wanted, most, hold_s, plain_bytes=plain_bytes)
            return await self._puller.pull(wanted)
        except (Error, ProtocolError) as fault:
            self._outages.warn("pull failed", fault, group=self._group, queue=str(polled.queue))
            if self._puller.is_gone(polled.queue, fault):  # another topic of that name is read from its first message
                polled.position = polled.returned = polled.done = 0
            if hold_s:
                await self._clock.sleep(announced_pause_s(fault, ERROR_PAUSE_S, self._rng))
            return None

    def _returned(self, polled: PolledQueue, result: PullResult) -> list[Received]:
        if result.status is Pulled.ILLEGAL_OFFSET:
            log.warning("offset moved", queue=str(polled.queue), was=polled.position, now=result.next_offset)
        messages, next_offset = result.messages, result.next_offset
        if result.unreadable:
            messages, next_offset = self._readable(polled.queue, result)
        polled.position = polled.returned = next_offset
        if not messages:
            polled.done = polled.returned
        read = (self._namespace, self._group, self._codec, self._puller.ends)
        return [Received(message, polled.queue, *read) for message in messages]

    def _readable(self, queue: MessageQueue, result: PullResult) -> tuple[list[StoredMessage], int]:
        """Return what the caller gets of a pull with unreadable records, and where the next pull begins."""
        if self._options.on_unreadable == "skip":
            self.unreadable += len(result.unreadable)
            log_unreadable(self._group, queue, result.unreadable, "skip")
            return [each for each in result.messages if not isinstance(each, UnreadableMessage)], result.next_offset
        first = result.unreadable[0]
        before = result.messages[: result.messages.index(first)]
        if not before:
            self.unreadable += 1
            raise _unreadable_error(queue, first, result.next_offset)
        return before, first.queue_offset


def _has_messages(pull: Pull) -> bool:
    result = pull.result() if pull.done() else None
    return result is not None and bool(result.messages)


def _unreadable_error(queue: MessageQueue, message: UnreadableMessage, end: int) -> Unreadable:
    """Return what a caller of `poll` gets. `end`: the offset behind everything that was pulled."""
    return Unreadable(
        f"the record at offset {message.queue_offset} of {queue} (commit log position {message.physical_offset}, "
        f"message {message.message_id}) cannot be read: {message.fault}",
        hint='Go on behind it with `await consumer.seek(fault.queue, fault.next_offset)`, or give on_unreadable="skip"',
        queue=queue,
        message=message,
        next_offset=min(message.next_offset, max(end, message.queue_offset + 1)),
    )
