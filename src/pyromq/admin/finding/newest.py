"""Messages of a topic from the newest back, merged over all its queues by the time at which they were stored.

What comes next is one position per queue: messages that are stored meanwhile move no page. Of equal times the order is
that of broker, queue and offset, so the same pages come out again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...client.errors import Error
from ...errors import CallFailed, Malformed, RequestRefused
from ...model.message import StoredMessage
from .. import messages, offsets, topics
from ..calls import Calls
from ..cluster import BrokerPlace
from ..search import Found, Window
from ..topics import QueueRange

FAULTS = (Error, CallFailed, Malformed, RequestRefused)
MOST_READS = 400  # of one page: a queue of which little is left must not keep it for ever
AT_ONCE = 8  # questions to one broker
_LEAST_READ = 4  # messages of a queue at once


@dataclass(frozen=True, slots=True)
class NewestPage:
    """`rest`: where the next page begins. `examined`: messages that were read for this one. `faults`: by broker."""

    found: list[Found]
    rest: list[QueueRange]
    examined: int
    faults: dict[str, str]


async def ranges(
    calls: Calls, places: Sequence[BrokerPlace], topic: str, wanted: Window
) -> tuple[list[QueueRange], dict[str, str]]:
    """Return what each queue has within the window, and by broker why one did not answer."""
    answers = await asyncio.gather(
        *(_of_broker(calls, place, topic, wanted) for place in places), return_exceptions=True
    )
    found, faults = list[QueueRange](), dict[str, str]()
    for place, answer in zip(places, answers, strict=True):
        if isinstance(answer, FAULTS):
            faults[place.name] = str(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found += answer
    return found, faults


async def _of_broker(calls: Calls, place: BrokerPlace, topic: str, wanted: Window) -> list[QueueRange]:
    limit = asyncio.Semaphore(AT_ONCE)

    async def narrowed(queue: QueueRange) -> QueueRange:
        at, first, end = (calls, place.address, topic, queue.queue_id), queue.first, queue.end
        async with limit:
            if wanted.begin_ms and first < end:
                first = max(first, await offsets.at_time(*at, wanted.begin_ms))
            if wanted.end_ms is not None and first < end:  # one more: some brokers name the last before the time
                end = min(end, await offsets.at_time(*at, wanted.end_ms) + 1)
        return QueueRange(place, queue.queue_id, first, max(first, end))

    known = await topics.queues(calls, [place], topic)
    return list(
        await asyncio.gather(*(narrowed(queue) for queue in known if wanted.queue_id in (None, queue.queue_id)))
    )


async def page(calls: Calls, topic: str, rest: Sequence[QueueRange], wanted: Window, most: int) -> NewestPage:
    """Return the newest messages of what is left. A broker that fails keeps its positions for the next page."""
    reading = _Reading(calls, topic, wanted, _share(most, sum(1 for one in rest if one.count)))
    tails = [_Tail(one.place, one.queue_id, one.first, one.end) for one in rest]
    await asyncio.gather(*(reading.fill(tail) for tail in tails))
    found: list[Found] = []
    while len(found) < most and all(tail.is_ready or tail.place.name in reading.faults for tail in tails):
        ready = [tail for tail in tails if tail.waiting and tail.place.name not in reading.faults]
        if not ready:
            break
        newest = max(ready, key=lambda tail: tail.weight)
        found.append(Found(newest.place, newest.waiting.pop()))
        if not newest.waiting:
            await reading.fill(newest)
    left = [QueueRange(tail.place, tail.queue_id, tail.first, tail.position) for tail in tails]
    return NewestPage(found, left, reading.examined, reading.faults)


def _share(most: int, queues: int) -> int:
    """Return how many messages of a queue are read at once: about twice what it gives to the page."""
    return min(messages.PAGE, max(_LEAST_READ, 2 * most // max(1, queues)))


@dataclass(slots=True)
class _Tail:
    """A queue that is read from its end: `waiting` are read, the newest last; from offset `end` on all were read."""

    place: BrokerPlace
    queue_id: int
    first: int
    end: int
    waiting: list[StoredMessage] = field(default_factory=list)

    @property
    def is_ready(self) -> bool:
        return bool(self.waiting) or self.end <= self.first

    @property
    def position(self) -> int:
        return self.waiting[-1].queue_offset + 1 if self.waiting else max(self.first, self.end)

    @property
    def weight(self) -> tuple[int, str, int, int]:
        newest = self.waiting[-1]
        return newest.store_timestamp, self.place.name, self.queue_id, newest.queue_offset


@dataclass(slots=True)
class _Reading:
    calls: Calls
    topic: str
    wanted: Window
    share: int
    examined: int = 0
    reads: int = 0
    faults: dict[str, str] = field(default_factory=dict)

    async def fill(self, tail: _Tail) -> None:
        """Read backwards until something is found, the queue has no more, or this page has read enough."""
        try:
            while not tail.is_ready and self.reads < MOST_READS and tail.place.name not in self.faults:
                begin = max(tail.first, tail.end - self.share)
                tail.waiting = [each for each in await self._between(tail, begin) if self._fits(each)]
                tail.end = begin
        except FAULTS as fault:
            self.faults[tail.place.name] = str(fault)

    async def _between(self, tail: _Tail, begin: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        at = (self.calls, tail.place.address, self.topic, tail.queue_id, begin, tail.end)
        async for each in messages.pages(*at):
            self.reads += 1
            found += [one for one in each.messages if one.queue_offset >= begin]
        self.examined += len(found)
        return found

    def _fits(self, message: StoredMessage) -> bool:
        end_ms = self.wanted.end_ms
        return message.store_timestamp >= self.wanted.begin_ms and (end_ms is None or message.store_timestamp < end_ms)
