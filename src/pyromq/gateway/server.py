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
from ..machine.budget import budget_of_process
from ..protocol.json import load_dialect
from ..protocol.requests import RequestCode
from ..proxy.methods import methods
from ..proxy.services import Services
from ..supervision import Loops
from ..transport.address import parse_address
from ..transport.dispatch import Dispatcher, Reply, Request
from ..transport.listening import bind
from ..transport.server import Server
from .cluster_view import ClusterView
from .config import GatewayConfig
from .remote import RemoteBackend

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
        keep_s = config.topic_route_service_cache_expired_in_seconds
        self.backend = RemoteBackend(self.session, ClusterView(self.session, clock, keep_s), settings, clock)
        self.services = Services(self.backend, settings, clock, rng)
        self.backend.clients = self.services.clients
        self.methods = methods(self.services)
        self.server = Server(
            Dispatcher({}),
            clock=clock,
            limits=config.limits(),
            tls=config.server_tls(),
            methods=self.methods,
            name="grpc",
        )
        self._loops = Loops(clock, log)
        self._silent: asyncio.Task[None] | None = None

    def _check(self, request: Request) -> Reply | None:
        return self.backend.check(request)

    async def listen(self) -> str:
        """Bind and serve; return the address. ConfigError says why not."""
        config = self.config
        listening = await bind(config.bind_address.strip("[]"), config.port, shared=config.shares_its_port)
        self.backend.port = parse_address(listening.address)[1]
        self.session.start()
        self._silent = asyncio.get_running_loop().create_task(self._loops.keep("silent clients", self.backend.run))
        self.server.accept_on(listening)
        return listening.address

    async def stop(self) -> None:
        """Finish calls under way, give back what clients hold, leave the cluster."""
        await self.server.stop(self.config.grpc_shutdown_time_seconds)
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
    """Serve until `stop_wanted` is set. `ready` gets the address once calls are taken."""
    load_dialect()
    for notice in loaded.notices:
        log.warning("configuration", notice=notice)
    budget_of_process(reserved=loaded.config.reserved_descriptors).log_shares()
    async with AsyncExitStack() as stack:
        gateway = Gateway(loaded.config, clock=clock, rng=rng)
        stack.push_async_callback(gateway.stop)
        ready(await gateway.listen())
        await stop_wanted.wait()
    log.info("gateway stopped")
