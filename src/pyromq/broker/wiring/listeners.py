"""The listeners: the main port, the fast one, that of gRPC clients, and the kernel that takes what is plain.

gRPC is served on all of them, as remoting is: the first bytes of a connection tell. A listener of administration
(`adminListener`) has neither gRPC nor a kernel: nothing that they serve is for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ... import logs
from ...errors import ConfigError
from ...kernel.seam import Fed, Feed, FeedConnection, feed_nothing
from ...kernel.state import Allowances
from ...metrics.exporting import Exporting
from ...metrics.settings import MetricsSettings
from ...protocol.row import RequestClass
from ...proxy.access import screening
from ...proxy.config import NO_PORT, ProxySettings
from ...transport.address import parse_address
from ...transport.connection.buffered_bytes import BufferedBytes
from ...transport.connection.strangers import Strangers
from ...transport.dispatch import Dispatcher, Handler, allow_all
from ...transport.http2.calls import Methods
from ...transport.listening import Listening, NoSuchHost, bind
from ...transport.peer import Peer
from ...transport.server import Server
from ...transport.turns.apart import AdminListenerSettings
from ...transport.turns.slices import Slices
from ..config import BrokerConfig
from ..pop.verdicts import Popping, PopVerdicts
from ..pull.verdicts import Pulling, PullVerdicts
from ..replication.leading.copies import OtherCopies
from ..replication.settings import BrokerRole, ReplicationSettings
from ..send.verdicts import Sending, Verdicts, kernel_verdicts, passage, reply_timeout
from ..surface import on_fast_port
from ..transactions.halves import Halves
from ..transactions.kernel_ends import KernelEnds
from .administration import Faces
from .foundation import Foundation
from .guarding import GuardVerdicts

log = logs.get("pyromq.broker")

GRPC, ADMIN = "grpc", "admin"  # the names of these listeners


class InjectedFaults(Protocol):
    """Faults that a test injects into the serving of requests."""

    @property
    def are_active(self) -> bool:
        """Tell whether a request may meet one now. No kernel serves anything meanwhile."""
        ...

    def around(self, serve: Handler) -> Handler:
        """Return the dispatcher to use in the place of `serve`."""
        ...


class Ports(NamedTuple):
    """The sockets of all listeners, bound before anything else is made. None: that port is not open."""

    main: Listening
    fast: Listening
    grpc: Listening | None
    ha: Listening | None = None
    metrics: Listening | None = None
    admin: Listening | None = None

    def close(self) -> None:
        for each in self:
            if each is not None:
                each.close()

    def copied(self) -> Ports:
        """Return copies of these sockets, which whoever serves them closes: the ports themselves stay open."""
        return Ports(*(None if each is None else each.copied() for each in self))  # type: ignore[arg-type]

    @property
    def grpc_port(self) -> int:
        """The port that gRPC clients are told: their own, or the main one, which serves them too."""
        return parse_address((self.grpc or self.main).address)[1]

    @property
    def ha_port(self) -> int:
        """The port that slaves are told; 0: there is none."""
        return 0 if self.ha is None else parse_address(self.ha.address)[1]


async def bind_ports(config: BrokerConfig) -> Ports:
    """Bind all ports. ConfigError says why that cannot be."""
    host = config.bind_address.strip("[]")
    ways = f"pyromq up --broker-port PORT, pyromq broker --listen {host}:PORT, or listenPort in the configuration file"
    try:
        main = await bind(host, config.listen_port)
    except NoSuchHost:
        raise
    except ConfigError as fault:
        raise ConfigError(f"{fault} ({ways})") from None
    try:
        fast = await bind(host, config.fast_port)
    except ConfigError as fault:
        main.close()
        second = f"the second port of the broker on {config.listen_port}, two below unless fastListenPort names it"
        raise ConfigError(f"{fault}. It is {second} ({ways})") from None
    except BaseException:
        main.close()
        raise
    ports = Ports(main, fast, None)
    try:
        ports = ports._replace(grpc=await _bind_grpc(host, config))
        ports = ports._replace(ha=await _bind_ha(host, config, parse_address(main.address)[1]))
        administration = config.part(AdminListenerSettings)
        ports = ports._replace(admin=await administration.bind_admin_listener())
        settings = config.part(MetricsSettings)
        ports = ports._replace(metrics=await Exporting.bind(settings, config.allow_unauthenticated))
        others = {
            "the main port": ports.main,
            "the second port (fastListenPort)": ports.fast,
            "the port of gRPC clients (grpcServerPort)": ports.grpc,
            "the port for slaves (haListenPort)": ports.ha,
            "the port of metrics (metricsPromExporterPort)": ports.metrics,
        }
        administration.check_apart(ports.admin, others)
        return ports
    except BaseException:
        ports.close()
        raise


async def _bind_grpc(host: str, config: BrokerConfig) -> Listening | None:
    """Bind the port of gRPC clients. One that nobody asked for may be taken: a warning says so."""
    settings = config.part(ProxySettings)
    port = settings.port_beside(config.listen_port)
    if port == NO_PORT:
        return None
    try:
        return await bind(host, port)
    except ConfigError as fault:
        if settings.grpc_server_port is not None:
            raise ConfigError(
                f"{fault} (pyromq up --grpc-port PORT, or grpcServerPort in the configuration file)"
            ) from None
        log.warning(
            "gRPC clients have no port of their own",
            why=str(fault),
            remedy="name a free one by grpcServerPort (-1: none); the broker's main port serves them, too",
        )
        return None


async def _bind_ha(host: str, config: BrokerConfig, main_port: int) -> Listening | None:
    """Bind the port of slaves, unless this is one. One that nobody asked for may be taken: a warning says so."""
    settings = config.part(ReplicationSettings)
    if settings.is_slave:
        return None
    is_any = config.listen_port == 0 and settings.ha_listen_port == 0
    try:
        return await bind(host, 0 if is_any else settings.ha_listen_port or main_port + 1)
    except ConfigError as fault:
        if settings.ha_listen_port or settings.broker_role is BrokerRole.SYNC_MASTER:
            raise ConfigError(f"{fault}. It is the port for slaves (haListenPort in the configuration file)") from None
        log.warning("slaves cannot connect", why=str(fault), remedy="name a free port by haListenPort")
        return None


class Feeding(NamedTuple):
    """What the verdicts of a kernel stand for."""

    sending: Sending
    pulling: Pulling
    popping: Popping
    halves: Halves
    allowances: Allowances


class Listeners:
    """Event loop only. Connections are accepted from `accept` on."""

    def __init__(
        self,
        base: Foundation,
        copies: OtherCopies,
        ports: Ports,
        handlers: Faces,
        feeding: Feeding,
        faults: InjectedFaults | None,
        on_close: Callable[[Peer], None],
    ) -> None:
        self._base = base
        self._copies = copies
        self.ports = ports
        self._on_close = on_close
        self._buffered = BufferedBytes(base.environment.limits.held_bytes)
        strange = base.environment.limits.strangers
        self._strangers = None if strange is None else Strangers(strange, base.clock)
        self.verdicts: list[Verdicts] = []
        self.pull_verdicts: list[PullVerdicts] = []
        self.pop_verdicts: list[PopVerdicts] = []
        slices = Slices(base.clock)
        authorise = base.access.gate or allow_all
        main = Dispatcher(handlers.ordinary, authorise, slices)
        self.dispatchers = {"main": main, "fast": Dispatcher(on_fast_port(handlers.ordinary), authorise, slices)}
        self.inner = Dispatcher(handlers.calls, slices=slices)  # of requests that were judged when they were gRPC calls
        self.servers: list[Server] = []
        self.fed: list[tuple[Server, Feed]] = []  # each with its feed as it is behind the guard
        for name, dispatcher in (*self.dispatchers.items(), *([] if ports.grpc is None else [(GRPC, main)])):
            inner = self._feed(feeding)
            serve: Handler = dispatcher
            feed = self._guarded(inner)
            if faults is not None:
                serve, inner, feed = faults.around(serve), _unless(faults, inner), _unless(faults, feed)
            self.servers.append(self._server(name, serve, feed))
            self.fed.append((self.servers[-1], inner))
        if handlers.admin is not None:  # no kernel: it would take sends and pulls
            self.dispatchers[ADMIN] = Dispatcher(handlers.admin, authorise, slices)
            self.servers.append(self._server(ADMIN, self.dispatchers[ADMIN], feed_nothing))
        copies.on_give_up.append(self._cut_all)

    def _guarded(self, feed: Feed) -> Feed:
        """Return the feed that was made last, behind a guard where requests must be signed."""
        gate = self._base.access.gate
        if gate is None or feed is feed_nothing:
            return feed
        verdicts = self.verdicts[-1]
        guard = GuardVerdicts(gate, self._base.environment.limits.frame, verdicts.module, verdicts.kernel, feed)
        return guard.kernel.feed  # type: ignore[no-any-return]

    def _feed(self, feeding: Feeding) -> Feed:
        """Return the kernel's feed; none where only the handlers know limits so low."""
        verdicts = kernel_verdicts(feeding.sending)
        if verdicts is None:
            return feed_nothing
        self.verdicts.append(verdicts)
        verdicts.kernel.hold_to(feeding.allowances)
        pulls = PullVerdicts(feeding.pulling, verdicts.module, verdicts.kernel)
        self.pull_verdicts.append(pulls)
        if not hasattr(verdicts.module, "PopFeed"):  # in the Python kernel the handlers serve pops and commits
            return pulls.kernel.feed  # type: ignore[no-any-return]
        KernelEnds(feeding.halves, self._base.store, self._base.counters.events, verdicts.module, verdicts.kernel)
        pops = PopVerdicts(feeding.popping, verdicts.module, pulls.kernel)
        self.pop_verdicts.append(pops)
        return pops.kernel.feed  # type: ignore[no-any-return]

    def _server(self, name: str, serve: Handler, feed: Feed) -> Server:
        environment, readable = self._base.environment, self._base.store.readable
        is_sync = feed is not feed_nothing and environment.config.answers_wait
        status, live = self._copies.status, environment.live
        server = Server(
            serve,
            clock=environment.clock,
            limits=environment.limits,
            tls=environment.transport.server_tls(),
            feed=feed,
            on_close=self._on_close,
            quota=environment.budget.quota,
            buffered=self._buffered,
            strangers=self._strangers,
            reply_timeout=reply_timeout(live, status) if is_sync else None,
            passage=passage(live, lambda: readable.value, status) if is_sync and self._copies.is_sync else None,
            proxy_preamble=name == GRPC and environment.config.part(ProxySettings).grpc_proxy_protocol,
            name=name,
        )
        if is_sync:
            readable.on_advance(server.service.release)
            readable.on_failure(server.service.abort_pending_replies)
        return server

    def _cut_all(self) -> None:
        for server in self.servers:
            server.service.abort_pending_replies()
            server.cut_all("this broker leads no more: whether what waits is stored, the new master knows")

    def serve_calls(self, methods: Methods) -> None:
        """Serve gRPC calls on every port but that of administration."""
        gate = self._base.access.gate
        for server in self.servers:
            if server.name != ADMIN:
                server.serve_calls(methods, screen=None if gate is None else screening(gate))

    def accept(self) -> None:
        ports = self.ports
        bound = [each for each in (ports.main, ports.fast, ports.grpc, ports.admin) if each is not None]
        for server, listening in zip(self.servers, bound, strict=True):
            server.accept_on(listening)
        if ports.grpc is not None:
            log.info("gRPC clients are served", address=ports.grpc.address)
        if ports.admin is not None:
            log.info("administration is served apart", address=ports.admin.address)

    def close_ports(self) -> None:
        """Close the sockets of a broker that never accepted anything. Others are closed by their servers."""
        self.ports.close()

    def forget_unused_verdicts(self) -> None:
        for kernel in (one.kernel for one in self.pull_verdicts):
            kernel.forget_unused()
        for kernel in (one.kernel for one in self.pop_verdicts):
            kernel.forget_unused()

    def waiting(self, kind: RequestClass) -> int:
        return sum(server.service.waiting(kind) for server in self.servers)

    def pending_replies(self) -> int:
        return sum(server.service.pending_replies for server in self.servers)


def _unless(faults: InjectedFaults, feed: Feed) -> Feed:
    """Return a feed that leaves everything to Python, and so to the faults, while some are active."""
    if feed is feed_nothing:
        return feed_nothing

    def chosen(connection: FeedConnection, received: memoryview) -> Fed | bytes:
        return feed_nothing(connection, received) if faults.are_active else feed(connection, received)

    return chosen
