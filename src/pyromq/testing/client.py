"""A client for tests: sends, and takes one message at a time. The whole SDK is behind `client`."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Unpack

from ..ambient import SystemClock
from ..client.arguments import Seconds
from ..client.client import Client
from ..client.keywords import SendArguments
from ..client.pop.popped import Popped
from ..client.pop.simple_consumer import SimpleConsumer
from ..client.produce.producer import Producer
from ..client.produce.sending import SendResult
from ..client.received import Received
from ..client.subscription import Filter
from ..model.group import ConsumeFromWhere
from .broker import RmqBroker

RECEIVE_S = 5.0  # of real time
GROUP = "rmq_client"


class NothingCame(AssertionError):
    """A message was awaited in vain."""


class _Mailbox:
    """A group's consumer whose handler waits until the test has taken the message; then it is acked."""

    def __init__(self, broker: RmqBroker) -> None:
        self._broker = broker
        self._waiting: deque[tuple[Received, asyncio.Event]] = deque()
        self._arrived = asyncio.Event()

    async def handle(self, msg: Received) -> None:
        received = asyncio.Event()
        self._waiting.append((msg, received))
        self._arrived.set()
        await self._broker.hold(received)

    def __len__(self) -> int:
        return len(self._waiting)

    async def take(self) -> Received:
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        msg, received = self._waiting.popleft()
        received.set()
        return msg


class RmqClient:
    """Event loop only. Made by the fixture `rmq_client`."""

    def __init__(self, broker: RmqBroker, client: Client) -> None:
        self._broker = broker
        self.client = client
        self.producer: Producer = client.producer(GROUP)
        self._mailboxes: dict[tuple[str, str], _Mailbox] = {}
        self._consumers: dict[tuple[str, str], SimpleConsumer] = {}

    async def send(self, topic: str, value: Any, **arguments: Unpack[SendArguments]) -> SendResult:
        """Send as `Producer.send` does."""
        return await self.producer.send(topic, value, **arguments)

    async def receive_one(
        self, topic: str, group: str = GROUP, *, filter: Filter | None = None, wait_s: float = RECEIVE_S
    ) -> Received:
        """Return the group's next message, acked. Wait at most `wait_s` of real time, while the test's clock stands."""
        mailbox = await self._mailbox(topic, group, filter)
        try:
            async with SystemClock().timeout(wait_s):
                return await mailbox.take()
        except TimeoutError:
            raise NothingCame(
                f"group {group!r} got no message of {topic!r} within {wait_s:g} s; "
                f"the topic holds {len(self._broker.messages(topic))}. Is it due yet, or does it wait for a retry?"
            ) from None

    async def receive(
        self,
        topic: str,
        group: str = GROUP,
        *,
        max: int = 16,
        filter: Filter | None = None,
        invisible: Seconds | None = None,
    ) -> list[Popped]:
        """Return what the group can get now by pop, up to `max` messages; [] if there is nothing.

        Each is to be acknowledged, else it comes again once the test's clock has passed its invisible time (30 s).
        """
        consumer = await self._popping(topic, group, filter)
        await self._broker.settle()
        return await consumer.receive(max, 0, invisible=invisible)

    async def _popping(self, topic: str, group: str, filter: Filter | None) -> SimpleConsumer:
        found = self._consumers.get((topic, group))
        if found is None:
            if (topic, group) in self._mailboxes:
                raise ValueError(f"group {group!r} has received {topic!r} by receive_one: it pulls, and cannot pop too")
            await self._create(topic)
            client = await self._broker.client()
            begin = ConsumeFromWhere.FIRST_OFFSET
            found = client.simple_consumer(topic, group=group, filter=filter, begin=begin)
            await found.start()
            self._consumers[topic, group] = found
        return found

    async def expect_nothing(self, topic: str, group: str = GROUP, *, filter: Filter | None = None) -> None:
        """Raise AssertionError if the group can get a message now."""
        mailbox = await self._mailbox(topic, group, filter)
        await self._broker.settle()
        if len(mailbox):
            msg = await mailbox.take()
            raise AssertionError(f"group {group!r} got {msg!r} of {topic!r}: {msg.body[:100]!r}")

    async def _mailbox(self, topic: str, group: str, filter: Filter | None) -> _Mailbox:
        found = self._mailboxes.get((topic, group))
        if found is not None:
            return found
        if (topic, group) in self._consumers:
            raise ValueError(f"group {group!r} has received {topic!r} by receive: it pops, and cannot pull too")
        await self._create(topic)
        mailbox = self._mailboxes[topic, group] = _Mailbox(self._broker)
        client = await self._broker.client()
        begin = ConsumeFromWhere.FIRST_OFFSET
        await client.push_consumer(topic, mailbox.handle, group=group, filter=filter, begin=begin).start()
        await self._broker.settle()
        return mailbox

    async def _create(self, topic: str) -> None:
        if self._broker.broker.topics.find(topic) is None:
            await self._broker.create_topic(topic)
