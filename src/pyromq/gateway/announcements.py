"""What this gateway tells the others of its own consumers: gRPC clients, and remoting clients that pass through."""

from __future__ import annotations

from google.protobuf import json_format

from ..ambient import Clock
from ..protocol.bodies.body import encode_body
from ..protocol.bodies.heartbeat import ConsumerData
from ..protocol.bodies.proxies import (
    GRPC,
    REGISTER,
    REMOTING,
    UNREGISTER,
    HeartbeatSyncerData,
    RemoteChannelData,
)
from ..protocol.grpc import v2
from ..proxy.clients.grpc_client import GrpcClient
from ..transport.peer import Peer
from .members import GatewayMember, GatewayMembers
from .syncer import HeartbeatSyncer


class ClientAnnouncements:
    """Event loop only. `host` and the addresses of our ports are set once they are known."""

    def __init__(self, members: GatewayMembers, syncer: HeartbeatSyncer | None, clock: Clock) -> None:
        self._members, self._syncer, self._clock = members, syncer, clock
        self._settings: dict[str, tuple[bytes, str]] = {}  # by client: what was written last, as JSON
        self._passing: dict[Peer, dict[str, tuple[str, ConsumerData]]] = {}  # remoting: client and data by group
        self.host = ""
        self.grpc_address = self.remoting_address = ""

    # --- gRPC clients -----------------------------------------------------------------------------------------------

    def alive(self, client: GrpcClient) -> None:
        """Note a sign of life of a client."""
        peer, text = client.peer, self._json(client) if client.consumes else ""
        language = "OTHER" if peer.language is None else peer.language.name
        for data in (one.data for one in client.consumes):
            proxy = self._syncer.proxy_id if self._syncer is not None else ""
            self._members.add_own(
                GatewayMember(client.client_id, data, language, peer.version, peer.address, proxy, settings=text)
            )
            self._announce(REGISTER, client.client_id, data.group_name, data, peer, GRPC, text)

    def ended(self, client: GrpcClient) -> None:
        """Note that a client has gone."""
        text = self._settings.pop(client.client_id, (None, ""))[1]
        groups = [one.group for one in client.consumes]
        self._members.remove_own(client.client_id, groups)
        for group in groups:
            self._announce(UNREGISTER, client.client_id, group, None, client.peer, GRPC, text)

    def _json(self, client: GrpcClient) -> str:
        known = self._settings.get(client.client_id)
        if known is None or known[0] != client.said:
            text = json_format.MessageToJson(v2.Settings.FromString(client.said), indent=None)
            known = self._settings[client.client_id] = client.said, text
        return known[1]

    # --- remoting clients -------------------------------------------------------------------------------------------

    def passed(self, peer: Peer, client_id: str, consumers: list[ConsumerData], *, without_subscriptions: bool) -> None:
        """Note a heartbeat that went on to the brokers."""
        groups = self._passing.setdefault(peer, {})
        for data in consumers:
            if without_subscriptions and data.group_name in groups:
                data = groups[data.group_name][1]
            groups[data.group_name] = client_id, data
            self._announce(REGISTER, client_id, data.group_name, data, peer, REMOTING, _subscriptions(data))

    def left(self, peer: Peer, group: str | None = None) -> None:
        """Note the farewell of a client: from one group, or from all."""
        groups = self._passing.get(peer, {})
        for each in list(groups) if group is None else [group]:
            client_id, data = groups.pop(each, ("", None))
            if data is not None:
                self._announce(UNREGISTER, client_id, each, None, peer, REMOTING, _subscriptions(data))
        if not groups:
            self._passing.pop(peer, None)

    # --- both -------------------------------------------------------------------------------------------------------

    def _announce(
        self, kind: str, client_id: str, group: str, data: ConsumerData | None, peer: Peer, way: str, attribute: str
    ) -> None:
        if self._syncer is None:
            return
        channel = RemoteChannelData(
            extend_attribute=attribute or None,
            local_address=self.grpc_address if way == GRPC else self.remoting_address,
            remote_address=peer.address,
            remote_proxy_ip=self.host,
            type=way,
        )
        told = HeartbeatSyncerData(
            channel_data=encode_body(channel).decode(),
            client_id=client_id,
            group=group,
            heartbeat_type=kind,
            language="OTHER" if peer.language is None else peer.language.name,
            last_update_timestamp=self._clock.now_ms(),
            local_proxy_id=self._syncer.proxy_id,
            version=peer.version or 0,
        )
        if data is not None:
            told.consume_from_where, told.consume_type = data.consume_from_where, data.consume_type
            told.message_model, told.subscription_data_set = data.message_model, data.subscription_data_set
        self._syncer.announce(told)


def _subscriptions(data: ConsumerData) -> str:
    return encode_body(data.subscription_data_set).decode()
