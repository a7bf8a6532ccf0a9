"""Stored messages sent again: a copy into a topic, or once more to one group alone. The stored ones stay.

A message that cannot be read is never sent: its stored bytes would become the body of a good message.

A whole topic is copied into another one queue by queue, for a backlog that needs more queues. It can be resumed: how
far it is stands at the brokers, as offsets of a group of its own in the source topic. They are committed after each
page, so that a kill repeats at most a page of each queue and skips nothing. What cannot be read is named and left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from ..client.connect.session import Session
from ..client.core.routing import queue_for_key
from ..client.produce.outgoing import Outgoing, Packing, pack
from ..client.produce.sending import Sender, SendPolicy, SendResult
from ..errors import PyroError
from ..model import names
from ..model.message import Property, StoredMessage
from ..model.names import MAX_GROUP
from ..model.pop_names import first_topic
from ..protocol.bodies.groups import SubscriptionGroupConfig
from ..protocol.messages import UnreadableMessage
from . import groups, messages, offsets, topics
from .calls import Calls
from .cluster import BrokerPlace
from .groups import TOOLS_PREFIX

GROUP = "pyromq_tools"
COPY_OF = "COPY_OF"  # the id of the message that it is a copy of
_OURS = frozenset(value for name, value in vars(Property).items() if not name.startswith("_"))
_KEPT = {Property.TAGS, Property.KEYS, Property.SHARDING_KEY, Property.PRIORITY}


class CannotCopy(PyroError):
    """A stored message cannot be read here. The text says which and why; nothing was sent."""


class Copies:
    """Event loop only. Messages with an order key go to the queue of that key, also in a topic with other queues."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sender = Sender(session, GROUP, SendPolicy())

    async def send(self, message: StoredMessage, topic: str, extra: Mapping[str, str] | None = None) -> SendResult:
        """Send a copy with the same body, tags, keys and properties, and `extra`. CannotCopy if it cannot be read."""
        check_readable(message)
        properties = own_properties(message) | {COPY_OF: message_id(message)} | dict(extra or {})
        return await self.send_packed(
            self.pack_new(topic, message.body, properties), properties.get(Property.SHARDING_KEY)
        )

    def pack_new(self, topic: str, body: bytes, properties: Mapping[str, str]) -> Outgoing:
        """Return a new message as `send_packed` sends it. BadMessage for one that cannot be sent."""
        new = dict(properties) | {Property.UNIQ_KEY: self._session.ids.next(), Property.WAIT: "true"}
        return pack(topic, body, new, Packing())

    async def retry(self, message: StoredMessage, group: str, extra: Mapping[str, str] | None = None) -> SendResult:
        """Send the message to the group's retry topic, with its id; attempts count anew. CannotCopy as of `send`."""
        check_readable(message)
        properties = own_properties(message) | dict(extra or {})
        properties |= {
            Property.UNIQ_KEY: message_id(message),
            Property.ORIGIN_MESSAGE_ID: message_id(message),
            Property.RETRY_TOPIC: origin_topic(message),
            Property.WAIT: "true",
        }
        return await self.send_packed(pack(names.retry_topic(group), message.body, properties, Packing()), None)

    async def send_packed(self, message: Outgoing, order_key: str | None) -> SendResult:
        choose = None if order_key is None else lambda queues: queue_for_key(queues, order_key)
        return (await self._sender.send(message, choose))[0]


def check_readable(message: StoredMessage) -> None:
    """Raise CannotCopy for one that nobody can read, or that needs a package which is not installed here."""
    if isinstance(message, UnreadableMessage):
        raise CannotCopy(
            f"message {message_id(message)} at offset {message.queue_offset} of queue {message.queue_id} of "
            f"{message.topic or 'an unknown topic'} (commit log position {message.physical_offset}) cannot be read "
            f"and is left where it is: {message.fault}"
        )


