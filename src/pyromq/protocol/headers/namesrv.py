"""What the name server is asked, and its answers' fields."""

from __future__ import annotations

import msgspec

from .header import Header, Int32, Int64, TopicHeader

ZONE_NAME = "__ZONE_NAME"
ZONE_MODE = "__ZONE_MODE"


class GetRouteInfo(TopicHeader, kw_only=True):
    """105. Zone mode comes from fields that a client hook adds to any request."""

    topic: str
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
    """103. Both for slaves only."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBroker(Header, kw_only=True):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class BrokerHeartbeat(Header, kw_only=True):
    """904, to the name server and to the controller."""

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


class QueryDataVersion(Header, kw_only=True):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionAnswer(Header, kw_only=True):
    """322. True: the broker must register in full."""

    changed: bool


class GetTopicsByCluster(Header, kw_only=True):
    cluster: str


class DeleteTopicInNamesrv(TopicHeader, kw_only=True):
    """216. With a cluster name only that cluster's brokers lose the topic."""

    topic: str
    cluster_name: str | None = None


class RegisterTopic(TopicHeader, kw_only=True):
    topic: str


class WipeWritePerm(Header, kw_only=True):
    broker_name: str


class WipeWritePermAnswer(Header, kw_only=True):
    wipe_topic_count: Int32


class AddWritePerm(Header, kw_only=True):
    broker_name: str


class AddWritePermAnswer(Header, kw_only=True):
    add_topic_count: Int32


class PutKvConfig(Header, kw_only=True):
    namespace: str
    key: str
    value: str


class GetKvConfig(Header, kw_only=True):
    namespace: str
    key: str


class GetKvConfigAnswer(Header, kw_only=True):
    value: str | None = None


class DeleteKvConfig(Header, kw_only=True):
    namespace: str
    key: str


class GetKvList(Header, kw_only=True):
    namespace: str


class NotifyMinBrokerIdChange(Header, kw_only=True):
    """905, from the name server to the brokers of one name."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
