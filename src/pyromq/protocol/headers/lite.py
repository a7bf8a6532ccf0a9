"""Lite topics of 5.5: many light queues under one parent topic."""

from __future__ import annotations

from .header import Header, Int32, Int64, RpcHeader


class PopLiteMessage(RpcHeader, kw_only=True):
    client_id: str
    consumer_group: str
    topic: str
    max_msg_num: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    attempt_id: str | None = None


class PopLiteMessageAnswer(Header, kw_only=True):
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class NotifyUnsubscribeLite(RpcHeader, kw_only=True):
    """200073, from the broker to a proxy, one-way."""

    lite_topic: str
    consumer_group: str
    client_id: str


class GetParentTopicInfo(Header, kw_only=True):
    topic: str


class GetLiteTopicInfo(Header, kw_only=True):
    parent_topic: str | None = None
    lite_topic: str | None = None


class GetLiteClientInfo(Header, kw_only=True):
    parent_topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    max_count: Int32 = 1000


class GetLiteGroupInfo(Header, kw_only=True):
    group: str
    lite_topic: str | None = None
    top_k: Int32 = 0


class TriggerLiteDispatch(Header, kw_only=True):
    group: str
    client_id: str | None = None
