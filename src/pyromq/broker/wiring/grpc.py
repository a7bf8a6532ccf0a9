"""The gRPC endpoint of the broker: its backend is the broker's own dispatcher, asked without frames."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Any

from ...errors import CallTimedOut
from ...model import names
from ...model.topic import MASTER_ID
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...protocol.bodies.heartbeat import HeartbeatData
from ...protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from ...protocol.command import Command
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Code
from ...protocol.headers.clients import UnregisterClient
from ...protocol.headers.header import Header
from ...protocol.requests import RequestCode
from ...protocol.row import Row
from ...proxy.clients.peers import CallPeer
from ...proxy.config import ProxySettings
from ...proxy.methods import methods
from ...proxy.services import Services
from ...proxy.statuses import Denied, no_route, refused
from ...transport.dispatch import Dispatcher, Request, await_answer
from ...transport.peer import Peer
from ..config import BrokerConfig
from ..metadata.attributes import MESSAGE_TYPE
from ..replication.slave_surface import REFUSED
from .foundation import Foundation

_REGISTER_S = 5.0
NORMAL = "NORMAL"  # a topic that names no type


class LocalBackend:
    """Event loop only. `lost` forgets what waits for a peer; `grpc_port` is known once the port is bound.

    `master` says, on a slave, who serves instead. A client that asks a slave for a route would go on to send to it, so
    it is told there."""

    def __init__(
        self,
        base: Foundation,
        dispatch: Dispatcher,
        lost: Callable[[Peer], None],
        settings: ProxySettings,
        master: Callable[[], str | None] | None,
    ) -> None:
        self._base = base
        self._dispatch = dispatch
        self._lost = lost
        self._settings = settings
        self._master = master
        self.grpc_port = 0

    def _check_master(self) -> None:
        if self._master is not None:
            where = self._master() or "away"
            text = f"this broker is a slave: use the gRPC endpoint of its master, which is {where}"
            raise Denied(Code.HA_NOT_AVAILABLE, text)

    # --- requests -------------------------------------------------------------------------------------------------

    async def call(
        self,
        broker: str,
        row: Row[Any, Any, Any, Any],
        header: Header | None = None,
        body: bytes = b"",
        *,
        peer: Peer,
        timeout_s: float,
    ) -> Command:
        """Ask this broker. Denied if another one is named, CallTimedOut if no answer comes."""
        own = self._base.live.config.broker_name
        if broker not in ("", own):
            raise refused(Code.INVALID_RECEIPT_HANDLE, f"cannot find broker {broker}")
        if row in REFUSED:
            self._check_master()
        return await self._ask(row, {} if header is None else header.to_fields(), body, peer, timeout_s)

    async def _ask(
        self, row: Row[Any, Any, Any, Any], fields: dict[str, str], body: bytes, peer: Peer, timeout_s: float
    ) -> Command:
        command = Command(code=row.code, fields=fields, body=body, language=peer.language)
        request = Request(command, peer, self._base.clock.monotonic())
        if isinstance(peer, CallPeer):  # what the endpoint asks for by itself it may
            request.principal, request.rights = peer.principal, peer.rights
        answer = self._dispatch(request)
        if answer is not None:
            reply = await await_answer(answer)
            if reply is not None:
                return reply.to_command(command)
        if not isinstance(peer, CallPeer):
            raise CallTimedOut(f"request {row.name} is not answered")
        try:
            async with self._base.clock.timeout(timeout_s):
                return await peer.answer
        except TimeoutError:
            raise CallTimedOut(f"the broker does not answer {row.name} within {timeout_s:g} s") from None

    def is_away(self, broker: str) -> bool:
        return False

    def gone(self, peer: Peer) -> None:
        self._lost(peer)

    async def register(self, peer: Peer, beat: HeartbeatData) -> Command:
        row = RequestCode.HEART_BEAT
        return await self._ask(row, {}, row.takes.write_body(beat), peer, _REGISTER_S)

    def renew(self, peer: Peer) -> bool:
        now, now_ms = self._base.clock.monotonic(), self._base.clock.now_ms()
        is_consumer, is_producer = self._base.consumers.renew(peer, now), self._base.producers.renew(peer, now, now_ms)
        return is_consumer or is_producer

    async def unregister(self, peer: Peer, client_id: str, groups: list[str], topics: list[str]) -> None:
        pairs: list[tuple[str | None, str | None]] = [(None, group) for group in groups]
        pairs += [(topic, None) for topic in topics]
        for topic, group in pairs:
            header = UnregisterClient(client_id=client_id, producer_group=topic, consumer_group=group)
            await self._ask(RequestCode.UNREGISTER_CLIENT, header.to_fields(), b"", peer, _REGISTER_S)

    # --- what is known of topics and groups -----------------------------------------------------------------------

    async def route(self, topic: str) -> TopicRouteData:
        return self.own_route(topic)

    def own_route(self, topic: str) -> TopicRouteData:
        """Return the topic's queues of this broker alone. Denied if there is no such topic, or a master elsewhere."""
        self._check_master()
        found = self._base.topics.find(topic)
        if found is None:
            raise no_route(topic)
        config = self._base.live.config
        name = config.broker_name
        queue = QueueData(
            broker_name=name,
            perm=found.perm & config.broker_permission,
            read_queue_nums=found.read_queue_nums,
            write_queue_nums=found.write_queue_nums,
            topic_sys_flag=found.topic_sys_flag,
        )
        address = {MASTER_ID: self._base.environment.address}
        broker = BrokerData(broker_name=name, broker_addrs=address, cluster=config.broker_cluster_name)
        return TopicRouteData(queue_datas=[queue], broker_datas=[broker])

    async def topic_type(self, topic: str) -> str | None:
        return self.own_type(topic)

    def own_type(self, topic: str) -> str | None:
        found = self._base.topics.find(topic)
        return None if found is None else found.attributes.get(MESSAGE_TYPE, NORMAL)

    async def group(self, name: str) -> SubscriptionGroupConfig | None:
        return self._base.groups.find(name)

    def is_system_topic(self, topic: str) -> bool:
        config = self._base.live.config
        return names.is_system_topic(topic) or topic in (config.broker_name, config.broker_cluster_name)

    def endpoints(self, asked: v2.Endpoints) -> v2.Endpoints:
        """Return the address that this broker advertises, or what was asked with where ports are mapped."""
        if self._settings.use_endpoint_port_from_request and asked.addresses:
            return asked
        host = self._base.live.config.advertised_host
        return v2.Endpoints(scheme=scheme_of(host), addresses=[v2.Address(host=host.strip("[]"), port=self.grpc_port)])


