"""A client for tests: sends, and takes one message at a time. The whole SDK is behind `client`."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Unpack

from ..ambient import SystemClock
from ..client.client import Client
from ..client.keywords import SendArguments
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
        if self._broker.broker.topics.find(topic) is None:
            await self._broker.create_topic(topic)
        mailbox = self._mailboxes[topic, group] = _Mailbox(self._broker)
        client = await self._broker.client()
        begin = ConsumeFromWhere.FIRST_OFFSET
        await client.push_consumer(topic, mailbox.handle, group=group, filter=filter, begin=begin).start()
        await self._broker.settle()
        return mailbox
