"""The controller's composition root: makes the parts, starts them in order, stops them in reverse. Nothing else.

The command line calls `run`. Tests make a `Controller` with a coordination store of their own.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress

from .. import logs
from ..access.in_file import AccessInFile, RunBlocking
from ..access.sharing.calls import user_sharing
from ..ambient import Clock
from ..audit.log import AuditLog
from ..audit.opening import audit_log
from ..config import Live, Loaded
from ..coordination.etcd import EtcdCoordination
from ..coordination.store import Coordination, CoordinationUnreachable
from ..machine.budget import Budget, budget_of_process
from ..machine.core_dumps import forbid_core_dumps
from ..machine.helper_threads import helper_threads
from ..machine.open_keys import warn_of_open_keys
from ..protocol.json import load_dialect
from ..supervision import Loops
from ..transport.address import is_loopback
from ..transport.certificates.self_signed import log_certificate, with_certificate
from ..transport.client import Connect, RemotingClient
from ..transport.dispatch import Dispatcher, allow_all
from ..transport.limits import Limits
from ..transport.peer import Peer
from ..transport.server import Server
from ..transport.settings import served_limits
from ..transport.turns.access_audit import AccessAudit
from ..transport.turns.auditing import Auditing
from ..transport.turns.loop_holds import LoopHolds
from .config import CONTROLLER_KEYS, ControllerConfig
from .controlled_sets import ControlledSets
from .elected_sets import ElectedSets, NoElectedSets
from .elections import Elections
from .failover import Failover
from .heartbeats import HeardBrokers
from .leadership import ControllerPlace, Leadership
from .operator_requests import OperatorRequests
from .set_requests import SetRequests
from .surface import surface

log = logs.get("pyromq.controller")


class Controller:
    """Event loop only. It listens before it takes part: its name and address are known then."""

    def __init__(
        self,
        loaded: Loaded[ControllerConfig],
        coordination: Coordination,
        *,
        clock: Clock,
        rng: random.Random,
        connect: Connect | None = None,
        run_blocking: RunBlocking = asyncio.to_thread,
        budget: Budget | None = None,
        elected: ElectedSets | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        """`elected`: who knows the sets that elect their masters themselves, over this store."""
        config, elected = loaded.config, elected or NoElectedSets()
        budget = budget or Budget()
        self._config = config
        self._is_stopping = False
        self._address = ""  # where brokers reach it, from `join` on
        self.live = Live(loaded, CONTROLLER_KEYS, config.overlay_path)
        self.access = AccessInFile(
            config.access,
            config.users_path,
            server=f"{config.bind_address}:{config.port}",
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
        self._sets = ControlledSets(coordination, config.coordination.etcd_prefix)
        self._heard = HeardBrokers(clock)
        self.leadership = Leadership(
            coordination, clock, config.controller_dleger_group, config.coordination.etcd_prefix
        )
        self._elections = Elections(self._sets, self._heard, self.live, self._client, clock)
        self._failover = Failover(self._sets, self._heard, self._elections, self.leadership, self.live, clock)
        handlers = surface(
            SetRequests(self._sets, elected, self._heard, self._elections, self.live),
            OperatorRequests(self._sets, elected, self._heard, self.leadership, self.live),
            self.leadership,
            None if self.access.gate is None else self.access.admin,
        )
        if audit is not None:
            described = AccessAudit(audit, self.access.table.directory)
            described.watch(self.access.gate)
            described.watch_arrivals()
            handlers = Auditing(audit, described.describe).around(handlers)
        self._elected = elected
        self._users_shared = (
            None
            if self.access.gate is None
            else user_sharing(self.access.admin, self._client, self._others, rng, clock)
        )
        self.server = Server(
            Dispatcher(LoopHolds(clock, config.limits().loop_hold_ms).around(handlers), self.access.gate or allow_all),
            clock=clock,
            limits=served_limits(config, budget.memory_bytes, asks=self.access.gate is not None),
            tls=config.server_tls(),
            on_close=self._connection_lost,
            quota=budget.quota,
            name="controller",
        )
        self.loops = Loops(clock, log)
        self._tasks: list[asyncio.Task[None]] = []

    async def listen(self) -> str:
        """Return the address, with the port that was chosen where the setting says 0."""
        return await self.server.start(self._config.bind_address.strip("[]"), self._config.port)

    async def join(self, address: str) -> None:
        """Take part as the controller that brokers reach at `address`, unless controllerDLegerPeers says where."""
        self._address = known = self._config.own_peer or address
        await self.leadership.join(ControllerPlace(self._config.controller_dleger_self_id or known, known))
        loops = {
            "leadership": self.leadership.keep,
            "replacing masters": self._failover.replace,
            "silent brokers": self._failover.expire,
            "missing masters": self._failover.find_missing_masters,
        }
        if self._users_shared is not None:
            loops["users of other servers"] = self._users_shared.run
        running = asyncio.get_running_loop()
        self._tasks = [running.create_task(self.loops.keep(name, begin)) for name, begin in loops.items()]

    async def stop(self) -> None:
        """Let another controller lead, finish requests in work, then stop."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        with suppress(CoordinationUnreachable):  # then the lease ends by itself
            await self.leadership.leave()
        await self.server.stop(self._config.shutdown_wait_time_seconds)
        await self._elections.close()
        await self._client.close()
        await self.access.close()

    async def _others(self) -> list[str]:
        """Return the addresses of the other controllers, and of all brokers that the coordination store knows."""
        controllers = [one.address for one in self.leadership.peers.values() if one.address != self._address]
        led = [
            one.address for found in await self._sets.all() if found.content for one in found.content.replicas.values()
        ]
        return sorted({*controllers, *filter(None, led), *await self._elected.addresses()})

    def _connection_lost(self, peer: Peer) -> None:
        if not self._is_stopping:  # then it was us, and nobody has left
            self._failover.departed(self._heard.lost(peer), "broker connection lost")


