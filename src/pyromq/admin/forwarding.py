"""A topic's messages copied into another one, queue by queue, for a backlog that needs more queues. It can be resumed:

where it is stands at the brokers, as offsets of a group of its own in the source topic. They are committed after each
page, so that a kill repeats at most a page of each queue and skips nothing. What cannot be read is told and left out.
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

PAGE = 32  # what brokers give at most, unless they are told otherwise


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is to be copied of one queue: from `begin` up to `end`."""

    place: BrokerPlace
    queue_id: int
    begin: int
    end: int
    is_resumed: bool = False

    @property
    def count(self) -> int:
        return max(0, self.end - self.begin)


def forwarding_group(target: str) -> str:
    """Its offsets in the source topic say how far it is."""
    return f"{TOOLS_PREFIX}forward_{target}"[:MAX_GROUP]


async def stretches(
    calls: Calls, places: list[BrokerPlace], source: str, target: str, group: str | None = None
) -> list[Stretch]:
    """From where an earlier run ended; else from where `group` is; else from the beginning. Up to the end of now."""
    found = []
    for place in places:
        if await topics.config(calls, place.address, source) is None:
            continue
        table = (await topics.stats(calls, place.address, source)).offset_table
        for queue, reach in sorted(table.items(), key=lambda item: item[0].queue_id):
            resumed = await offsets.committed(calls, place.address, forwarding_group(target), source, queue.queue_id)
            begun = resumed
            if begun is None and group is not None:
                begun = await offsets.committed(calls, place.address, group, source, queue.queue_id)
            begin = max(begun if begun is not None else 0, reach.min_offset)
            found.append(Stretch(place, queue.queue_id, begin, reach.max_offset, resumed is not None))
    return found


async def forward(
    calls: Calls,
    source: str,
    target: str,
    work: list[Stretch],
    copied: Callable[[int], None],
    skipped: Callable[[CannotCopy], None],
) -> None:
    """All queues at a time. `copied` is told how many went over, `skipped` of each that cannot be read."""
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
    work: Stretch,
    send: Callable[[list[StoredMessage]], Awaitable[int]],
    copied: Callable[[int], None],
) -> None:
    place, group, at = work.place.address, forwarding_group(target), work.begin
    while at < work.end:
        page = await messages.read_queue(calls, place, source, work.queue_id, at, most=min(PAGE, work.end - at))
        wanted = [each for each in page.messages if each.queue_offset < work.end]
        sent = await send(wanted)
        at = max(at + 1, min(page.next_offset, work.end))  # never stands still, even where a record is damaged
        await offsets.commit(calls, place, group, source, work.queue_id, at)
        copied(sent)


async def _send(copies: Copies, target: str, page: list[StoredMessage], skipped: Callable[[CannotCopy], None]) -> int:
    """What has one order key one after another, all else at a time. Returns how many were sent."""
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
