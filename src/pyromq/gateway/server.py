"""The gateway's composition root: a session with the cluster, the endpoint's services over it, one listener."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack

from .. import logs
from ..ambient import Clock
from ..client.config import ClientConfig
from ..client.connect.session import Session
from ..config import Loaded
from ..errors import ConfigError, PyroError
from ..machine.budget import budget_of_process
from ..protocol.json import load_dialect
from ..protocol.requests import RequestCode
from ..proxy.config import NO_PORT
from ..proxy.methods import methods
from ..proxy.services import Services
from ..supervision import Loops
from ..transport.address import format_address, parse_address
from ..transport.dispatch import Dispatcher, Reply, Request
from ..transport.listening import bind
from ..transport.self_signed import log_certificate, with_certificate
from ..transport.server import Server
from ..transport.turns.slices import Slices
from .cluster_view import ClusterView
from .config import GatewayConfig
from .remote import RemoteBackend
from .tunnel import Tunnel

log = logs.get("pyromq.gateway")


class Gateway:
    """Event loop only. `listen` first, `stop` last."""

    def __init__(self, config: GatewayConfig, *, clock: Clock, rng: random.Random) -> None:
        self.config = config
        self._clock = clock
        settings = config.endpoint
        client = ClientConfig(
            name_servers=config.namesrv_addr,
            tls=config.client_tls(),
            heartbeat_s=config.transaction_heartbeat_period_second,
        )
        handlers = {RequestCode.CHECK_TRANSACTION_STATE.code: self._check}
        self.session = Session(client, clock=clock, rng=rng, handlers=handlers)
        self.view = view = ClusterView(self.session, clock, config)
        self.backend = RemoteBackend(self.session, view, settings, clock)
        self.services = Services(self.backend, settings, clock, rng)
        self.backend.clients = self.services.clients
        self.methods = methods(self.services)
        self.tunnel = Tunnel(view, clock, rng, config.client_tls())
        self._dispatch = Dispatcher(self.tunnel.handlers(), slices=Slices(clock))
        self.servers = [self._server("grpc")]
        if config.remoting_listen_port != NO_PORT:
            self.servers.append(self._server("remoting"))
        self._loops = Loops(clock, log)
        self._silent: asyncio.Task[None] | None = None

    def _server(self, name: str) -> Server:
        config = self.config
        return Server(
            self._dispatch,
            clock=self._clock,
            limits=config.limits(),
            tls=config.server_tls(),
            methods=self.methods,
            proxy_preamble=config.endpoint.grpc_proxy_protocol,
            on_close=self.tunnel.lost,
            name=name,
        )

    def _check(self, request: Request) -> Reply | None:
        return self.backend.check(request)

    async def listen(self) -> str:
        """Bind and serve; return the address of gRPC clients. ConfigError says why not."""
        config = self.config
        host, shared = config.bind_address.strip("[]"), config.shares_its_port
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
        self.session.start()
        self._silent = asyncio.get_running_loop().create_task(self._loops.keep("silent clients", self.backend.run))
        for server, bound in zip(self.servers, listening, strict=True):
            server.accept_on(bound)
        return listening[0].address

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
            if not masters:
                servers = ";".join(self.config.namesrv_addr)
                log.warning("no broker is registered yet: calls are refused until one is", name_servers=servers)
            return

    async def stop(self) -> None:
        """Finish calls under way, give back what clients hold, leave the cluster."""
        for server in self.servers:
            await server.stop(self.config.grpc_shutdown_time_seconds)
        await self.tunnel.close()
        if self._silent is not None:
            self._silent.cancel()
            await asyncio.wait((self._silent,))
        await self.services.close()
        await self.session.stop()


async def run(
    loaded: Loaded[GatewayConfig],
    *,
    clock: Clock,
    rng: random.Random,
    ready: Callable[[str], None],
    stop_wanted: asyncio.Event,
) -> None:
    """Serve until `stop_wanted` is set. `ready` gets the address once a name server answers."""
    load_dialect()
    for notice in loaded.notices:
        log.warning("configuration", notice=notice)
    budget_of_process(reserved=loaded.config.reserved_descriptors).log_shares()
    config, hosts = loaded.config, [loaded.config.bind_address]
    config = with_certificate("proxy", loaded, config, config.tls_folder, hosts, clock.now_ms()).config
    async with AsyncExitStack() as stack:
        gateway = Gateway(config, clock=clock, rng=rng)
        stack.push_async_callback(gateway.stop)
        address = await gateway.listen()
        log_certificate("proxy", config)
        loop = asyncio.get_running_loop()
        stopped, reached = loop.create_task(stop_wanted.wait()), loop.create_task(gateway.reach_cluster())
        await asyncio.wait((stopped, reached), return_when=asyncio.FIRST_COMPLETED)
        if reached.done():
            reached.result()
            ready(address)
        else:
            reached.cancel()
            await asyncio.wait((reached,))
        await stopped
    log.info("gateway stopped")
