"""Offsets: how far groups are, how far queues reach; set by hand, by time, cloned."""

from __future__ import annotations

from ..model.codes import ResponseCode
from ..model.lag import lag
from ..protocol.bodies.offsets import (
    ConsumeStats,
    ConsumeStatsList,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
    ResetOffsetBody,
)
from ..protocol.headers.offsets import (
    Boundary,
    CloneGroupOffset,
    GetEarliestMsgStoretime,
    GetEarliestMsgStoretimeAnswer,
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    QueryConsumerOffset,
    ResetOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from ..protocol.headers.stats import GetBrokerConsumeStats, GetConsumeStats, QueryConsumeTimeSpan
from ..protocol.requests import RequestCode
from . import groups, topics
from .calls import Calls, read

TO_THE_END = -1  # as a time
ALL_QUEUES = -1


async def progress(calls: Calls, address: str, group: str, topic: str | None = None) -> ConsumeStats:
    """208: by queue, where the group is and where the queue ends. Empty if this broker knows nothing of it."""
    header = GetConsumeStats(consumer_group=group, topic=topic)
    return read(ConsumeStats, await calls.broker(address, RequestCode.GET_CONSUME_STATS, header))


async def progress_of_all(calls: Calls, address: str, *, orderly_only: bool = False) -> ConsumeStatsList:
    """317: of every group of a broker."""
    header = GetBrokerConsumeStats(is_order=orderly_only)
    return read(ConsumeStatsList, await calls.broker(address, RequestCode.GET_BROKER_CONSUME_STATS, header))


async def time_spans(calls: Calls, address: str, group: str, topic: str) -> list[QueueTimeSpan]:
    """303: how old the oldest message is that the group has not consumed, by queue."""
    header = QueryConsumeTimeSpan(topic=topic, group=group)
    answer = await calls.broker(address, RequestCode.QUERY_CONSUME_TIME_SPAN, header)
    return read(QueryConsumeTimeSpanBody, answer).consume_time_span_set


async def committed(calls: Calls, address: str, group: str, topic: str, queue_id: int) -> int | None:
    """14. None if the group has committed nothing there."""
    header = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, set_zero_if_not_found=False)
    known = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
    answer = await calls.broker(address, RequestCode.QUERY_CONSUMER_OFFSET, header, expected=known)
    return None if answer.code == ResponseCode.QUERY_NOT_FOUND else OffsetAnswer.from_fields(answer.fields).offset


async def commit(calls: Calls, address: str, group: str, topic: str, queue_id: int, offset: int) -> None:
    """15."""
    header = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)
    await calls.broker(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)


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
    """222: to the first message not before a time, or, in one queue, to an offset. Where each queue goes on."""
    header = ResetOffset(group=group, topic=topic, queue_id=queue_id, offset=offset, timestamp=time_ms, is_force=force)
    return read(ResetOffsetBody, await calls.broker(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header))


async def clone(calls: Calls, address: str, source: str, target: str, topic: str, *, offline: bool = False) -> None:
    header = CloneGroupOffset(src_group=source, dest_group=target, topic=topic, offline=offline)
    await calls.broker(address, RequestCode.CLONE_GROUP_OFFSET, header)


async def first(calls: Calls, address: str, topic: str, queue_id: int) -> int:
    """31: the least offset of a queue."""
    answer = await calls.broker(address, RequestCode.GET_MIN_OFFSET, GetMinOffset(topic=topic, queue_id=queue_id))
    return OffsetAnswer.from_fields(answer.fields).offset or 0


async def end(calls: Calls, address: str, topic: str, queue_id: int) -> int:
    """30: the offset that the next message gets."""
    answer = await calls.broker(address, RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic=topic, queue_id=queue_id))
    return OffsetAnswer.from_fields(answer.fields).offset or 0


async def at_time(
    calls: Calls, address: str, topic: str, queue_id: int, time_ms: int, boundary: Boundary | None = None
) -> int:
    """29: of the first message not before the time."""
    header = SearchOffset(topic=topic, queue_id=queue_id, timestamp=time_ms, boundary_type=boundary)
    answer = await calls.broker(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
    return OffsetAnswer.from_fields(answer.fields).offset or 0


async def earliest_time(calls: Calls, address: str, topic: str, queue_id: int) -> int:
    """32. -1: the queue is empty."""
    header = GetEarliestMsgStoretime(topic=topic, queue_id=queue_id)
    answer = await calls.broker(address, RequestCode.GET_EARLIEST_MSG_STORETIME, header)
    return GetEarliestMsgStoretimeAnswer.from_fields(answer.fields).timestamp


async def unread_beyond(calls: Calls, address: str, topic: str, read_queues: int) -> dict[int, int]:
    """Return, by queue from number `read_queues` on, how many messages not every group of the topic has consumed.

    Nobody would read them any more if the topic had only so many queues to read. Without a group that is all of them.
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
