"""Brokers as the target of a capture: each batch to its queue, until it is stored, once.

A batch has a name (producer, epoch, sequence) that our brokers' duplicate window knows, and that its messages keep in
the log. Where nobody knows whether a batch was stored, the end of its queue is looked at first: that tells after any
time, and on Apache's brokers too. While a broker is away, the capture waits: the log is in the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TypeVar

from ... import admin, logs
from ...admin.calls import Calls
from ...client.client import Client
from ...client.core.retry import growing_pause_s
from ...client.core.routing import queue_for_key
from ...client.errors import BadMessage, Error, Refused, TopicNotFound
from ...client.produce.batches import BATCH_BYTES, is_too_large
from ...client.produce.outgoing import BatchItem, Packing, pack_batch, pack_item
from ...client.produce.queue_choice import always
from ...client.produce.sending import Sender, SendPolicy
from ...model.codes import ResponseCode
from ...model.message import Property
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.bodies.topics import TopicConfig
from ..changes import CaptureError
from ..state import BatchPlace
from .captured import Captured
from .queue_ends import Furthest, end_of, furthest_in, stored_of

T = TypeVar("T")

log = logs.get("pyromq.cdc")

_WARN_EVERY_S = 10.0
_SEND_S = 10.0
_PACKING = Packing(compression=None)
_MADE_AGAIN_S = 2.0  # for name servers to learn of a topic


@dataclass(slots=True)
class Target:
    """Event loop only."""

    client: Client
    producer: str
    sender: Sender = field(init=False)
    waits: int = 0  # attempts that a broker did not take, so far
    _queues: dict[str, tuple[MessageQueue, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sender = Sender(self.client.session, "PYROMQ_CDC", SendPolicy(timeout_s=_SEND_S, retries=0))

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues of a topic, which is made if it is not there. Waits while no broker can be asked."""
        if topic not in self._queues:
            self._queues[topic] = await self._until_done(lambda: self._ask_queues(topic), f"the topic {topic}")
        return self._queues[topic]

    async def _ask_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        return (await self.client.session.route_to_write(topic, by_key=True)).for_keys

    async def place(
        self, messages: Sequence[Captured], sequence: int
    ) -> tuple[tuple[BatchPlace, ...], tuple[int, ...]]:
        """Return the batches of these messages, and the number of each one's batch."""
        queues = {topic: await self.queues(topic) for topic in {each.topic for each in messages}}
        batches: list[BatchPlace] = []
        open_ones: dict[MessageQueue, tuple[int, int, int]] = {}  # batch, bytes, messages
        placed = []
        for each in messages:
            queue = queue_for_key(queues[each.topic], each.lane)
            size = len(each.body) + 200 + sum(len(name) + len(value) * 3 for name, value in each.properties.items())
            batch, filled, count = open_ones.get(queue, (-1, 0, 0))
            if batch < 0 or filled + size > BATCH_BYTES or count == 1000:
                batch, filled, count = len(batches), 0, 0
                batches.append(BatchPlace(each.topic, queue.broker_name, queue.queue_id, sequence + batch))
            open_ones[queue] = batch, filled + size, count + 1
            placed.append(batch)
        return tuple(batches), tuple(placed)

    async def send(
        self,
        batches: Sequence[BatchPlace],
        placed: Sequence[int],
        messages: Sequence[Captured],
        epoch: int,
        repeated: bool,
    ) -> list[tuple[Captured, str]]:
        """Store all messages. Return those that no broker takes, with the reason. `repeated`: some may be stored.

        The batches of one queue are stored one after the other, those of others meanwhile.
        """
        items: list[list[Captured]] = [[] for _ in batches]
        for message, batch in zip(messages, placed, strict=True):
            items[batch].append(message)
        lanes: dict[tuple[str, str, int], list[tuple[BatchPlace, list[Captured]]]] = {}
        for place, content in zip(batches, items, strict=True):
            lanes.setdefault((place.topic, place.broker, place.queue_id), []).append((place, content))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._send_lane(lane, epoch, repeated)) for lane in lanes.values()]
        return [dead for task in tasks for dead in task.result()]

    async def _send_lane(
        self, lane: Iterable[tuple[BatchPlace, list[Captured]]], epoch: int, repeated: bool
    ) -> list[tuple[Captured, str]]:
        dead = []
        for place, content in lane:
            dead += await self._send_batch(place, content, epoch, repeated)
        return dead

    async def _send_batch(
        self, place: BatchPlace, content: list[Captured], epoch: int, repeated: bool
    ) -> list[tuple[Captured, str]]:
        queue = MessageQueue(topic=place.topic, broker_name=place.broker, queue_id=place.queue_id)
        is_unsure, stored = repeated, 0

        async def attempt() -> list[tuple[Captured, str]]:
            nonlocal is_unsure, stored
            if is_unsure:
                stored = await self._stored(queue, epoch, place.sequence)
                if stored >= len(content):
                    return []
            try:
                await self._send(queue, content, epoch, place.sequence)
            except (Refused, BadMessage) as fault:
                if not is_too_large(fault) and not isinstance(fault, BadMessage):
                    raise
                return await self._send_parts(queue, content, epoch, place.sequence, stored)
            except Error as fault:
                is_unsure |= fault.may_be_stored
                raise
            return []

        return await self._until_done(attempt, f"queue {place.queue_id} of {place.topic} on {place.broker}")

    async def _send(self, queue: MessageQueue, content: Sequence[Captured], epoch: int, sequence: int) -> None:
        ids = self.client.session.ids
        items: list[BatchItem] = []
        for each in content:
            properties = {**each.properties, Property.UNIQ_KEY: ids.next(), Property.WAIT: "true"}
            items.append(pack_item(each.topic, each.body, properties, _PACKING))
        outgoing = pack_batch(queue.topic, items)
        outgoing.name_send(f"{self.producer}/{epoch}/{sequence}")
        await self.sender.send(outgoing, always(queue))

    async def _send_parts(
        self, queue: MessageQueue, content: Sequence[Captured], epoch: int, sequence: int, stored: int
    ) -> list[tuple[Captured, str]]:
        """Send messages one by one, in order, of a batch that is too large; return those that are so themselves.

        Each has a name of its own, made of the batch's, so that a repeat is known too.
        """
        dead: list[tuple[Captured, str]] = []
        for number, each in enumerate(content):
            if number < stored:
                continue
            send = partial(self._send_alone, queue, each, f"{self.producer}:{sequence}/{epoch}/{number}")
            try:
                await self._until_done(send, f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name}")
            except (Refused, BadMessage) as fault:
                dead.append((each, str(fault)))
        return dead

    async def _send_alone(self, queue: MessageQueue, each: Captured, name: str) -> None:
        properties = {**each.properties, Property.UNIQ_KEY: self.client.session.ids.next(), Property.WAIT: "true"}
        outgoing = pack_batch(queue.topic, [pack_item(each.topic, each.body, properties, _PACKING)])
        outgoing.name_send(name)
        await self.sender.send(outgoing, always(queue))

    async def _stored(self, queue: MessageQueue, epoch: int, sequence: int) -> int:
        """Return how many messages of a batch its queue has: all of them if it has something newer of ours."""
        return stored_of(await end_of(self.client.session, queue), self.producer, epoch, sequence)

    async def furthest(self, may_be_ours: Callable[[str], bool]) -> Furthest:
        """Return how far the topics that may be ours show this source to have come. Waits while brokers are away."""
        names = await self._until_done(self._topics, "the list of topics")
        found = Furthest()
        for topic in filter(may_be_ours, names):
            ends = partial(furthest_in, self.client.session, topic, self.producer)
            found = found.and_also(await self._until_done(ends, f"the ends of topic {topic}"))
        return found

    async def _topics(self) -> list[str]:
        return await admin.topics.names(Calls(self.client.session))

    async def windows(self, topic: str) -> dict[str, bool]:
        """Return for each broker of a topic whether it recognises repeats."""
        calls, found = Calls(self.client.session), {}
        for queue in await self.queues(topic):
            if queue.broker_name not in found:
                settings = await admin.settings.of_broker(calls, await self.client.session.master(queue))
                found[queue.broker_name] = settings.get("duplicateWindowEnable") == "true"
        return found

    async def _until_done(self, attempt: Callable[[], Awaitable[T]], what: str) -> T:
        """Return what the attempt does once it succeeds. While brokers are away it is repeated.

        CaptureError where repeating cannot help; Refused and BadMessage of a message that is too large.
        """
        clock, rng = self.client.session.clock, self.client.session.rng
        began = warned = clock.monotonic()
        for number in count(1):
            try:
                return await attempt()
            except BadMessage:
                raise
            except Error as fault:
                if is_too_large(fault):
                    raise
                self._check_hopeful(fault)
                if isinstance(fault, TopicNotFound) or fault.code == ResponseCode.TOPIC_NOT_EXIST:
                    await self._make_again(what)
                now = clock.monotonic()
                if number == 1 or now - warned >= _WARN_EVERY_S:
                    warned = now
                    log.warning(
                        "brokers take nothing, the capture waits", to=what, seconds=round(now - began), fault=fault
                    )
                self.waits += 1
            await clock.sleep(growing_pause_s(0.05, 2.0, number, rng))
        raise AssertionError("count never ends")

    def _check_hopeful(self, fault: Error) -> None:
        if fault.code == ResponseCode.ILLEGAL_OPERATION:
            raise CaptureError(
                f"another capture of this source has taken over: {fault}. Two must not run at once; stop one of them"
            ) from fault
        if fault.code == ResponseCode.NO_PERMISSION:
            raise CaptureError(f"brokers do not let the capture send, or read what it sent: {fault}") from fault

    async def _make_again(self, what: str) -> None:
        """Make the topics that were deleted under the capture, as they were."""
        calls = Calls(self.client.session)
        for topic, queues in self._queues.items():
            if topic not in what:
                continue
            log.warning("a topic was deleted under the capture, and is made again", topic=topic)
            for broker in await admin.cluster.masters(calls):
                queue_ids = [queue.queue_id for queue in queues if queue.broker_name == broker.name]
                if queue_ids:
                    most = max(queue_ids) + 1
                    await admin.topics.put(
                        calls,
                        broker.address,
                        TopicConfig(topic_name=topic, read_queue_nums=most, write_queue_nums=most),
                    )
            await self.client.session.clock.sleep(_MADE_AGAIN_S)
