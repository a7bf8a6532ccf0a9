"""The backend of `pyromq proxy`: requests go to the cluster's brokers, clients are known here alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from .. import logs
from ..access.directory import Directory
from ..access.sharing.behalf import count_for, name_caller
from ..ambient import Clock
from ..client.connect.session import Session
from ..errors import CallFailed, ConnectionLost, PyroError
from ..model import names
from ..model.codes import ResponseCode
from ..model.message import Property
from ..protocol.bodies.groups import SubscriptionGroupConfig
from ..protocol.bodies.heartbeat import HeartbeatData
from ..protocol.bodies.route import TopicRouteData
from ..protocol.command import RESPONSE_FLAG, Command
from ..protocol.grpc import v2
from ..protocol.grpc.v2 import Code
from ..protocol.headers.header import Header
from ..protocol.headers.pop import PopMessage
from ..protocol.headers.pull import PullMessage
from ..protocol.properties import decode_properties
from ..protocol.record import decode_record
from ..protocol.requests import RequestCode
from ..protocol.row import Row
from ..proxy.clients.peers import CallPeer
from ..proxy.clients.registry import Clients
from ..proxy.config import ProxySettings
from ..proxy.messages.popped import popped
from ..proxy.receipts import change_header
from ..proxy.statuses import Denied, away, is_misplaced
from ..transport.connection.security import retrieve
from ..transport.dispatch import Reply, Request
from ..transport.peer import Peer
from .cluster_view import ClusterView

log = logs.get("pyromq.gateway")

SILENCE_CHECK_S = 10.0  # between two looks for clients that fell silent
_CHECKED_TYPES = ("TRANSACTION", "MIXED")
_BROKER_S = 2.0
_AWAY_S = 5.0
_MOST_AWAY = 1_000


class _Waiting(NamedTuple):
    user: str
    task: asyncio.Task[Any] | None  # which serves the call


def _no_message() -> Denied:
    return Denied(Code.MESSAGE_NOT_FOUND, "no new message")


class RemoteBackend:
    """Event loop only. `port` stands in routes."""

    def __init__(
        self, session: Session, view: ClusterView, settings: ProxySettings, clock: Clock, silent_s: float = 120.0
    ) -> None:
        self._session, self._view, self._settings, self._clock = session, view, settings, clock
        self._silent_s = silent_s
        self._seen: dict[Peer, float] = {}
        self._produced: dict[Peer, set[str]] = {}  # topics whose brokers are told that we produce to them
        self._abandoned: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.Future[None], _Waiting] = {}  # receives and pulls
        self._away_until: dict[str, float] = {}  # by broker that did not answer: it is tried again then
        self.clients: Clients | None = None  # set by who composes: transaction checks go to them
        self.directory: Directory | None = None  # by which calls are judged; set by who composes
        self.are_counted: Callable[[], bool] = lambda: False  # whether brokers count who uses them; set as that
        self.port = 0

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
        """Ask a broker. What a pop brings whose caller has gone meanwhile is given back."""
        try:
            address = await self._view.address(broker)
        except Denied:  # a route that is kept may name a broker that has left
            self._note_away(broker)
            raise
        request = Command(code=row.code, fields={} if header is None else header.to_fields(), body=body)
        if isinstance(header, PopMessage | PullMessage) and self._is_outdated(peer):
            raise _no_message()  # as whoever waits already: he asks again, and is judged anew
        if isinstance(peer, CallPeer):
            name_caller(request, peer.principal, peer.rights)
            if self.are_counted():
                count_for(request, peer.principal, peer.address)
        asking = self._session.transport.call(address, request, timeout_s)
        try:
            if isinstance(header, PopMessage | PullMessage):
                answer = await self._wait(asking, peer, header, broker, address)
            else:
                answer = await asking
        except CallFailed as fault:
            self._view.forget(broker)
            self._note_away(broker)
            raise (away(broker, str(fault)) if isinstance(fault, ConnectionLost) else fault) from None
        if self._away_until:
            self._away_until.pop(broker, None)
        if is_misplaced(answer) and (topic := getattr(header, "topic", "")):
            self._view.forget_topic(topic)
        return answer

    async def _wait(
        self,
        asking: Coroutine[Any, Any, Command],
        peer: Peer,
        header: PopMessage | PullMessage,
        broker: str,
        address: str,
    ) -> Command:
        loop = asyncio.get_running_loop()
        asked, waiting = loop.create_task(asking), loop.create_future()

        def answered(task: asyncio.Task[Command]) -> None:
            retrieve(task)
            if not waiting.done():  # else it was dismissed in the turn in which the answer came
                waiting.set_result(None)

        asked.add_done_callback(answered)
        user = peer.principal.name if isinstance(peer, CallPeer) else ""
        self._waiting[waiting] = _Waiting(user, asyncio.current_task())
        try:
            await waiting
            return asked.result()
        except (asyncio.CancelledError, Denied):
            if isinstance(header, PopMessage):
                self._keep(self._give_back(asked, header, broker, address))
            else:
                asked.cancel()
            raise
        finally:
            del self._waiting[waiting]

    async def end_pops(self) -> None:
        """Let receives that wait find nothing, since the gateway stops, and wait until they have said so."""
        tasks = [one.task for one in self._waiting.values() if one.task is not None]
        self._find_nothing(self._waiting)
        with suppress(TimeoutError):
            async with self._clock.timeout(_BROKER_S):
                await asyncio.gather(*tasks, return_exceptions=True)

    def rights_changed(self, user: str) -> None:
        """Let his receives and pulls that wait find nothing: he asks again, and is judged anew."""
        self._find_nothing([waiting for waiting, one in self._waiting.items() if one.user == user])

    def _is_outdated(self, peer: Peer) -> bool:
        """Tell whether rights have changed since a call was judged."""
        judged = peer.judged if isinstance(peer, CallPeer) else None
        return self.directory is not None and judged is not None and judged != self.directory.version

    def _find_nothing(self, waits: Iterable[asyncio.Future[None]]) -> None:
        for waiting in waits:
            if not waiting.done():
                waiting.set_exception(_no_message())

    def _note_away(self, broker: str) -> None:
        if len(self._away_until) >= _MOST_AWAY:
            self._away_until.clear()  # names in receipts are the clients' to make up
        self._away_until[broker] = self._clock.monotonic() + _AWAY_S

    def is_away(self, broker: str) -> bool:
        until = self._away_until.get(broker)
        return until is not None and self._clock.monotonic() < until

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)

    async def _give_back(self, asked: asyncio.Task[Command], header: PopMessage, broker: str, address: str) -> None:
        """Let the messages of a pop that nobody waits for come again in a moment."""
        try:
            answer = await asked
            if answer.code != ResponseCode.SUCCESS:
                return
            soon = self._settings.invisible_time_millis_when_clear
            for one in popped(answer, broker):
                change = change_header(header.consumer_group, header.topic, one.receipt, soon, suspend=True)
                fields = change.to_fields()
                request = Command(code=RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields=fields)
                await self._session.transport.call(address, request, _BROKER_S)
        except PyroError as fault:
            log.warning("messages come again only when their time is over", group=header.consumer_group, why=str(fault))

    def gone(self, peer: Peer) -> None:
        """Do nothing: `call` takes care of a pop whose caller has gone."""

    # --- clients --------------------------------------------------------------------------------------------------

    async def register(self, peer: Peer, beat: HeartbeatData) -> Command:
        self._seen[peer] = self._clock.monotonic()
        produced = self._produced.setdefault(peer, set())
        for topic in (one.group_name for one in beat.producer_data_set):
            if topic not in produced and await self._is_checked(topic):
                produced.add(topic)
                await self._session.route(topic)  # heartbeats go to its brokers then
                self._session.heartbeats.add_producer(topic)
        return Command(code=ResponseCode.SUCCESS, flag=RESPONSE_FLAG)

    async def _is_checked(self, topic: str) -> bool:
        try:
            return await self._view.types.get(topic) in _CHECKED_TYPES
        except (Denied, PyroError):
            return False  # it is not there yet: a later heartbeat looks again

    def renew(self, peer: Peer) -> bool:
        """Leave it to `register`, which looks for topics that have come to be."""
        return False

    async def unregister(self, peer: Peer, client_id: str, groups: list[str], topics: list[str]) -> None:
        await self._forget(peer)

    async def _forget(self, peer: Peer) -> None:
        self._seen.pop(peer, None)
        for topic in self._produced.pop(peer, set()):
            await self._session.heartbeats.remove_producer(topic)

    async def run(self) -> None:
        """Close clients that sent no heartbeat for a while, until cancelled."""
        while True:
            await self._clock.sleep(SILENCE_CHECK_S)
            silent = self._clock.monotonic() - self._silent_s
            for peer in [peer for peer, seen in self._seen.items() if seen < silent]:
                peer.close("no heartbeat")
                await self._forget(peer)

    def check(self, request: Request) -> Reply | None:
        """Pass a broker's question about a transaction (39) on to a producer of its topic."""
        if self.clients is not None:
            find_producer(self.clients, request.command)
        return None

    # --- what is known of topics and groups -----------------------------------------------------------------------

    async def route(self, topic: str) -> TopicRouteData:
        return await self._view.routes.get(topic)

    async def topic_type(self, topic: str) -> str | None:
        try:
            return await self._view.types.get(topic)
        except Denied:
            return None

    async def group(self, name: str) -> SubscriptionGroupConfig | None:
        return await self._view.groups.get(name)

    def is_system_topic(self, topic: str) -> bool:
        return names.is_system_topic(topic)

    def endpoints(self, asked: v2.Endpoints) -> v2.Endpoints:
        """Return what was asked with, and the port of this gateway: clients stay where they are."""
        if not asked.addresses:
            return v2.Endpoints(scheme=v2.AddressScheme.IPv4)
        port = None if self._settings.use_endpoint_port_from_request else self.port
        addresses = [v2.Address(host=one.host, port=port or one.port) for one in asked.addresses]
        return v2.Endpoints(scheme=asked.scheme, addresses=addresses)


def find_producer(clients: Clients, command: Command) -> None:
    """Tell one of the clients that produce to the transaction's topic; the broker asks again if there is none."""
    record = decode_record(bytes(command.body), verify=False)
    topic = decode_properties(record.properties).get(Property.REAL_TOPIC, record.topic)
    client = clients.with_stream(topic)
    if client is not None:
        clients.notify(client, command)
