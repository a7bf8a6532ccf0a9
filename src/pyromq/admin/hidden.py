"""Messages that nobody would read any more if a topic had fewer queues to read. Asks only."""

from __future__ import annotations

from . import groups, offsets, topics
from .calls import Calls


async def unread_beyond(calls: Calls, address: str, topic: str, read_queues: int) -> dict[int, int]:
    """By queue, from number `read_queues` on: messages that not every group of the topic has consumed.

    In a topic without groups that is all of them.
    """
    table = (await topics.stats(calls, address, topic)).offset_table
    reach = {queue.queue_id: place for queue, place in table.items() if queue.queue_id >= read_queues}
    if not any(place.max_offset > place.min_offset for place in reach.values()):
        return {}
    done: dict[int, int] = {}
    for group in await topics.groups(calls, address, topic):
        if groups.is_internal(group):
            continue
        for queue, place in (await offsets.progress(calls, address, group, topic)).offset_table.items():
            done[queue.queue_id] = min(place.consumer_offset, done.get(queue.queue_id, place.consumer_offset))
    left = {
        queue_id: place.max_offset - max(place.min_offset, done.get(queue_id, 0))
        for queue_id, place in sorted(reach.items())
    }
    return {queue_id: count for queue_id, count in left.items() if count > 0}
