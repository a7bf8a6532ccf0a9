"""A topic's messages copied into another one, queue by queue, for a backlog that needs more queues. It can be resumed:

where it is stands at the brokers, as offsets of a group of its own in the source topic. They are committed after each
page, so that a kill repeats at most a page of each queue and skips nothing. What cannot be read is named and left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..model.message import Property, StoredMessage
from ..model.names import MAX_GROUP
from ..protocol.bodies.groups import SubscriptionGroupConfig
from . import groups, messages, offsets, topics
from .calls import Calls
from .cluster import BrokerPlace
from .copies import CannotCopy, Copies
from .groups import TOOLS_PREFIX


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
    """Return the range of each queue that is to be copied, up to its end of now.

    It begins where an earlier run ended; else where `group` is; else at the first message.
    """
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
