"""The consumers of gateways: gRPC clients of this one, and clients of others, which these have told of.

Brokers know clients that speak remoting to them, through a gateway too; of gRPC clients they know nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..protocol.bodies.body import decode_body
from ..protocol.bodies.connections import ClientConnection, ConsumerConnection
from ..protocol.bodies.heartbeat import ConsumerData
from ..protocol.bodies.proxies import GRPC, REGISTER, HeartbeatSyncerData, RemoteChannelData

MOST_OTHERS = 200_000  # members of other gateways: anybody may write to their topic


@dataclass(frozen=True, slots=True)
class GatewayMember:
    """One client in one group. `settings`: of a gRPC client, as JSON; "" where nobody told them."""

    client_id: str
    data: ConsumerData
    language: str
    version: int
    address: str
    proxy: str
    settings: str = ""
    seen: float = 0.0  # monotonic

    def connection(self) -> ClientConnection:
        return ClientConnection(
            client_addr=self.address, client_id=self.client_id, language=self.language, version=self.version
        )


@dataclass(eq=False, slots=True)
class GatewayMembers:
    """Event loop only."""

    own: dict[str, dict[str, GatewayMember]] = field(default_factory=dict)  # by group and client
    others: dict[str, dict[str, GatewayMember]] = field(default_factory=dict)
    _settings: dict[str, str] = field(default_factory=dict)  # by client of another gateway
    _count: int = 0

    def of(self, group: str) -> dict[str, GatewayMember]:
        """Return the members of a group by client."""
        return self.others.get(group, {}) | self.own.get(group, {})

    def settings_elsewhere(self, client_id: str) -> str:
        """Return the settings that another gateway has of a client; "" if none does."""
        return self._settings.get(client_id, "")

    # --- own ------------------------------------------------------------------------------------------------------

    def add_own(self, member: GatewayMember) -> None:
        self.own.setdefault(member.data.group_name, {})[member.client_id] = member

    def remove_own(self, client_id: str, groups: Iterable[str]) -> None:
        for group in groups:
            _drop(self.own, group, client_id)

    # --- what other gateways tell -----------------------------------------------------------------------------------

    def take(self, told: HeartbeatSyncerData, now: float) -> None:
        """Take what another gateway says of a client. Malformed, if it says where in a way that cannot be read."""
        known = self.others.get(told.group, {}).get(told.client_id)
        if told.heartbeat_type != REGISTER:
            if known is not None and known.proxy == told.local_proxy_id:  # else it has moved meanwhile
                self._remove_other(known)
            return
        if known is None:
            if self._count >= MOST_OTHERS:
                return
            self._count += 1
        member = _member(told, now)
        self.others.setdefault(told.group, {})[told.client_id] = member
        if member.settings:
            self._settings[told.client_id] = member.settings

    def expire(self, seen_before: float) -> None:
        """Forget clients of others of which nothing was heard since."""
        silent = [one for group in self.others.values() for one in group.values() if one.seen < seen_before]
        for one in silent:
            self._remove_other(one)

    def _remove_other(self, member: GatewayMember) -> None:
        _drop(self.others, member.data.group_name, member.client_id)
        self._settings.pop(member.client_id, None)
        self._count -= 1


def connection_of(members: Iterable[GatewayMember], shown: ConsumerConnection | None) -> ConsumerConnection:
    """Return what a broker shows of a group, if it knows any members, with these besides."""
    found = shown or ConsumerConnection()
    known = {one.client_id for one in found.connection_set}
    for member in members:
        data = member.data
        if member.client_id not in known:
            found.connection_set.append(member.connection())
        found.consume_type = found.consume_type or data.consume_type
        found.message_model = found.message_model or data.message_model
        found.consume_from_where = found.consume_from_where or data.consume_from_where
        for one in data.subscription_data_set:
            found.subscription_table.setdefault(one.topic, one)
    return found


def _member(told: HeartbeatSyncerData, now: float) -> GatewayMember:
    channel = RemoteChannelData()
    if told.channel_data:
        channel = decode_body(RemoteChannelData, told.channel_data.encode())
    given = {
        "consume_type": told.consume_type,
        "message_model": told.message_model,
        "consume_from_where": told.consume_from_where,
    }
    data = ConsumerData(
        group_name=told.group,
        subscription_data_set=told.subscription_data_set or [],
        **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
    )
    return GatewayMember(
        client_id=told.client_id,
        data=data,
        language=told.language or "OTHER",
        version=told.version,
        address=channel.remote_address or "",
        proxy=told.local_proxy_id,
        settings=channel.extend_attribute or "" if channel.type == GRPC else "",
        seen=now,
    )


def _drop(table: dict[str, dict[str, GatewayMember]], group: str, client_id: str) -> None:
    members = table.get(group, {})
    members.pop(client_id, None)
    if not members:
        table.pop(group, None)
