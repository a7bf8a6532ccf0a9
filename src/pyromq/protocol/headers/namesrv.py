"""What the name server is asked, and its answers' fields."""

from __future__ import annotations

import msgspec

from .header import Header, Int32, Int64, TopicName

ZONE_NAME = "__ZONE_NAME"
ZONE_MODE = "__ZONE_MODE"


class GetRouteInfo(TopicName, kw_only=True):
    """Zone mode comes from fields that a client hook adds to any request."""

    accept_standard_json_only: bool | None = None
    zone_name: str | None = msgspec.field(default=None, name=ZONE_NAME)
    zone_mode: bool | None = msgspec.field(default=None, name=ZONE_MODE)


class RegisterBroker(Header, kw_only=True):
    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str = ""
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0
    zone_name: str | None = msgspec.field(default=None, name=ZONE_NAME)


class RegisterBrokerAnswer(Header, kw_only=True):
    """Both are for slaves only."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class RegisteredBroker(Header, kw_only=True):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class BrokerHeartbeat(Header, kw_only=True):
    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class GetBrokerMemberGroup(Header, kw_only=True):
    cluster_name: str
    broker_name: str


class QueryDataVersionAnswer(Header, kw_only=True):
    changed: bool  # the broker must register in full


class GetTopicsByCluster(Header, kw_only=True):
    cluster: str


class DeleteTopicInNamesrv(TopicName, kw_only=True):
    cluster_name: str | None = None  # only this cluster's brokers lose the topic


class BrokerName(Header, kw_only=True):
    broker_name: str


class WipeWritePermAnswer(Header, kw_only=True):
    wipe_topic_count: Int32


class AddWritePermAnswer(Header, kw_only=True):
    add_topic_count: Int32


class KvNamespace(Header, kw_only=True):
    namespace: str


class KvKey(KvNamespace, kw_only=True):
    key: str


class PutKvConfig(KvKey, kw_only=True):
    value: str


class GetKvConfigAnswer(Header, kw_only=True):
    value: str | None = None


class NotifyMinBrokerIdChange(Header, kw_only=True):
    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
