"""The broker and its name servers: registration, and topics that a send has made propagated to the other brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import msgspec

from ...access.sharing.calls import user_sharing
from ...errors import CallRefused, ConnectionLost, PyroError
from ...model.codes import ResponseCode
from ...protocol.bodies.body import DataVersion, decode_body
from ...protocol.bodies.route import TopicRouteData
from ...protocol.bodies.topics import TopicConfig
from ...protocol.command import Command
from ...protocol.frame import FrameLimits
from ...protocol.headers.namesrv import GetRouteInfo
from ...protocol.json import ANSWER_LIMITS
from ...protocol.requests import RequestCode
from ...transport.address import format_address
from ...transport.client import Connect, RemotingClient
from ...transport.limits import Limits
from ...transport.peer import Peer
from ..metadata.topic_propagation import TopicPropagation
from ..registration import BrokerRegistration, Identity, RegistrationFacts
from ..replication.members import slaves_known
from .foundation import Foundation

ROUTE_TIMEOUT_S = 3.0
BEFORE_FIRST_S = 3.0


class Naming:
    """Event loop only."""

    def __init__(self, base: Foundation, connect: Connect | None, ha_port: int) -> None:
        """`ha_port`: where slaves connect; 0: nowhere."""
        self._base = base
        environment, config = base.environment, base.environment.config
        self._connect = connect
        self._client = self.client(lambda peer: self.registration.lost(peer))
        # What a master does before its first registration, which brings clients.
        self.before_first: Callable[[RemotingClient, Identity], Awaitable[None]] | None = None
        self.identity = identity = Identity(
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            address=environment.address,
            ha_address=format_address(config.advertised_host, ha_port or environment.port + 1),
            broker_id=config.replication.broker_id,
        )
        self.registration = BrokerRegistration(
            self._client,
            environment.clock,
            identity,
            config.namesrv_addr,
            self._facts,
            rng=environment.rng,
            period_s=config.register_name_server_period / 1000,
            timeout_s=config.register_broker_timeout_mills / 1000,
            # Name servers have the default.
            frame_bytes=min(environment.transport.frame_max_length, FrameLimits().frame_bytes),
            order_topics=base.topics.declare_ordered,
        )
        access = base.access
        self.users_shared = (
            None
            if access.gate is None or (environment.tables_in_log and environment.is_slave)
            else user_sharing(access.admin, self._client, self._others, environment.rng, environment.clock)
        )
        self._propagation = TopicPropagation(self._client, identity, config.namesrv_addr)

    def client(self, on_close: Callable[[Peer], None] | None = None) -> RemotingClient:
        """Return a client of its own, for requests to name servers and brokers."""
        environment = self._base.environment
        return RemotingClient(
            clock=environment.clock,
            rng=environment.rng,
            limits=Limits(connections=environment.budget.shares.outgoing),
            tls=environment.transport.client_tls(),
            connect=self._connect,
            on_close=on_close,
            sign=self._base.access.sign,
        )

    def _facts(self) -> RegistrationFacts:
        config, topics = self._base.live.config, self._base.topics
        return RegistrationFacts(
            self._version(),
            topics.all(),
            config.broker_permission,
            config.compressed_register,
            config.enable_split_registration,
            config.split_registration_size,
        )

    def _version(self) -> DataVersion:
        """Return the version of the topics. In an elected set its epoch comes first: an older master's counts less."""
        version, role = self._base.topics.version, self._base.environment.elected
        if role is None or not role.epochs.entries:
            return version
        return msgspec.structs.replace(version, state_version=role.epochs.newest)

    def auto_created(self, topic: TopicConfig) -> None:
        self._base.tables.new_topics.made(topic.topic_name)
        if self._base.live.config.spread_auto_created_topics:
            self._propagation.begin(topic)

    async def slaves(self) -> list[str]:
        """Return the addresses of the other brokers of this name that name servers know."""
        return await slaves_known(self._client, self._base.environment.config.namesrv_addr, self.identity)

    async def route(self, topic: str) -> TopicRouteData | None:
        """Return a topic's route; None: the name servers do not know the topic. PyroError: none of them answers."""
        fault: PyroError = ConnectionLost("no name server is named (namesrvAddr)")
        wanted = GetRouteInfo(topic=topic, accept_standard_json_only=True)
        ask = Command(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, fields=wanted.to_fields())
        for address in self._base.environment.config.namesrv_addr:
            try:
                answer = await self._client.call(address, ask, ROUTE_TIMEOUT_S)
            except PyroError as failure:
                fault = failure
                continue
            if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            if answer.code == ResponseCode.SUCCESS:
                return decode_body(TopicRouteData, answer.body, ANSWER_LIMITS)
            fault = CallRefused(answer.code, answer.remark, address)
        raise fault

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        environment = self._base.environment
        if not environment.config.namesrv_addr:
            return []
        users = [] if self.users_shared is None else [environment.loops.keep("users told", self.users_shared.run)]
        return [environment.loops.keep("registration", self._register), *users]

    async def _others(self) -> list[str]:
        """Return the addresses of all name servers and controllers, and of all brokers that the first name server that
        answers knows."""
        await self._base.access.table.saved()  # what an elected set can still lose is told to nobody
        config = self._base.environment.config
        name_servers, controllers = list(config.namesrv_addr), config.controller_mode.controller_addr
        row = RequestCode.GET_BROKER_CLUSTER_INFO
        for name_server in name_servers:
            with suppress(PyroError):
                answer = await self._client.call(name_server, Command(code=row.code), ROUTE_TIMEOUT_S)
                if answer.code == ResponseCode.SUCCESS:
                    known = row.gives.read_body(answer.body, ANSWER_LIMITS).broker_addr_table.values()
                    brokers = {address for one in known for address in one.broker_addrs.values()}
                    return [*name_servers, *controllers, *sorted(brokers - {self.identity.address})]
        return [*name_servers, *controllers]

    async def _register(self) -> None:
        act, self.before_first = self.before_first, None
        if act is not None:
            # Not over the registration's connections: a name server that is not there is not left alone by it.
            async with self.client() as client:
                with suppress(TimeoutError):
                    async with self._base.clock.timeout(BEFORE_FIRST_S):
                        await act(client, self.identity)
        await self.registration.run()

    async def close(self) -> None:
        await self._propagation.close()
        await self._client.close()
