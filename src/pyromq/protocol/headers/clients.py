"""Clients: heartbeats, membership of groups, and calls that the broker relays to a client."""

from __future__ import annotations

import msgspec

from .header import ConsumerGroupName, Header, Int32, RpcHeader, TopicHeader

COUNTED_USER = "pyromqCountedUser"  # of a gateway's request: whose use of the broker it is; our own servers' alone


class HeartbeatAnswer(Header, kw_only=True):  # of 5.x; 4.9 answers without fields
    is_support_heart_beat_v2: bool | None = msgspec.field(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    is_sub_change: bool | None = msgspec.field(default=None, name="IS_SUB_CHANGE")


class UnregisterClient(RpcHeader, kw_only=True):
    client_id: str = msgspec.field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GetProducerConnectionList(RpcHeader, kw_only=True):
    producer_group: str


class GetConsumerRunningInfo(ConsumerGroupName, kw_only=True):
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectly(TopicHeader, kw_only=True):
    """309, relayed to the client with the message as body; the broker adds its name and the flags."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
