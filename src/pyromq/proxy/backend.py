"""The seam below the RPCs: something that answers remoting requests. The broker's own dispatcher, or a cluster."""

from __future__ import annotations

from typing import Any, Protocol

from ..protocol.bodies.groups import SubscriptionGroupConfig
from ..protocol.bodies.heartbeat import HeartbeatData
from ..protocol.bodies.route import TopicRouteData
from ..protocol.command import Command
from ..protocol.grpc import v2
from ..protocol.headers.header import Header
from ..protocol.row import Row
from ..transport.peer import Peer


class Backend(Protocol):
    """Event loop only. Calls raise CallFailed where nobody answers; refusals are answers, with their code."""

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
        """Ask a broker by its name, for `peer`, and return its answer. CallFailed, or Denied for no such broker."""

    def is_away(self, broker: str) -> bool:
        """Return whether a broker did not answer a moment ago: what may go elsewhere does."""

    def gone(self, peer: Peer) -> None:
        """Forget all that waits for a peer, which has given up."""

    async def route(self, topic: str) -> TopicRouteData:
        """Return where a topic's queues are. Denied (40402) if there is no such topic."""

    async def topic_type(self, topic: str) -> str | None:
        """Return the topic's `message.type`, NORMAL where it says none; None: there is no such topic."""

    async def group(self, name: str) -> SubscriptionGroupConfig | None: ...

    async def register(self, peer: Peer, beat: HeartbeatData) -> Command:
        """Take a client's heartbeat, with everything that it produces to and consumes."""

    def renew(self, peer: Peer) -> bool:
        """Take a heartbeat that says what the one before it said. False: it must be registered whole."""

    async def unregister(self, peer: Peer, client_id: str, groups: list[str], topics: list[str]) -> None:
        """Take a client's farewell: of the groups that it consumes with, and of the topics that it produces to."""

    def is_system_topic(self, topic: str) -> bool: ...

    def endpoints(self, asked: v2.Endpoints) -> v2.Endpoints:
        """Return where clients reach a broker of a route, given the addresses that they asked with."""
