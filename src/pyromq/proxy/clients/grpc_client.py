"""One gRPC client: who it is, what it said last, and what that is to a broker."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from ...access.rights import EVERYTHING, Rights
from ...ambient import Timer
from ...model.group import ConsumeFromWhere, ConsumeType, MessageModel
from ...protocol.access import Action, Resource
from ...protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import ClientType
from ...transport.http2.calls import Call
from ..messages.filters import subscription_data
from .peers import ClientPeer

CONSUMERS = (ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER)


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
    fresh_until: float = -inf  # a broker knows all of it; -inf: it is no member of its groups
    stream: Call | None = None  # of telemetry: the newest is the one that commands go to
    rights: Rights = EVERYTHING  # of who has opened it: anybody may say that he is this client
    nonces: dict[str, asyncio.Future[v2.TelemetryCommand]] | None = None  # of questions that are not answered yet
    grace: Timer | None = None

    @property
    def client_id(self) -> str:
        return self.peer.client_id

    def may_see(self, topic: str, *actions: Action) -> bool:
        """Tell whether there is a stream, whose user may do one of these actions with messages of a topic."""
        return self.stream is not None and self.rights.may(Resource.TOPIC, topic, *actions)

    def note(self, settings: v2.Settings, topics: frozenset[str], consumes: tuple[Consumes, ...]) -> None:
        """Keep what new settings say."""
        self.type = client_type(settings)
        self.group = sys.intern(settings.subscription.group.name)
        newest = consumes[-1] if consumes and settings.HasField("subscription") else None
        self.said = settings.SerializeToString() if newest is None else newest.settings
        self.request_timeout_ms = settings.request_timeout.ToMilliseconds()
        self.topics, self.consumes = topics, consumes


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
