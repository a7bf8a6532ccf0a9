"""Lite topics of 5.5."""

from __future__ import annotations

from ..ints import Int32, Int64
from .body import Body, always, always_new
from .offsets import OffsetWrapper, TopicOffset


class OffsetOption(Body, kw_only=True):
    type: str | None = None  # POLICY, OFFSET, TAIL_N, TIMESTAMP
    value: Int64 = always(0)


class LiteSubscriptionDTO(Body, kw_only=True):
    action: str | None = None  # PARTIAL_ADD, PARTIAL_REMOVE, COMPLETE_ADD, COMPLETE_REMOVE
    client_id: str | None = None
    group: str | None = None
    lite_topic_set: list[str] = always_new(list)
    offset_option: OffsetOption | None = None
    topic: str | None = None
    version: Int64 = always(0)


class LiteSubscriptionCtlRequestBody(Body, kw_only=True):
    subscription_set: list[LiteSubscriptionDTO] = always_new(list)


class GetBrokerLiteInfoResponseBody(Body, kw_only=True):
    cq_table_size: Int32 = always(0)
    current_lmq_num: Int32 = always(0)
    event_map_size: Int32 = always(0)
    group_meta: dict[str, list[str]] = always_new(dict)
    lite_subscription_count: Int32 = always(0)
    max_lmq_num: Int32 = always(0)
    offset_table_size: Int32 = always(0)
    order_info_count: Int32 = always(0)
    store_type: str | None = None
    topic_meta: dict[str, Int32] = always_new(dict)


class GetLiteClientInfoResponseBody(Body, kw_only=True):
    client_id: str | None = None
    group: str | None = None
    last_access_time: Int64 = always(0)
    last_consume_time: Int64 = always(0)
    lite_topic_count: Int32 = always(0)
    lite_topic_set: list[str] | None = None
    parent_topic: str | None = None


class LiteLagInfo(Body, kw_only=True):
    earliest_unconsumed_timestamp: Int64 = always(-1)
    lag_count: Int64 = always(0)
    lite_topic: str | None = None


class GetLiteGroupInfoResponseBody(Body, kw_only=True):
    earliest_unconsumed_timestamp: Int64 = always(-1)
    group: str | None = None
    lag_count_top_k: list[LiteLagInfo] | None = None
    lag_timestamp_top_k: list[LiteLagInfo] | None = None
    lite_topic: str | None = None
    lite_topic_offset_wrapper: OffsetWrapper | None = None
    parent_topic: str | None = None
    total_lag_count: Int64 = always(0)


class ClientGroup(Body, kw_only=True):
    client_id: str | None = None
    group: str | None = None


class GetLiteTopicInfoResponseBody(Body, kw_only=True):
    lite_topic: str | None = None
    parent_topic: str | None = None
    sharding_to_broker: bool = always(False)
    subscriber: list[ClientGroup] | None = None
    topic_offset: TopicOffset | None = None


class GetParentTopicInfoResponseBody(Body, kw_only=True):
    groups: list[str] | None = None
    lite_topic_count: Int32 = always(0)
    lmq_num: Int32 = always(0)
    topic: str | None = None
    ttl: Int32 = always(0)
