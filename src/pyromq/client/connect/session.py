"""What the producers and consumers of one client share: connections, routes, heartbeats, and the broker's own requests.

Calls raise the errors of `errors.py`; this is the one place where failures of transport become those. After a failed
call routes are read again at once, and brokers whose connection ended get a heartbeat as soon as they are back.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from ... import logs
from ...ambient import Clock, Random
from ...errors import CallFailed, CallTimedOut, ConfigError, ConnectionLost, RequestTooLarge
from ...model import names
from ...model.codes import ResponseCode
from ...model.ids import UniqueIds
from ...model.topic import MASTER_ID
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.command import Command
from ...protocol.headers.header import Header
from ...protocol.row import A, B, H, R, Row
from ...transport.address import parse_address
from ...transport.client import Connect, Reconnect, RemotingClient
from ...transport.dispatch import Dispatcher, Handler
from ...transport.peer import Peer
from ..config import ClientConfig, own_ip, with_namespace
from ..core.retry import growing_pause_s, period_s
from ..core.routing import Route
from ..errors import BadMessage, Closed, Error, NoBroker, TimedOut, TopicNotFound, refused, unreachable
from .answers import Answer, bad_order
from .background import Bell, Tasks
from .heartbeats import Heartbeats
from .name_servers import NameServers
from .new_topics import KeyedTopics
from .outages import Outages
from .routes import KnownRoutes, brings_brokers, moved_masters

if TYPE_CHECKING:
    from ...access.signatures import Signer

log = logs.get("pyromq.client")

AnyHeader = Header | dict[str, str] | None

AUTO_CREATED_QUEUES = 4
PATTERN_S = 1.0  # for one more look who makes new topics
FAREWELL_S = 0.2  # for answers of a master that was replaced
VIP_STEP = 2  # brokers serve producers on a second port, so much below the first


class Session:
    """Event loop only. `start` first, `stop` last; producers and consumers register themselves in between."""

    brings_replies = True  # from consumers, to a producer that asked

    def __init__(
        self,
        config: ClientConfig,
        *,
        clock: Clock,
        rng: Random,
        handlers: Mapping[int, Handler] | None = None,
        connect: Connect | None = None,
        reconnect: Reconnect | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.rng = rng
        ip = own_ip(config.name_servers[0]) if connect is None else "127.0.0.1"
        salt = rng.getrandbits(32)
        self.client_id = f"{ip}@{config.instance or f'{os.getpid()}#{salt}'}"
        self.lasting_id = f"{ip}@{config.instance or 'DEFAULT'}"  # the same after a restart, as Java's for broadcast
        self.ids = UniqueIds(ip, os.getpid(), salt, clock.now_ms)
        self.signer: Signer | None = None
        self.transport = self._make_transport(Dispatcher(handlers or {}), connect, reconnect)
        self.outages = Outages(clock, lambda: self.heartbeats.has_groups)
        self.name_servers = NameServers(self.transport, config, rng, self.outages)
        self.routes = KnownRoutes(clock, rng, self._ask_route, self._learned, self._is_being_made)
        self.new_topics = KeyedTopics(clock, self.ask, self._ask_briefly, self.routes.learn)
        self._announced: set[str] = set()  # topics whose brokers shall know us before we send there, or if we never do
        self.heartbeats = Heartbeats(self.client_id, config, clock, rng, self.ask, self.routes.brokers)
        self._tasks = Tasks(self._died)
        self._routes_stale = Bell(clock)
        self._news = Bell(clock)  # something to tell brokers of: not to wait until troubles are over
        self._fault: BaseException | None = None
        self.sender_numbers = count(1)  # no two senders of this client have the same
        self.is_closed = False

    def _make_transport(
        self, dispatch: Dispatcher, connect: Connect | None, reconnect: Reconnect | None
    ) -> RemotingClient:
        config = self.config
        shape: dict[str, Any] = {"clock": self.clock, "rng": self.rng, "dispatch": dispatch}
        shape |= {"tls": config.tls, "connect": connect, "on_close": self._connection_lost}
        shape["reconnect"] = reconnect
        if config.access_key:
            from ...access.signatures import Signer  # not at the top: its hashes take their time, and few have keys

            self.signer = Signer(config.access_key, config.secret_key, config.security_token)
            shape["sign"] = self.signer.sign
        return RemotingClient(**shape)

    # --- start and stop -------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._tasks.start(self._refresh_loop())
        self._tasks.start(self.heartbeats.run())

    async def stop(self) -> None:
        self.is_closed = True
        await self._tasks.cancel()
        await self.transport.close()

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this beside the caller until it ends or the session stops."""
        self._tasks.start(work)

    def _died(self, fault: BaseException) -> None:
        """Let every later call fail with the fault that ended a loop of ours, rather than go on without heartbeats."""
        self._fault = fault
        log.error("client loop died", fault=repr(fault))

    # --- calls ----------------------------------------------------------------------------------------------------

    async def call(
        self,
        address: str,
        code: int,
        header: AnyHeader = None,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
        expected: Iterable[int] = (ResponseCode.SUCCESS,),
    ) -> Command:
        """Return the answer, if its code is one of those expected. Unreachable, TimedOut, Refused or BadMessage."""
        self.check_open()
        timeout_s = self.config.call_timeout_s if timeout_s is None else timeout_s
        return await self._exchange(address, code, header, body, timeout_s, expected)

    async def _exchange(
        self, address: str, code: int, header: AnyHeader, body: bytes, timeout_s: float, expected: Iterable[int]
    ) -> Command:
        fields = {} if header is None else header if isinstance(header, dict) else header.to_fields()
        request = Command(code=code, fields=fields, body=body)
        try:
            answer = await self.transport.call(address, request, timeout_s)
        except CallTimedOut as fault:
            self._failed(address, fault)
            hint = "Is the broker overloaded, or the network down?"
            raise TimedOut(str(fault), hint=hint, address=address, may_be_stored=fault.was_sent) from None
        except ConnectionLost as fault:
            self._failed(address, fault)
            hint = "Is the broker running, and is the address that it advertises (brokerIP1) one you can reach?"
            raise unreachable(fault, address, hint) from None
        except RequestTooLarge as fault:
            raise _too_large(fault, address) from None
        if address in self.outages.away:
            self.outages.answered(address)
            self.heartbeats.due.ring()  # it may have forgotten us
        if answer.code not in expected:
            refusal = refused(answer.code, answer.remark, address)
            refusal.retry_after_ms = answer.fields.get("retryAfterMs", "")
            raise refusal
        return answer

    def _failed(self, address: str, fault: CallFailed) -> None:
        self.refresh_routes()
        if not self.is_closed:
            self.outages.failed("broker", address, fault)

    async def ask(
        self,
        address: str,
        row: Row[H, B, A, R],
        header: H | dict[str, str] | None = None,
        body: B | None = None,
        *,
        timeout_s: float | None = None,
        expected: Iterable[int] = (ResponseCode.SUCCESS,),
    ) -> Answer[A, R]:
        """Return the answer, typed by the request's row, if its code is one of those expected. Raise as `call` does."""
        encoded = row.takes.write_body(body)
        command = await self.call(address, row, header, encoded, timeout_s=timeout_s, expected=expected)
        return Answer(row, command, address)

    async def send_oneway(self, address: str, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        self.check_open()
        try:
            await self.transport.send(address, Command(code=code, fields=fields, body=body))
        except ConnectionLost as fault:
            self._failed(address, fault)
            raise unreachable(fault, address, "Is the broker running?") from None
        except RequestTooLarge as fault:
            raise _too_large(fault, address) from None

    def check_open(self) -> None:
        if self.is_closed:
            raise Closed("this client is closed", hint="Use it inside its `async with` block")
        if self._fault is not None:
            raise Closed(f"a loop of this client died: {self._fault!r}", hint="See the log; make a new client")

    def on_wire(self, name: str) -> str:
        """Return a topic's or group's name with the client's namespace, as brokers know it."""
        if not isinstance(name, str):
            raise Error(f"{name!r} is no name of a topic or group", hint="Give a string")
        return with_namespace(self.config.namespace, name) if self.config.namespace else name

    def sends_to(self, address: str) -> str:
        """Return where messages for this broker go: its VIP channel, if the client uses that."""
        if not self.config.vip_channel:
            return address
        try:
            host, port = parse_address(address)
        except ConfigError:
            return address  # a broker registered what is no address: it cannot be reached, which is said by the call
        return f"[{host}]:{port - VIP_STEP}" if ":" in host else f"{host}:{port - VIP_STEP}"

    # --- routes ---------------------------------------------------------------------------------------------------

    async def route(self, topic: str) -> Route:
        """Return the route. Known ones are kept and refreshed in the background. TopicNotFound, NoNameServer."""
        self.check_open()
        known = self.routes.get(topic)
        return known if known is not None else await self.read_route(topic)

    async def route_to_write(self, topic: str, *, by_key: bool = False) -> Route:
        """Return the route, of a topic that the first send will make the one of the brokers' default topic.

        `by_key`: the queues must stay as they are from the first message on, so that a new topic is made first.
        """
        try:
            if by_key and (being_made := self.new_topics.being_made(topic)) is not None:
                return await asyncio.shield(being_made)
            route = await self.route(topic)
            if route.write_fault:
                route = await self.read_route(topic)  # it may be mended by now
            if by_key and not route.write_fault:
                route = await self.new_topics.complete(route)
        except TopicNotFound as missing:
            try:
                pattern = await self.route(names.AUTO_CREATE_TOPIC)
                if not pattern.writable:  # its masters may be there by now
                    await self.routes.reread(names.AUTO_CREATE_TOPIC, PATTERN_S)
                    pattern = await self.route(names.AUTO_CREATE_TOPIC)
            except TopicNotFound:
                raise missing from None
            route = _inherited(topic, pattern)
            if by_key and len(route.writers) > 1:
                route = await self.new_topics.make(route)
        if route.write_fault:
            raise bad_order(route)
        if not (route.for_keys if by_key else route.writable):
            hint = "Are its masters running (mqadmin clusterList), and does its permission allow writing?"
            raise NoBroker(f"topic {topic!r} has no queue that can be written", hint=hint)
        return route

    async def master(self, queue: MessageQueue) -> str:
        """Return the address where the queue is written. NoBroker while its master is away."""
        return master_of(await self.route_to_write(queue.topic), queue)

    def known_route(self, topic: str) -> Route | None:
        return self.routes.get(topic)

    def known_master(self, queue: MessageQueue) -> str | None:
        route = self.routes.get(queue.topic)
        return None if route is None else route.master(queue.broker_name)

    def reader(self, route: Route, queue: MessageQueue, wanted_id: int = MASTER_ID) -> str:
        """Return where to read the queue: the wanted replica, else the master, else any. NoBroker if none is there."""
        address = route.reader(queue.broker_name, wanted_id)
        if address is None:
            self.refresh_routes()
            raise NoBroker(f"broker {queue.broker_name!r} is not there", hint="Is it running (mqadmin clusterList)?")
        return address

    async def read_route(self, topic: str) -> Route:
        """Read a route; all who ask for the same topic meanwhile share one request."""
        return await self.routes.read(topic)

    async def _ask_route(self, topic: str) -> Route:
        return await self.name_servers.route(topic, explain=topic not in self.routes)

    async def _ask_briefly(self, topic: str) -> Route:
        return await self.name_servers.route(topic, explain=False)

    def _is_being_made(self, topic: str) -> bool:
        return self.new_topics.being_made(topic) is not None

    def _learned(self, before: Route | None, route: Route) -> None:
        if before is None or brings_brokers(before, route):
            self.heartbeats.due.ring()  # brokers that we have not met yet, or not as masters
        if before is not None:
            for address in moved_masters(before, route):
                self._tasks.start(self._leave(address))

    async def _leave(self, address: str) -> None:
        """End the connection to a former master once it had time to answer: what hangs there is repeated elsewhere."""
        await self.clock.sleep(FAREWELL_S)
        self.transport.let_go(address, "the broker has another master now")

    def announce_to_brokers(self, topic: str) -> None:
        """Send heartbeats to its brokers from now on; while nobody knows the topic, to those that could make it."""
        if topic not in self._announced:
            self._announced.add(topic)
            self._routes_stale.ring()
            self._news.ring()

    def refresh_routes(self) -> None:
        """Read the routes at once, since something failed; while it goes on failing, more and more seldom."""
        self._routes_stale.ring()

    async def _refresh_loop(self) -> None:
        troubles = 0
        while True:
            troubled = await self._routes_stale.wait(period_s(self.config.route_refresh_s, self.rng))
            changes = self.routes.changes
            for topic in (*self.routes, *self._announced.difference(self.routes)):
                try:
                    await (self.read_route(topic) if topic in self.routes else self.route_to_write(topic))
                except Error as fault:
                    log.debug("route not refreshed", topic=topic, fault=str(fault))
            await self.name_servers.probe()
            brokers = self.routes.brokers(True)
            self.outages.forget({*brokers, *map(self.sends_to, brokers), *self.config.name_servers})
            if troubled:
                troubles = 1 if self.routes.changes != changes else troubles + 1
                await self._news.wait(self._trouble_pause_s(troubles))
            else:
                troubles = 0

    def _trouble_pause_s(self, troubles: int) -> float:
        """Return the time between two looks: with many clients, those of a lost broker are all that name servers do."""
        return growing_pause_s(self.config.trouble_pause_s, self.config.route_refresh_s, troubles, self.rng)

    def _connection_lost(self, peer: Peer) -> None:
        if not self.is_closed and peer.address not in self.config.name_servers:
            self.heartbeats.forgotten_by(peer.address)  # a broker forgets clients with their connections


def _too_large(fault: RequestTooLarge, address: str) -> BadMessage:
    hint = (
        "Split it, or store the data elsewhere: this client's limits are the ones that brokers have by default "
        "(com.rocketmq.remoting.frameMaxLength, headerMaxLength)"
    )
    return BadMessage(str(fault), hint=hint, address=address)


def master_of(route: Route, queue: MessageQueue) -> str:
    address = route.master(queue.broker_name)
    if address is None:
        raise NoBroker(
            f"broker {queue.broker_name!r}, which holds queue {queue.queue_id} of {queue.topic!r}, has no master now",
            hint="Start it again; sends with a key wait for their own queue, unless the broker's write permission is "
            "taken away (mqadmin wipeWritePerm)",
        )
    return address


def _inherited(topic: str, pattern: Route) -> Route:
    queues = tuple(
        MessageQueue(broker_name=queue.broker_name, queue_id=queue.queue_id, topic=topic)
        for queue in pattern.writable
        if queue.queue_id < AUTO_CREATED_QUEUES
    )
    return Route(topic=topic, addresses=pattern.addresses, writable=queues)
