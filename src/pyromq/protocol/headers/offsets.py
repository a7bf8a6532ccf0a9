"""Offsets: of consumers and of queues, by hand and by time, and their reset."""

from __future__ import annotations

from ...model.boundary import Boundary
from .header import Header, Int32, Int64, RpcHeader, TopicHeader


class QueryConsumerOffset(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffset(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class GetMaxOffset(TopicHeader, kw_only=True):
    topic: str
    queue_id: Int32
    committed: bool = True


class GetMinOffset(TopicHeader, kw_only=True):
    topic: str
    queue_id: Int32


class SearchOffset(TopicHeader, kw_only=True):
    topic: str
    lite_topic: str | None = None
    queue_id: Int32
    timestamp: Int64
    boundary_type: Boundary | None = None


class OffsetAnswer(Header, kw_only=True):
    """14, 29, 30, 31. Absent where nothing was found."""

    offset: Int64 | None = None


class GetEarliestMsgStoretime(TopicHeader, kw_only=True):
    topic: str
    queue_id: Int32


class GetEarliestMsgStoretimeAnswer(Header, kw_only=True):
    """32. -1: the queue is empty."""

    timestamp: Int64


class ResetOffset(TopicHeader, kw_only=True):
    """222 to the broker, 220 from there to the clients."""

    group: str
    topic: str
    queue_id: Int32 = -1
    offset: Int64 | None = None
    timestamp: Int64
    is_force: bool


class GetConsumerStatus(TopicHeader, kw_only=True):
    """223 to the broker, 221 from there to the clients."""

    topic: str
    group: str
    client_addr: str | None = None


class CloneGroupOffset(RpcHeader, kw_only=True):
    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QueryCorrectionOffset(TopicHeader, kw_only=True):
    """308. `filter_groups` is a comma list."""

    filter_groups: str | None = None
    compare_group: str
    topic: str