def own_properties(message: StoredMessage) -> dict[str, str]:
    """Return the application's properties, without those that say what became of this one record."""
    return {name: value for name, value in message.properties.items() if is_kept(name)}


def is_kept(name: str) -> bool:
    """Return whether a copy has the property: no other of RocketMQ's own, by which brokers treat a message."""
    return name not in _OURS or name in _KEPT


def message_id(message: StoredMessage) -> str:
    """Return the id as consumers know it: a dead letter has that of the message that it was."""
    return (
        message.properties.get(Property.DLQ_ORIGIN_MESSAGE_ID)
        or message.unique_id
        or message.properties.get(Property.ORIGIN_MESSAGE_ID)
        or message.offset_id
    )


def origin_topic(message: StoredMessage) -> str:
    """Return the topic that the message was sent to, before retries and death."""
    found = message.properties.get(Property.DLQ_ORIGIN_TOPIC) or message.properties.get(Property.RETRY_TOPIC)
    return first_topic(message.topic, found)


# --- a whole topic ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CopyRange(topics.QueueRange):
    """What is to be copied of one queue. `is_resumed`: an earlier run has copied what is before it."""

    is_resumed: bool = False


def forwarding_group(target: str) -> str:
    """Return the group whose offsets in the source topic say how far forwarding is."""
    return f"{TOOLS_PREFIX}forward_{target}"[:MAX_GROUP]


async def ranges_to_copy(
    calls: Calls, places: list[BrokerPlace], source: str, target: str, group: str | None = None
) -> list[CopyRange]:
    """Return the rest of each queue, to its end of now: behind an earlier run, else from where `group` is, else all."""
    found = []
    for queue in await topics.queues(calls, places, source):
        place, number = queue.place, queue.queue_id
        resumed = await offsets.committed(calls, place.address, forwarding_group(target), source, number)
        begin = resumed
        if begin is None and group is not None:
            begin = await offsets.committed(calls, place.address, group, source, number)
        found.append(CopyRange(place, number, max(begin or 0, queue.first), queue.end, resumed is not None))
    return found


async def forward(
    calls: Calls,
    source: str,
    target: str,
    work: list[CopyRange],
    copied: Callable[[int], None],
    skipped: Callable[[CannotCopy], None],
) -> None:
    """Copy all queues at a time. `copied` gets how many were copied, `skipped` each that cannot be read."""
    copies = Copies(calls.session)
    for address in {each.place.address for each in work}:
        await groups.put(calls, address, SubscriptionGroupConfig(group_name=forwarding_group(target)))

    async def send(page: list[StoredMessage]) -> int:
        return await _send(copies, target, page, skipped)

    tasks = [asyncio.ensure_future(_queue(calls, source, target, each, send, copied)) for each in work if each.count]
    try:
        for task in asyncio.as_completed(tasks):
            await task
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _queue(
    calls: Calls,
    source: str,
    target: str,
    work: CopyRange,
    send: Callable[[list[StoredMessage]], Awaitable[int]],
    copied: Callable[[int], None],
) -> None:
    address, group = work.place.address, forwarding_group(target)
    async for page in messages.pages(calls, address, source, work.queue_id, work.first, work.end):
        sent = await send(page.messages)
        await offsets.commit(calls, address, group, source, work.queue_id, page.next_offset)
        copied(sent)


async def _send(copies: Copies, target: str, page: list[StoredMessage], skipped: Callable[[CannotCopy], None]) -> int:
    """Send messages of one order key one after another, all others at a time. Return how many were sent."""
    lanes: dict[str, list[StoredMessage]] = {}
    for number, message in enumerate(page):
        lanes.setdefault(message.properties.get(Property.SHARDING_KEY) or f"\0{number}", []).append(message)

    async def lane(row: list[StoredMessage]) -> int:
        sent = 0
        for message in row:
            try:
                await copies.send(message, target)
                sent += 1
            except CannotCopy as fault:
                skipped(fault)
        return sent

    return sum(await asyncio.gather(*(lane(row) for row in lanes.values())))
