"""What proxies tell each other of their consumers, in messages of a topic (Java's HeartbeatSyncer)."""

from __future__ import annotations

from ...model.group import ConsumeFromWhere, ConsumeType, MessageModel
from ..ints import Int32, Int64
from .body import Body, always
from .heartbeat import SubscriptionData

REGISTER, UNREGISTER = "REGISTER", "UNREGISTER"
GRPC, REMOTING = "GRPC_V2", "REMOTING"


class HeartbeatSyncerData(Body, kw_only=True):
    """One consumer of one group at one proxy. A farewell says nothing of how it consumes."""

    channel_data: str | None = None  # RemoteChannelData, as text
    client_id: str
    consume_from_where: ConsumeFromWhere | None = None
    consume_type: ConsumeType | None = None
    group: str
    heartbeat_type: str
    language: str | None = None
    last_update_timestamp: Int64 = always(0)
    local_proxy_id: str
    message_model: MessageModel | None = None
    subscription_data_set: list[SubscriptionData] | None = None
    version: Int32 = always(0)


class RemoteChannelData(Body, kw_only=True):
    """Where the consumer is connected. `extend_attribute`: its settings as JSON of protobuf, or its subscriptions."""

    extend_attribute: str | None = None
    local_address: str | None = None
    remote_address: str | None = None
    remote_proxy_ip: str | None = None
    type: str | None = None