async def run(
    loaded: Loaded[ControllerConfig],
    *,
    clock: Clock,
    rng: random.Random,
    ready: Callable[[str], None],
    stop_wanted: asyncio.Event,
    elected: Callable[[Coordination], ElectedSets] | None = None,
) -> None:
    """Serve until `stop_wanted` is set. `ready` gets the address once connections are taken.

    `elected` makes who knows the sets that elect their masters themselves."""
    load_dialect()
    config = loaded.config
    if config.access.holds_secrets:
        forbid_core_dumps()
    budget = budget_of_process(reserved=config.reserved_descriptors)
    for notice in loaded.notices:
        log.warning("configuration", notice=notice)
    if not config.access.authentication_enabled:
        config.warn_of_strangers(log, (config.bind_address, config.port))
    warn_of_open_keys(log, [config.users_path.with_suffix(".key"), *config.key_files(config.tls_folder)])
    loaded = with_certificate("controller", loaded, config, config.tls_folder, [config.bind_address], clock.now_ms())
    async with AsyncExitStack() as stack:
        etcd = await stack.enter_async_context(EtcdCoordination(config.coordination.etcd(), clock))
        log.info("coordination store", etcd=await etcd.check())
        sets = None if elected is None else elected(etcd)
        run_blocking = stack.enter_context(helper_threads(1))
        folder = config.audit_folder_unless_named
        audit = await stack.enter_async_context(audit_log("controller", config.audit, folder, clock, run_blocking))
        controller = Controller(
            loaded, etcd, clock=clock, rng=rng, run_blocking=run_blocking, budget=budget, elected=sets, audit=audit
        )
        stack.push_async_callback(controller.stop)
        address = await controller.listen()
        await controller.join(address)
        budget.log_shares()
        log_certificate("controller", loaded.config)
        ready(address)
        await stop_wanted.wait()
    log.info("controller stopped")
