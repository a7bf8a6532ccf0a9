"""The name server's composition root: makes the parts, starts them in order, stops them in reverse. Nothing else.

The command line calls `run`. Tests and the pytest plugin make a `NameServer` and hand it streams or let it listen.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from socket import gethostname

from .. import logs
from ..access.in_file import AccessInFile
from ..ambient import Clock
from ..audit.log import AuditLog
from ..audit.opening import audit_log
from ..config import Live, Loaded
from ..errors import ConfigError
from ..machine.budget import Budget, budget_of_process
from ..machine.core_dumps import forbid_core_dumps
from ..machine.helper_threads import helper_threads
from ..machine.open_keys import warn_of_open_keys
from ..metrics.exporting import Exporting, MetricsSource
from ..metrics.families import LabelSets
from ..metrics.limiting import Limiting
from ..protocol.json import load_dialect
from ..supervision import Loops
from ..transport.address import is_loopback
from ..transport.certificates.self_signed import log_certificate, with_certificate
from ..transport.client import Connect, RemotingClient
from ..transport.connection.strangers import Strangers
from ..transport.dispatch import Dispatcher, Handler, allow_all
from ..transport.limits import Limits
from ..transport.listening import NoSuchHost, bind
from ..transport.peer import Peer
from ..transport.server import Server
from ..transport.settings import served_limits
from ..transport.turns.access_audit import AccessAudit
from ..transport.turns.apart import Apart
from ..transport.turns.auditing import Auditing
from ..transport.turns.loop_holds import LoopHolds
from ..transport.turns.slices import Slices
from .announcer import Announcer, expiry_loop
from .config import NAMESRV_KEYS, NamesrvConfig
from .handlers.brokers import BrokerHandlers
from .handlers.operators import KvHandlers, SettingsHandlers
from .handlers.topics import TopicHandlers
from .kv_config import KvConfig, RunBlocking
from .metrics import NamesrvMetrics
from .route_table import RouteTable
from .surface import surface

log = logs.get("pyromq.namesrv")


class NameServer:
    """Event loop only. Opening it reads the KV file; ConfigError says why it cannot start."""

    def __init__(
        self,
        loaded: Loaded[NamesrvConfig],
        *,
        clock: Clock,
        rng: random.Random,
        run_blocking: RunBlocking = asyncio.to_thread,
        connect: Connect | None = None,
        budget: Budget | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        config = loaded.config
        budget = budget or Budget()
        self._config = config
        self._clock = clock
        self.live = Live(loaded, NAMESRV_KEYS, config.overlay_path)
        self.table = RouteTable()
        self._kv = KvConfig.open(config.kv_config_path, run_blocking, lambda: self.live.config)
        self.access = AccessInFile(
            config.access,
            config.users_path,
            server=f"{config.bind_address}:{config.listen_port}",
            is_loopback=is_loopback(config.bind_address),
            cluster=config.cluster_name,
            clock=clock,
            run_blocking=run_blocking,
        )
        self._client = RemotingClient(
            clock=clock,
            rng=rng,
            limits=Limits(connections=budget.shares.outgoing),
            tls=config.client_tls(),
            connect=connect,
            sign=self.access.sign,
        )
        self._announcer = Announcer(self._client, self.live, clock)
        slices = Slices(clock)
        handlers = surface(
            BrokerHandlers(self.table, self._kv, self.live, self._announcer, clock, slices),
            TopicHandlers(self.table, self._kv, self.live, clock, slices),
            KvHandlers(self._kv),
            SettingsHandlers(self.live, run_blocking),
            self.access.admin if config.access.authentication_enabled else None,
        )
        dressed = self._dressing(audit)
        self._limits = served_limits(config, budget.memory_bytes, asks=self.access.gate is not None)
        self._strangers = None if self._limits.strangers is None else Strangers(self._limits.strangers, clock)
        inner = config.access.inner_credentials()
        self._apart = Apart(inner="" if inner is None else inner.name) if config.administration.admin_listener else None
        served = handlers if self._apart is None else self._apart.ordinary(handlers)
        authorise = self.access.gate or allow_all
        self.dispatch = Dispatcher(dressed(served), authorise, slices)
        self.server = self._server("namesrv", self.dispatch, budget)
        self.servers = [self.server]
        if self._apart is not None:
            administrative = Dispatcher(dressed(self._apart.administrative(handlers)), authorise, slices)
            self.servers.append(self._server("admin", administrative, budget))
        self._is_stopping = False
        self._rng = rng
        self.exporting: Exporting | None = None  # from `listen` on
        self.loops = Loops(clock, log)
        self.expiry: asyncio.Task[None] | None = None  # ends only by `stop`

    def _dressing(self, audit: AuditLog | None) -> Callable[[Mapping[int, Handler]], dict[int, Handler]]:
        """Return what puts around handlers the audit log and the watch over the event loop."""
        holds = LoopHolds(self._clock, self._config.limits().loop_hold_ms)
        if audit is None:
            return holds.around
        told = AccessAudit(audit, self.access.table.directory)
        told.watch(self.access.gate)
        told.watch_arrivals()
        auditing = Auditing(audit, told.describe)
        return lambda handlers: holds.around(auditing.around(handlers))

    def _server(self, name: str, serve: Handler, budget: Budget) -> Server:
        return Server(
            serve,
            clock=self._clock,
            limits=self._limits,
            strangers=self._strangers,
            tls=self._config.server_tls(),
            on_close=self._connection_lost,
            quota=budget.quota,
            name=name,
        )

    def start_loops(self) -> None:
        loop = partial(expiry_loop, self.table, self.live, self._announcer, self._clock)
        self.expiry = asyncio.get_running_loop().create_task(self.loops.keep("silent brokers", loop))

    async def listen(self) -> str:
        """Return the address, with the port that was chosen where the setting says 0."""
        self.exporting = await self._exporting()
        administration = await self._config.administration.bind_admin_listener()
        host, port = self._config.bind_address.strip("[]"), self._config.listen_port
        try:
            listening = await bind(host, port)
        except ConfigError as fault:
            if administration is not None:
                administration.close()
            if isinstance(fault, NoSuchHost):
                raise
            ways = f"pyromq up --namesrv-port PORT, pyromq namesrv --listen {host}:PORT"
            raise ConfigError(f"{fault} ({ways}, or listenPort in the configuration file)") from None
        try:
            self._config.administration.check_apart(administration, {"the main port": listening})
        except ConfigError:
            for each in (listening, administration):
                if each is not None:
                    each.close()
            raise
        self.server.accept_on(listening)
        if administration is not None and self._apart is not None:
            self._apart.bound_to(administration, gethostname())
            self.servers[-1].accept_on(administration)
            log.info("administration is served apart", address=administration.address)
        self.exporting.begin()
        return listening.address

    async def _exporting(self) -> Exporting:
        config = self._config
        listening = await Exporting.bind(config.metrics, config.allow_unauthenticated)
        labels = LabelSets({**config.metrics.extra_labels, "node_type": "namesrv"})
        limiting = Limiting(config.metrics.metrics_otel_cardinality_limit)
        source = MetricsSource(NamesrvMetrics(labels, self.table, self.server).collect, limiting, list)
        return Exporting(config.metrics, listening, source, clock=self._clock, rng=self._rng)

    async def stop(self) -> None:
        """Finish requests in work, then stop. What the table knows is gone then: brokers register again."""
        self._is_stopping = True
        if self.exporting is not None:
            await self.exporting.stop()
        for server in self.servers:
            await server.stop(self._config.shutdown_wait_time_seconds)
        if self.expiry is not None:
            self.expiry.cancel()
            await asyncio.wait((self.expiry,))
        await self._announcer.close()
        await self._client.close()
        await self._kv.close()
        await self.access.close()

    def _connection_lost(self, peer: Peer) -> None:
        if not self._is_stopping:  # then it was us, and nobody has left
            self._announcer.departed(self.table.channel_lost(peer), "broker connection lost")


async def run(
    loaded: Loaded[NamesrvConfig],
    *,
    clock: Clock,
    rng: random.Random,
    ready: Callable[[str], None],
    stop_wanted: asyncio.Event,
    budget: Budget | None = None,
) -> None:
    """Serve until `stop_wanted` is set. `ready` gets the address once connections are taken.

    `budget`: of this process, where something else runs in it too."""
    load_dialect()
    shared, budget = budget, budget or budget_of_process(reserved=loaded.config.reserved_descriptors)
    for notice in loaded.notices:
        log.warning("configuration", notice=notice)
    config = loaded.config
    if config.access.holds_secrets:
        forbid_core_dumps()
    if not config.access.authentication_enabled:
        others = config.administration.admin_listeners
        config.warn_of_strangers(log, (config.bind_address, config.listen_port), *others)
    hosts = (config.bind_address, *config.administration.admin_hosts)
    warn_of_open_keys(log, [config.users_path.with_suffix(".key"), *config.key_files(config.tls_folder)])
    loaded = with_certificate("namesrv", loaded, config, config.tls_folder, hosts, clock.now_ms())
    async with AsyncExitStack() as stack:
        run_blocking = stack.enter_context(helper_threads(1))
        folder = loaded.config.audit_folder_unless_named
        audit = await stack.enter_async_context(audit_log("namesrv", loaded.config.audit, folder, clock, run_blocking))
        namesrv = NameServer(loaded, clock=clock, rng=rng, budget=budget, run_blocking=run_blocking, audit=audit)
        stack.push_async_callback(namesrv.stop)
        address = await namesrv.listen()
        if shared is None:
            budget.log_shares()
        if config.order_message_enable:
            log.info("order topics keep their queues while a broker is away: orderMessageEnable, which Java has off")
        log_certificate("namesrv", loaded.config)
        ready(address)
        namesrv.start_loops()
        await stop_wanted.wait()
    log.info("name server stopped")
