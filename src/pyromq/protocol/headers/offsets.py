"""Offsets: of consumers and of queues, by hand and by time, and their reset."""

from __future__ import annotations

from ...model.boundary import Boundary
from .header import GroupQueue, Header, Int32, Int64, RpcHeader, TopicHeader, TopicName, TopicQueue


class QueryConsumerOffset(GroupQueue, kw_only=True):
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffset(GroupQueue, kw_only=True):
    commit_offset: Int64


class GetMaxOffset(TopicQueue, kw_only=True):
    committed: bool = True


class SearchOffset(TopicHeader, kw_only=True):
    topic: str
    lite_topic: str | None = None
    queue_id: Int32
    timestamp: Int64
    boundary_type: Boundary | None = None


class OffsetAnswer(Header, kw_only=True):
    offset: Int64 | None = None  # absent where nothing was found


class GetEarliestMsgStoretimeAnswer(Header, kw_only=True):
    timestamp: Int64  # -1: the queue is empty


class ResetOffset(TopicHeader, kw_only=True):
    group: str
    topic: str
    queue_id: Int32 = -1
    offset: Int64 | None = None
    timestamp: Int64
    is_force: bool


class GetConsumerStatus(TopicName, kw_only=True):
    group: str
    client_addr: str | None = None


class CloneGroupOffset(RpcHeader, kw_only=True):
    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QueryCorrectionOffset(TopicHeader, kw_only=True):
    filter_groups: str | None = None  # separated by commas
    compare_group: str
    topic: str
