"""Administration of subscription groups."""

from __future__ import annotations

from .header import Header, Int32, RpcHeader, TopicHeader


class GetAllSubscriptionGroup(Header, kw_only=True):
    """201. Without fields everything is wanted; the pages came with 5.4."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetAllSubscriptionGroupAnswer(Header, kw_only=True):
    total_group_num: Int32 | None = None


class DeleteSubscriptionGroup(RpcHeader, kw_only=True):
    group_name: str
    clean_offset: bool = False


class GetSubscriptionGroupConfig(RpcHeader, kw_only=True):
    group: str


class UpdateGroupForbidden(TopicHeader, kw_only=True):
    """353. No `readable`: only asks."""

    group: str
    topic: str
    readable: bool | None = None
