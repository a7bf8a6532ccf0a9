"""The broker and its name servers: registration, and topics that a send has made told to the other brokers."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ...protocol.bodies.topics import TopicConfig
from ...protocol.frame import FrameLimits
from ...transport.address import format_address
from ...transport.client import Client, Connect
from ...transport.limits import Limits
from ...transport.peer import Peer
from ...transport.settings import TransportSettings
from ..metadata.topic_propagation import Spread
from ..registration import Identity, Picture, Registration
from .ground import Ground
from .tables import Tables


class Naming:
    """Event loop only. `begin` once the broker listens."""

    def __init__(self, ground: Ground, tables: Tables, transport: TransportSettings, connect: Connect | None) -> None:
        self._ground = ground
        self._tables = tables
        self._client = Client(
            clock=ground.clock,
            rng=ground.rng,
            limits=Limits(connections=ground.budget.shares.outgoing),
            tls=transport.client_tls(),
            connect=connect,
            on_close=self._lost,
        )
        self.registration: Registration | None = None
        self._spread: Spread | None = None
        self._frame_bytes = min(transport.frame_max_length, FrameLimits().frame_bytes)  # name servers have the default
        self.address = ""

    def begin(self, port: int) -> None:
        config = self._ground.config
        self.address = format_address(config.advertised_host, port)
        identity = Identity(
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            address=self.address,
            ha_address=format_address(config.advertised_host, port + 1),
        )
        self.registration = Registration(
            self._client,
            self._ground.clock,
            identity,
            config.namesrv_addr,
            self._picture,
            period_s=config.register_name_server_period / 1000,
            timeout_s=config.register_broker_timeout_mills / 1000,
            frame_bytes=self._frame_bytes,
            order_topics=self._tables.topics.declare_ordered,
        )
        self._spread = Spread(self._client, identity, config.namesrv_addr)

    def own_address(self) -> str:
        return self.address

    def current(self) -> Registration | None:
        return self.registration

    def _picture(self) -> Picture:
        config, topics = self._ground.live.config, self._tables.topics
        return Picture(
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
        if self._spread is not None and self._ground.live.config.spread_auto_created_topics:
            self._spread(topic)

    def announce(self) -> None:
        """Something that name servers know has changed."""
        if self.registration is not None:
            self.registration.announce()

    def _lost(self, peer: Peer) -> None:
        if self.registration is not None:
            self.registration.lost(peer)

    # --- running --------------------------------------------------------------------------------------------------

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        if self.registration is None or not self._ground.config.namesrv_addr:
            return []
        return [self._ground.loops.keep("registration", self.registration.run)]

    async def farewell(self) -> None:
        """Clients look elsewhere from now on."""
        if self.registration is not None:
            await self.registration.farewell()

    async def close(self) -> None:
        if self._spread is not None:
            await self._spread.close()
        await self._client.close()
