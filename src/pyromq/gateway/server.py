"""The gateway's composition root: a session with the cluster, the endpoint's services over it, one listener."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from socket import gethostname

from google.protobuf import json_format

from .. import logs
from ..ambient import Clock
from ..audit.log import AuditLog
from ..audit.opening import audit_log
from ..client.config import ClientConfig, own_ip
from ..client.connect.session import Session
from ..config import Loaded
from ..errors import ConfigError, PyroError
from ..machine.budget import Budget, budget_of_process
from ..machine.core_dumps import forbid_core_dumps
from ..machine.helper_threads import helper_threads
from ..machine.open_keys import warn_of_open_keys
from ..metrics.exporting import Exporting, MetricsSource
from ..metrics.families import LabelSets
from ..metrics.limiting import Limiting
from ..protocol.grpc import v2
from ..protocol.json import load_dialect
from ..protocol.requests import RequestCode
from ..proxy.access import screening
from ..proxy.clients.registry import Clients
from ..proxy.config import NO_PORT
from ..proxy.methods import methods
from ..proxy.services import Services
from ..supervision import Loops
from ..transport.address import format_address, parse_address
from ..transport.certificates.self_signed import log_certificate, with_certificate
from ..transport.connection.strangers import Strangers
from ..transport.dispatch import Dispatcher, Handler, Reply, Request, allow_all
from ..transport.listening import Listening, bind
from ..transport.server import Server
from ..transport.settings import served_limits
from ..transport.turns.access_audit import AccessAudit
from ..transport.turns.auditing import Auditing
from ..transport.turns.slices import Slices
from .announcements import ClientAnnouncements
from .cluster_view import ClusterView
from .config import GatewayConfig
from .members import GatewayMembers
from .metrics import GatewayMetrics
from .remote import RemoteBackend
from .signer_lookup import SignerLookup
from .syncer import HeartbeatSyncer
from .tunnel import RECONNECT, Tunnel
from .users import GatewayUsers, gate_of, inner_keys

log = logs.get("pyromq.gateway")


class Gateway:
    """Event loop only. `listen` first, `stop` last."""

    def __init__(
        self, config: GatewayConfig, *, clock: Clock, rng: random.Random, audit: AuditLog | None = None
    ) -> None:
        self.config = config
        self._clock = clock
        settings = config.endpoint
        client = ClientConfig(
            name_servers=config.namesrv_addr,
            tls=config.client_tls(),
            heartbeat_s=config.transaction_heartbeat_period_second,
            **inner_keys(config.access),
        )
        handlers: dict[int, Handler] = {
            RequestCode.CHECK_TRANSACTION_STATE.code: self._check,
            RequestCode.SHARE_USERS.code: self._hear,
        }
        self.session = Session(client, clock=clock, rng=rng, handlers=handlers, reconnect=RECONNECT)
        self.view = view = ClusterView(self.session, clock, config)
        self.backend = RemoteBackend(self.session, view, settings, clock, config.channel_expired_timeout / 1000)
        self.users = GatewayUsers(config, self.session, clock)
        self.gate = gate = gate_of(config, self.users, clock)
        if gate is not None:
            self.backend.directory = gate.directory
            gate.directory.watch(self.backend.rights_changed)
            self.backend.are_counted = self.users.are_counted
        self.services = Services(self.backend, settings, clock, rng, gate)
        self.backend.clients = self.services.clients
        self.methods = methods(self.services)
        self.members = GatewayMembers()
        self.syncer = self._make_syncer()
        self.announcer = ClientAnnouncements(self.members, self.syncer, clock)
        self._know_clients(self.services.clients)
        self.tunnel = Tunnel(
            view, self.members, self.announcer, clock, rng, config, gate, are_counted=self.users.are_counted
        )
        served: Mapping[int, Handler] = self.tunnel.handlers()
        if audit is not None:
            AccessAudit(audit, self.users.table.directory).watch(gate)
            served = Auditing(audit).around(served)
        dispatch = Dispatcher(served, gate or allow_all, Slices(clock))
        self._dispatch: Handler = dispatch if gate is None else SignerLookup(dispatch, gate)
        self._limits = served_limits(config, Budget().memory_bytes, asks=gate is not None)
        self._strangers = None if self._limits.strangers is None else Strangers(self._limits.strangers, clock)
        self.servers = [self._server("grpc")]
        if config.remoting_listen_port != NO_PORT:
            self.servers.append(self._server("remoting"))
        self._loops = Loops(clock, log)
        self._rng = rng
        self._is_reached = False
        self.exporting: Exporting | None = None  # from `listen` on
        self._running: list[asyncio.Task[None]] = []

    def _make_syncer(self) -> HeartbeatSyncer | None:
        config, topic = self.config, self.config.heartbeat_syncer_topic_name
        if not topic:
            return None
        silent_s = config.channel_expired_timeout / 1000
        return HeartbeatSyncer(self.session, self._clock, self.members, topic, config.syncer_cluster, silent_s)

    def _know_clients(self, clients: Clients) -> None:
        """Let other gateways know our clients, and have the settings of theirs."""
        clients.alive, clients.ended = self.announcer.alive, self.announcer.ended
        clients.settings_elsewhere = self._settings_elsewhere

    def _settings_elsewhere(self, client_id: str) -> v2.Settings | None:
        text = self.members.settings_elsewhere(client_id)
        if not text:
            return None
        try:
            return json_format.Parse(text, v2.Settings(), ignore_unknown_fields=True)
        except json_format.ParseError as fault:
            log.warning("settings of a client at another gateway cannot be read", client=client_id, why=str(fault))
            return None

    def _server(self, name: str) -> Server:
        config = self.config
        return Server(
            self._dispatch,
            clock=self._clock,
            limits=self._limits,
            strangers=self._strangers,
            tls=config.server_tls(),
            methods=self.methods,
            screen=None if self.gate is None else screening(self.gate),
            proxy_preamble=config.endpoint.grpc_proxy_protocol,
            on_close=self.tunnel.lost,
            name=name,
        )

    def _hear(self, request: Request) -> Awaitable[Reply]:
        return self.users.hear(request)

    def _check(self, request: Request) -> Reply | None:
        return self.backend.check(request)

    async def listen(self) -> str:
        """Bind and serve; return the address of gRPC clients. ConfigError says why not."""
        config = self.config
        host, shared = config.bind_address.strip("[]"), config.shares_its_port
        self.exporting = await self._exporting()
        listening = [await bind(host, config.port, shared=shared)]
        self.backend.port = parse_address(listening[0].address)[1]
        if config.remoting_listen_port != NO_PORT:
            try:
                listening.append(await bind(host, config.remoting_listen_port, shared=shared))
            except ConfigError as fault:
                listening[0].close()
                raise ConfigError(f"{fault} (remotingListenPort; -1 opens none)") from None
        told = config.remoting_access_addr or host
        self.tunnel.address = format_address(told, parse_address(listening[-1].address)[1])
        self._name_ourselves(listening)
        self.session.start()
        loops = (
            {"silent clients": self.backend.run}
            | self.users.loops()
            | ({} if self.syncer is None else self.syncer.loops())
        )
        loop = asyncio.get_running_loop()
        self._running = [loop.create_task(self._loops.keep(name, begin)) for name, begin in loops.items()]
        for server, bound in zip(self.servers, listening, strict=True):
            server.accept_on(bound)
        self.exporting.begin()
        return listening[0].address

    async def _exporting(self) -> Exporting:
        config, settings = self.config, self.config.metrics
        listening = await Exporting.bind(settings, config.allow_unauthenticated)
        own = {"cluster": config.rocket_mq_cluster_name, "node_type": "proxy", "node_id": gethostname()}
        labels = LabelSets({**settings.extra_labels, **own})
        clients = self.services.clients
        metrics = GatewayMetrics(labels, self.servers, lambda: len(clients), lambda: self._is_reached)
        limiting = Limiting(settings.metrics_otel_cardinality_limit)
        source = MetricsSource(metrics.collect, limiting, self._troubles)
        return Exporting(settings, listening, source, clock=self._clock, rng=self._rng)

    def _troubles(self) -> list[str]:
        return [] if self._is_reached else ["no name server has answered yet"]

    def _name_ourselves(self, listening: list[Listening]) -> None:
        """Take the name by which other gateways know us, in Java's form; a shared port is several gateways'."""
        host, config = self.config.bind_address.strip("[]"), self.config
        if host in ("0.0.0.0", "::", ""):
            host = own_ip(config.namesrv_addr[0])
        self.announcer.host = host = config.local_serve_addr or host
        self.announcer.grpc_address, self.announcer.remoting_address = listening[0].address, listening[-1].address
        ports = [str(parse_address(one.address)[1]) for one in (listening[-1], listening[0])]
        if self.syncer is not None:
            self.syncer.proxy_id = "%".join([host, *ports, *([str(os.getpid())] if config.shares_its_port else [])])

    async def reach_cluster(self) -> None:
        """Return once a name server answers. What is missing is logged, once."""
        is_told = False
        while True:
            try:
                masters = await self.view.masters()
            except PyroError as fault:
                if not is_told:
                    log.warning("not ready: calls are refused until a name server answers", why=str(fault))
                is_told = True
                await self._clock.sleep(self.session.config.trouble_pause_s)
                continue
            self._is_reached = True
            if not masters:
                servers = ";".join(self.config.namesrv_addr)
                log.warning("no broker is registered yet: calls are refused until one is", name_servers=servers)
            return

    async def stop(self) -> None:
        """Finish calls under way, give back what clients hold, leave the cluster."""
        if self.exporting is not None:
            await self.exporting.stop()
        for server in self.servers:
            if server.calls is not None:
                server.calls.refuse_new()  # clients go elsewhere with what they ask next
        await self.backend.end_pops()
        for server in self.servers:
            await server.stop(self.config.grpc_shutdown_time_seconds)
        await self.tunnel.close()
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
        await self.services.close()
        await self.users.close()
        if self.syncer is not None:
            for client in self.services.clients:
                self.announcer.ended(client)
            await self.syncer.flush()
        await self.session.stop()


async def run(
    loaded: Loaded[GatewayConfig],
    *,
    clock: Clock,
    rng: random.Random,
    ready: Callable[[str, str], None],
    stop_wanted: asyncio.Event,
) -> None:
    """Serve until `stop_wanted` is set. `ready` gets the addresses of gRPC and of remoting clients once a name
    server answers."""
    load_dialect()
    for notice in loaded.notices:
        log.warning("configuration", notice=notice)
    config, access = loaded.config, loaded.config.access
    if access.holds_secrets:
        forbid_core_dumps()
    if not access.authentication_enabled:
        remoting = config.remoting_listen_port
        ports = [config.port, *([] if remoting == NO_PORT else [remoting])]
        config.warn_of_strangers(log, *((config.bind_address, port) for port in ports))
    budget_of_process(reserved=config.reserved_descriptors).log_shares()
    warn_of_open_keys(log, config.key_files(config.tls_folder))
    config = with_certificate("proxy", loaded, config, config.tls_folder, [config.bind_address], clock.now_ms()).config
    async with AsyncExitStack() as stack:
        run_blocking = stack.enter_context(helper_threads(1))
        folder = config.audit_folder_unless_named
        audit = await stack.enter_async_context(audit_log("proxy", config.audit, folder, clock, run_blocking))
        gateway = Gateway(config, clock=clock, rng=rng, audit=audit)
        stack.push_async_callback(gateway.stop)
        address = await gateway.listen()
        log_certificate("proxy", config)
        loop = asyncio.get_running_loop()
        stopped, reached = loop.create_task(stop_wanted.wait()), loop.create_task(gateway.reach_cluster())
        await asyncio.wait((stopped, reached), return_when=asyncio.FIRST_COMPLETED)
        if reached.done():
            reached.result()
            ready(address, gateway.tunnel.address)
        else:
            reached.cancel()
            await asyncio.wait((reached,))
        await stopped
    log.info("gateway stopped")
