"""Offsets: how far groups are, how far queues reach; set by hand, by time, cloned."""

from __future__ import annotations

from ..model.codes import ResponseCode
from ..model.lag import lag
from ..model.names import retry_topic
from ..protocol.bodies.offsets import ConsumeStats, OffsetWrapper, ResetOffsetBody
from ..protocol.headers.admin import GetConsumeStats
from ..protocol.headers.header import TopicName, TopicQueue
from ..protocol.headers.offsets import (
    GetMaxOffset,
    QueryConsumerOffset,
    ResetOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from ..protocol.requests import RequestCode
from . import groups, topics
from .calls import Calls

TO_THE_END = -1  # as a time
ALL_QUEUES = -1


async def progress(calls: Calls, address: str, group: str, topic: str | None = None) -> ConsumeStats:
    """Return, by queue, where the group is and where the queue ends. Empty if this broker does not know the group."""
    header = GetConsumeStats(consumer_group=group, topic=topic)
    return (await calls.ask(address, RequestCode.GET_CONSUME_STATS, header)).body


async def waiting(calls: Calls, address: str, group: str, topic: str | None = None) -> ConsumeStats:
    """Return `progress` with the group's retry topic, also where it has committed nothing there.

    Its consumers begin with the first message of that topic, so all of them wait; a broker leaves them out.
    """
    found, retry = await progress(calls, address, group, topic), retry_topic(group)
    if topic not in (None, retry):
        return found
    known = [ResponseCode.TOPIC_NOT_EXIST]
    answer = await calls.ask(address, RequestCode.GET_TOPIC_STATS_INFO, TopicName(topic=retry), known=known)
    ranges = {} if answer.code in known else answer.body.offset_table
    for queue, at in ranges.items():
        own = found.offset_table.get(queue)
        if at.count and (own is None or own.consumer_offset < at.min_offset):
            first = {"consumer_offset": at.min_offset, "pull_offset": at.min_offset}
            found.offset_table[queue] = OffsetWrapper(broker_offset=at.max_offset, **first)
    return found


async def committed(calls: Calls, address: str, group: str, topic: str, queue_id: int) -> int | None:
    """Return the group's offset; None if it has committed nothing there."""
    header = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, set_zero_if_not_found=False)
    missing = ResponseCode.QUERY_NOT_FOUND
    answer = await calls.ask(address, RequestCode.QUERY_CONSUMER_OFFSET, header, known=[missing])
    return None if answer.code == missing else answer.header.offset


async def commit(calls: Calls, address: str, group: str, topic: str, queue_id: int, offset: int) -> None:
    header = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)
    await calls.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)


async def reset(
    calls: Calls,
    address: str,
    group: str,
    topic: str,
    *,
    time_ms: int = TO_THE_END,
    queue_id: int = ALL_QUEUES,
    offset: int | None = None,
    force: bool = True,
) -> ResetOffsetBody:
    """Reset to the first message not before a time, or a queue to an offset. Return where each queue goes on."""
    header = ResetOffset(group=group, topic=topic, queue_id=queue_id, offset=offset, timestamp=time_ms, is_force=force)
    return (await calls.ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)).body


async def first(calls: Calls, address: str, topic: str, queue_id: int) -> int:
    """Return the least offset of a queue."""
    header = TopicQueue(topic=topic, queue_id=queue_id)
    return (await calls.ask(address, RequestCode.GET_MIN_OFFSET, header)).header.offset or 0


async def end(calls: Calls, address: str, topic: str, queue_id: int) -> int:
    """Return the offset that the next message gets."""
    header = GetMaxOffset(topic=topic, queue_id=queue_id)
    return (await calls.ask(address, RequestCode.GET_MAX_OFFSET, header)).header.offset or 0


async def at_time(calls: Calls, address: str, topic: str, queue_id: int, time_ms: int) -> int:
    """Return the offset of the first message not before the time."""
    header = SearchOffset(topic=topic, queue_id=queue_id, timestamp=time_ms)
    return (await calls.ask(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)).header.offset or 0


async def earliest_time(calls: Calls, address: str, topic: str, queue_id: int) -> int:
    """Return the time of the queue's first message, -1 if it is empty."""
    header = TopicQueue(topic=topic, queue_id=queue_id)
    return (await calls.ask(address, RequestCode.GET_EARLIEST_MSG_STORETIME, header)).header.timestamp


async def unread_beyond(calls: Calls, address: str, topic: str, read_queues: int) -> dict[int, int]:
    """Return, by queue from number `read_queues` on, how many messages not every group of the topic has consumed.

    Nobody would read them any more if the topic had only so many queues to read. Without a group all messages count.
    """
    table = (await topics.stats(calls, address, topic)).offset_table
    beyond = {queue.queue_id: at for queue, at in topics.by_number(table) if queue.queue_id >= read_queues and at.count}
    if not beyond:
        return {}
    done: dict[int, int] = {}
    for group in await topics.groups(calls, address, topic):
        if groups.is_internal(group):
            continue
        for queue, at in (await progress(calls, address, group, topic)).offset_table.items():
            done[queue.queue_id] = min(at.consumer_offset, done.get(queue.queue_id, at.consumer_offset))
    left = {number: lag(at.max_offset, max(at.min_offset, done.get(number, 0))) for number, at in beyond.items()}
    return {number: count for number, count in left.items() if count}