class GrpcParts:
    """The endpoint's services over this broker. Event loop only."""

    def __init__(
        self,
        base: Foundation,
        dispatch: Dispatcher,
        lost: Callable[[Peer], None],
        master: Callable[[], str | None] | None = None,
    ) -> None:
        settings = base.environment.config.part(ProxySettings)
        self.backend = LocalBackend(base, dispatch, lost, settings, master)
        self.services = Services(self.backend, settings, base.clock, base.environment.rng, base.access.gate)
        self.methods = methods(self.services)
        self._base = base
        base.groups.watch(self._group_changed)
        base.topics.watch(self._topic_changed)
        base.live.watch(self._settings_changed)

    def _group_changed(self, name: str) -> None:
        if name not in self._base.groups:
            self._expire_members(name)

    def _topic_changed(self, topic: str) -> None:
        if names.is_retry(topic) and self._base.topics.find(topic) is None:
            self._expire_members(topic.removeprefix(names.RETRY_PREFIX))

    def _expire_members(self, group: str) -> None:
        """Have the next heartbeats of a group's members make again what was deleted, as whole ones do."""
        found = self._base.consumers.find(group)
        for member in () if found is None else found.members.values():
            self.services.clients.expire(member.client_id)

    def _settings_changed(self, config: BrokerConfig) -> None:
        """Have all clients checked by the new ones."""
        for client in self.services.clients:
            self.services.clients.expire(client.client_id)

    async def close(self) -> None:
        """Give back what clients hold."""
        await self.services.close()


def scheme_of(host: str) -> v2.AddressScheme:
    if ":" in host:
        return v2.AddressScheme.IPv6
    try:
        return v2.AddressScheme.IPv4 if IPv4Address(host) else v2.AddressScheme.DOMAIN_NAME
    except ValueError:
        return v2.AddressScheme.DOMAIN_NAME
