"""The broker and its name servers: registration, and topics that a send has made propagated to the other brokers."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ...protocol.bodies.topics import TopicConfig
from ...protocol.frame import FrameLimits
from ...transport.address import format_address
from ...transport.client import Connect, RemotingClient
from ...transport.limits import Limits
from ...transport.peer import Peer
from ..metadata.topic_propagation import TopicPropagation
from ..registration import BrokerRegistration, Identity, RegistrationFacts
from .environment import Environment
from .tables import Tables


class Naming:
    """Event loop only."""

    def __init__(self, environment: Environment, tables: Tables, connect: Connect | None) -> None:
        config = environment.config
        self._environment = environment
        self._tables = tables
        self._client = RemotingClient(
            clock=environment.clock,
            rng=environment.rng,
            limits=Limits(connections=environment.budget.shares.outgoing),
            tls=environment.transport.client_tls(),
            connect=connect,
            on_close=self._lost,
        )
        identity = Identity(
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            address=environment.address,
            ha_address=format_address(config.advertised_host, environment.port + 1),
        )
        self.registration = BrokerRegistration(
            self._client,
            environment.clock,
            identity,
            config.namesrv_addr,
            self._facts,
            period_s=config.register_name_server_period / 1000,
            timeout_s=config.register_broker_timeout_mills / 1000,
            # Name servers have the default.
            frame_bytes=min(environment.transport.frame_max_length, FrameLimits().frame_bytes),
            order_topics=tables.topics.declare_ordered,
        )
        self._propagation = TopicPropagation(self._client, identity, config.namesrv_addr)

    def _facts(self) -> RegistrationFacts:
        config, topics = self._environment.live.config, self._tables.topics
        return RegistrationFacts(
            topics.version,
            topics.all(),
            config.broker_permission,
            config.compressed_register,
            config.enable_split_registration,
            config.split_registration_size,
        )

    # --- what happens ---------------------------------------------------------------------------------------------

    def auto_created(self, topic: TopicConfig) -> None:
        self._tables.new_topics.made(topic.topic_name)
        if self._environment.live.config.spread_auto_created_topics:
            self._propagation.begin(topic)

    def announce(self) -> None:
        """Register again soon: something that name servers know has changed."""
        self.registration.announce()

    def _lost(self, peer: Peer) -> None:
        self.registration.lost(peer)

    # --- running --------------------------------------------------------------------------------------------------

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        if not self._environment.config.namesrv_addr:
            return []
        return [self._environment.loops.keep("registration", self.registration.run)]

    async def unregister(self) -> None:
        """Let clients look elsewhere from now on."""
        await self.registration.unregister()

    async def close(self) -> None:
        await self._propagation.close()
        await self._client.close()
