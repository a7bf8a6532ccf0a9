"""The clients of this endpoint: their settings, their telemetry streams, and their registration with the backend.

A client exists from its first settings until it says goodbye or the backend finds it silent. The end of its stream
alone ends nothing, since clients open another one; only what it holds is given back if none comes (`on_stream_lost`).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from math import inf
from typing import Any

from ...access.rights import Rights
from ...ambient import Clock
from ...errors import CallTimedOut
from ...protocol.access import Action
from ...protocol.bodies.heartbeat import HeartbeatData, ProducerData
from ...protocol.command import Command
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Code
from ...transport.http2.calls import Call
from ..backend import Backend
from ..calls import CLIENT_ID, Caller
from ..statuses import Denied, from_broker
from .grpc_client import Consumes, GrpcClient
from .peers import ClientPeer
from .refusals import Refusals

NO_SETTINGS = "cannot find client settings for this client"
# A heartbeat says only that the client is there. All that it said before is looked at where something that it rests on
# is gone (`expire`), and so often: not by all clients that came together in one moment, whose passing objects would
# be Python's memory from then on.
WHOLE_AGAIN_S = 240.0, 480.0
_GOLDEN = 0.6180339887  # multiples of it, each less its whole part, lie evenly between 0 and 1
FORGOTTEN_S = 120.0  # without a word, after it has left its groups; as brokers wait for heartbeats
SETTINGS_WITHIN_S = 1.0  # a receive may come before the settings of a client that has just reconnected


class Clients:
    """Event loop only. `gone` is called with a client whose messages are to be given back."""

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        gone: Callable[[GrpcClient], None],
        grace_s: float,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._gone = gone
        self._grace_s = grace_s
        self._by_id: dict[str, GrpcClient] = {}
        self._looked_at = 0.0  # where between soonest and latest the last client is looked at whole again
        self._spawn = spawn
        self._refusals = Refusals(clock, lambda client: spawn(self.terminate(client)))
        self._awaited: dict[str, asyncio.Event] = {}
        self._watchers: list[Callable[[str], None]] = []
        self._answers = self._relayed, self._notified, self._closed  # one of each for all clients
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
        client = self._by_id.get(client_id) or self._refusals.find(client_id) or self._elsewhere(client_id)
        if client is None:
            raise Denied(Code.UNRECOGNIZED_CLIENT_TYPE, NO_SETTINGS)
        return client

    def _elsewhere(self, client_id: str) -> GrpcClient | None:
        """Return a client whose stream is at another gateway, while calls of it come here."""
        settings = self.settings_elsewhere(client_id)
        if settings is None or not settings.HasField("subscription"):
            return None
        client = GrpcClient(ClientPeer(client_id, "", None, *self._answers))
        client.note(settings, frozenset(), (self._consumes(settings),))
        return client

    def _consumes(self, settings: v2.Settings) -> Consumes:
        return Consumes(
            sys.intern(settings.subscription.group.name), settings.SerializeToString(), self._clock.now_ms()
        )

    async def awaited(self, client_id: str) -> GrpcClient:
        """Return a client whose settings are here or come within a moment.

        Denied if they do not (40015), or if its group does not take it (40300).
        """
        self._refusals.check(client_id)
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
        client = self._by_id.get(caller.client_id) or self._refusals.find(caller.client_id)
        if client is None:
            client_id = sys.intern(caller.client_id)  # other tables have it as well
            client = GrpcClient(ClientPeer(client_id, caller.remote, caller.language, *self._answers))
        else:
            client.peer.address, client.peer.language = caller.remote, caller.language
        topics, consumes = client.topics, client.consumes
        if settings.HasField("publishing"):
            topics |= {topic.name for topic in settings.publishing.topics}
        else:
            new = self._consumes(settings)
            consumes = (*(one for one in consumes if one.group != new.group), new)
        try:
            await self._register(client, topics, consumes)
        except Denied:
            if self._refusals.find(caller.client_id) is client:
                client.note(settings, topics, consumes)  # its heartbeats ask again
                if stream is not None:
                    self.attach(client, stream, caller.rights)
            raise
        client.note(settings, topics, consumes)
        self._by_id[client.client_id] = client
        self._changed(client)
        if stream is not None:
            self.attach(client, stream, caller.rights)
        if (event := self._awaited.get(caller.client_id)) is not None:
            event.set()
        self.alive(client)
        return client

    def is_renewed(self, client: GrpcClient) -> bool:
        """Take a heartbeat where nothing has changed; False: `renew` must look."""
        return self._clock.monotonic() < client.fresh_until and self._backend.renew(client.peer)

    def expire(self, client_id: str) -> None:
        """Look at a client whole when its next heartbeat comes."""
        client = self._by_id.get(client_id)
        if client is not None:
            client.fresh_until = min(client.fresh_until, 0.0)

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
            raise self._refused(client, answer)
        self._refusals.clear(client.client_id)
        self._looked_at = (self._looked_at + _GOLDEN) % 1
        soonest, latest = WHOLE_AGAIN_S
        client.fresh_until = now + soonest + (latest - soonest) * self._looked_at

    def _refused(self, client: GrpcClient, answer: Command) -> Denied:
        """Return a broker's refusal. A client whose group does not take it gets no messages until that agrees."""
        if not answer.body:
            return from_broker(answer.code, answer.remark)
        why = answer.remark or "its group does not take this client"
        client.fresh_until = -inf
        self._forget(client)
        self._refusals.note(client, why)
        return Denied(Code.FORBIDDEN, why)

    async def terminate(self, client: GrpcClient) -> None:
        """Take a client's farewell: it is forgotten, and what it holds goes to others."""
        self._forget(client)
        self._refusals.clear(client.client_id)
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
        for waiter in (client.nonces or {}).values():
            waiter.cancel()
        self._changed(client)
        self._gone(client)

    def _closed(self, peer: ClientPeer, reason: str) -> None:
        client = self._by_id.get(peer.client_id)
        if client is not None and client.peer is peer:
            self._forget(client)

    # --- streams --------------------------------------------------------------------------------------------------

    def attach(self, client: GrpcClient, stream: Call, rights: Rights) -> None:
        """Send a client's commands to this stream, as far as who has opened it may see what is in them."""
        client.stream, client.rights = stream, rights
        if client.grace is not None:
            client.grace.cancel()
            client.grace = None

    def on_stream_lost(self, stream: Call) -> None:
        """Note that a stream has ended: unless another one comes soon, what the client holds is given back."""
        client_id = stream.metadata.get(CLIENT_ID, "")
        client = self._by_id.get(client_id) or self._refusals.find(client_id)
        if client is None or client.stream is not stream:
            return
        client.stream = None
        self._changed(client)
        if client.grace is None:
            client.grace = self._clock.call_later(self._grace_s, self._grace_over, client)

    def _grace_over(self, client: GrpcClient) -> None:
        """Give back what a client holds that has no stream any more, and let it leave its groups: it may be dead.

        A heartbeat, or settings on another stream, let it join again.
        """
        client.grace = None
        if client.stream is None:
            self._gone(client)
            client.fresh_until = -inf
            groups = [one.group for one in client.consumes]
            self._spawn(self._backend.unregister(client.peer, client.client_id, groups, []))
            client.grace = self._clock.call_later(FORGOTTEN_S, self._silence_over, client)

    def _silence_over(self, client: GrpcClient) -> None:
        """Forget a client that has left its groups and was not heard of since. Others are the broker's to watch."""
        client.grace = None
        if client.stream is None and client.fresh_until == -inf:
            self._forget(client)

    def with_stream(self, topic: str) -> GrpcClient | None:
        """Return a producer of the topic that can be asked now, and may be shown its messages."""
        members = (one for one in self._by_id.values() if topic in one.topics)
        return next((one for one in members if one.may_see(topic, Action.PUB)), None)

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
