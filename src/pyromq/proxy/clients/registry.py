"""The clients of this endpoint: their settings, their telemetry streams, and their registration with the backend.

A client exists from its first settings until it says goodbye or the backend finds it silent. The end of its stream
alone ends nothing, since clients open another one; only what it holds is given back if none comes (`on_stream_lost`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from ...ambient import Clock, Timer
from ...errors import CallTimedOut
from ...model.group import ConsumeFromWhere, ConsumeType, MessageModel
from ...protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from ...protocol.command import Command
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import ClientType, Code
from ...transport.http2.calls import Call
from ..backend import Backend
from ..calls import CLIENT_ID, Caller
from ..messages.filters import subscription_data
from ..statuses import Denied, from_broker
from .peers import ClientPeer

NO_SETTINGS = "cannot find client settings for this client"
CONSUMERS = (ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER)
WHOLE_AGAIN_S = 60.0  # a heartbeat says only that the client is there; so often all that it said before is looked at
SETTINGS_WITHIN_S = 1.0  # a receive may come before the settings of a client that has just reconnected


class Consumes(NamedTuple):
    """What a client consumes with one group, by the settings that said so, and since when (ms)."""

    group: str
    settings: bytes
    since: int

    @property
    def data(self) -> ConsumerData:
        """Return it as a broker hears it."""
        return consumer_data(v2.Settings.FromString(self.settings), self.since)


@dataclass(eq=False, slots=True)
class GrpcClient:
    """One client id. `said` are its last settings, as they came: thousands of clients are idle, and a parsed message
    takes ten times its bytes. Topics and groups are of all settings since its first."""

    peer: ClientPeer
    said: bytes = b""
    type: ClientType = ClientType.CLIENT_TYPE_UNSPECIFIED
    group: str = ""
    request_timeout_ms: int = 0
    topics: frozenset[str] = frozenset()
    consumes: tuple[Consumes, ...] = ()
    registered_at: float = -inf  # with all of it
    stream: Call | None = None  # of telemetry: the newest is the one that commands go to
    nonces: dict[str, asyncio.Future[v2.TelemetryCommand]] = field(default_factory=dict)
    grace: Timer | None = None

    @property
    def client_id(self) -> str:
        return self.peer.client_id

    def note(self, settings: v2.Settings, topics: frozenset[str], consumes: tuple[Consumes, ...]) -> None:
        """Keep what new settings say."""
        self.said = settings.SerializeToString()
        self.type = client_type(settings)
        self.group = settings.subscription.group.name
        self.request_timeout_ms = settings.request_timeout.ToMilliseconds()
        self.topics, self.consumes = topics, consumes


class Clients:
    """Event loop only. `gone` is called with a client whose messages are to be given back."""

    def __init__(self, backend: Backend, clock: Clock, gone: Callable[[GrpcClient], None], grace_s: float) -> None:
        self._backend = backend
        self._clock = clock
        self._gone = gone
        self._grace_s = grace_s
        self._by_id: dict[str, GrpcClient] = {}
        self._awaited: dict[str, asyncio.Event] = {}
        self._watchers: list[Callable[[str], None]] = []
        # Set by telemetry.py: what becomes of requests that servers send to a client.
        self.relay: Callable[[GrpcClient, Command, float], Awaitable[Command]] = _nobody
        self.notify: Callable[[GrpcClient, Command], None] = lambda client, command: None
        # Set by a gateway, which tells others of its clients, and hears of theirs.
        self.alive: Callable[[GrpcClient], None] = lambda client: None
        self.ended: Callable[[GrpcClient], None] = lambda client: None
        self.settings_elsewhere: Callable[[str], v2.Settings | None] = lambda client_id: None

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[GrpcClient]:
        return iter(list(self._by_id.values()))

    def watch(self, watcher: Callable[[str], None]) -> None:
        """Call `watcher` with the id of each client that changes: its settings, its stream, its end."""
        self._watchers.append(watcher)

    def _changed(self, client: GrpcClient) -> None:
        for watcher in self._watchers:
            watcher(client.client_id)

    def find(self, client_id: str) -> GrpcClient | None:
        return self._by_id.get(client_id)

    def known(self, client_id: str) -> GrpcClient:
        """Return a client. Denied (40015) if it sent no settings, here or elsewhere: it sends them then."""
        client = self._by_id.get(client_id) or self._elsewhere(client_id)
        if client is None:
            raise Denied(Code.UNRECOGNIZED_CLIENT_TYPE, NO_SETTINGS)
        return client

    def _elsewhere(self, client_id: str) -> GrpcClient | None:
        """Return a client whose stream is at another gateway, while calls of it come here."""
        settings = self.settings_elsewhere(client_id)
        if settings is None or not settings.HasField("subscription"):
            return None
        peer = ClientPeer(client_id, "", None, self._relayed, self._notified, self._closed)
        client = GrpcClient(peer)
        client.note(settings, frozenset(), (self._consumes(settings),))
        return client

    def _consumes(self, settings: v2.Settings) -> Consumes:
        return Consumes(settings.subscription.group.name, settings.SerializeToString(), self._clock.now_ms())

    async def awaited(self, client_id: str) -> GrpcClient:
        """Return a client whose settings are here or come within a moment. Denied (40015) if they do not."""
        if client_id not in self._by_id and self.settings_elsewhere(client_id) is None:
            event = self._awaited.setdefault(client_id, asyncio.Event())
            try:
                async with self._clock.timeout(SETTINGS_WITHIN_S):
                    await event.wait()
            except TimeoutError:
                pass
            finally:
                if self._awaited.get(client_id) is event:
                    del self._awaited[client_id]
        return self.known(client_id)

    # --- what clients say -----------------------------------------------------------------------------------------

    async def take_settings(self, caller: Caller, settings: v2.Settings, stream: Call | None) -> GrpcClient:
        """Register a client by checked settings. Denied if the backend does not take it."""
        client = self._by_id.get(caller.client_id)
        if client is None:
            peer = ClientPeer(
                caller.client_id, caller.remote, caller.language, self._relayed, self._notified, self._closed
            )
            client = GrpcClient(peer)
        else:
            client.peer.address, client.peer.language = caller.remote, caller.language
        topics, consumes = client.topics, client.consumes
        if settings.HasField("publishing"):
            topics |= {topic.name for topic in settings.publishing.topics}
        else:
            new = self._consumes(settings)
            consumes = (*(one for one in consumes if one.group != new.group), new)
        await self._register(client, topics, consumes)
        client.note(settings, topics, consumes)
        self._by_id[caller.client_id] = client
        self._changed(client)
        if stream is not None:
            self.attach(client, stream)
        if (event := self._awaited.get(caller.client_id)) is not None:
            event.set()
        self.alive(client)
        return client

    def is_renewed(self, client: GrpcClient) -> bool:
        """Take a heartbeat where nothing has changed; False: `renew` must look."""
        is_fresh = self._clock.monotonic() - client.registered_at < WHOLE_AGAIN_S
        return is_fresh and self._backend.renew(client.peer)

    async def renew(self, client: GrpcClient) -> None:
        """Take a heartbeat: the client is there with all that it said before. One from elsewhere is ours too then."""
        await self._register(client, client.topics, client.consumes)
        if self._by_id.setdefault(client.client_id, client) is client:
            self.alive(client)

    async def _register(self, client: GrpcClient, topics: frozenset[str], consumes: tuple[Consumes, ...]) -> None:
        beat = HeartbeatData(
            client_id=client.client_id,
            producer_data_set=[ProducerData(group_name=topic) for topic in sorted(topics)],
            consumer_data_set=[one.data for one in consumes],
        )
        now = self._clock.monotonic()
        answer = await self._backend.register(client.peer, beat)
        if answer.code != 0:
            raise from_broker(answer.code, answer.remark)
        client.registered_at = now

    async def terminate(self, client: GrpcClient) -> None:
        """Take a client's farewell: it is forgotten, and what it holds goes to others."""
        self._forget(client)
        client.peer.is_open = False
        groups, topics = [one.group for one in client.consumes], sorted(client.topics)
        await self._backend.unregister(client.peer, client.client_id, groups, topics)

    def _forget(self, client: GrpcClient) -> None:
        if self._by_id.get(client.client_id) is client:
            del self._by_id[client.client_id]
            self.ended(client)
        if client.grace is not None:
            client.grace.cancel()
            client.grace = None
        for waiter in client.nonces.values():
            waiter.cancel()
        self._changed(client)
        self._gone(client)

    def _closed(self, peer: ClientPeer, reason: str) -> None:
        client = self._by_id.get(peer.client_id)
        if client is not None and client.peer is peer:
            self._forget(client)

    # --- streams --------------------------------------------------------------------------------------------------

    def attach(self, client: GrpcClient, stream: Call) -> None:
        client.stream = stream
        if client.grace is not None:
            client.grace.cancel()
            client.grace = None

    def on_stream_lost(self, stream: Call) -> None:
        """Note that a stream has ended: unless another one comes soon, what the client holds is given back."""
        client = self._by_id.get(stream.metadata.get(CLIENT_ID, ""))
        if client is None or client.stream is not stream:
            return
        client.stream = None
        self._changed(client)
        if client.grace is None:
            client.grace = self._clock.call_later(self._grace_s, self._grace_over, client)

    def _grace_over(self, client: GrpcClient) -> None:
        client.grace = None
        if client.stream is None:
            self._gone(client)

    def with_stream(self, topic: str) -> GrpcClient | None:
        """Return a producer of the topic that can be asked now."""
        return next((one for one in self._by_id.values() if one.stream is not None and topic in one.topics), None)

    # --- what servers say -----------------------------------------------------------------------------------------

    def _notified(self, peer: ClientPeer, command: Command) -> None:
        client = self._by_id.get(peer.client_id)
        if client is not None:
            self.notify(client, command)

    async def _relayed(self, peer: ClientPeer, command: Command, timeout_s: float) -> Command:
        client = self._by_id.get(peer.client_id)
        if client is None:
            raise CallTimedOut(f"the client {peer.client_id} is not there")
        return await self.relay(client, command, timeout_s)


async def _nobody(client: GrpcClient, command: Command, timeout_s: float) -> Command:
    raise CallTimedOut(f"the client {client.client_id} cannot be asked")


def client_type(settings: v2.Settings) -> ClientType:
    try:
        return ClientType(settings.client_type)
    except ValueError:
        return ClientType.CLIENT_TYPE_UNSPECIFIED


def consumer_data(settings: v2.Settings, version: int) -> ConsumerData:
    """Return what a consumer's settings say to a broker. Denied (40010) for a filter that is none."""
    is_push = settings.client_type == ClientType.PUSH_CONSUMER
    subscription = settings.subscription
    wanted: list[SubscriptionData] = [
        subscription_data(entry.topic.name, entry.expression, version) for entry in subscription.subscriptions
    ]
    return ConsumerData(
        group_name=subscription.group.name,
        consume_type=ConsumeType.PASSIVELY if is_push else ConsumeType.ACTIVELY,
        message_model=MessageModel.CLUSTERING,
        consume_from_where=ConsumeFromWhere.LAST_OFFSET,
        subscription_data_set=wanted,
    )
