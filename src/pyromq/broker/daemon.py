"""The broker as a process: its disk, its threads, and its loops until a stop is wanted. The command line calls it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack

from .. import logs
from ..access.table import KEY
from ..ambient import Clock
from ..audit.opening import audit_log
from ..audit.settings import AuditSettings
from ..config import Loaded
from ..machine.budget import Budget, budget_of_process
from ..machine.core_dumps import forbid_core_dumps
from ..machine.garbage import settled
from ..machine.helper_threads import helper_threads
from ..machine.open_keys import warn_of_open_keys
from ..protocol.json import load_dialect
from ..store.files.real_disk import RealDisk
from ..store.log.thread_flusher import thread_flusher
from ..store.recovery.nesting import check_not_above, check_not_inside
from ..transport.address import format_address
from ..transport.certificates.self_signed import log_certificate
from ..transport.settings import TransportSettings
from ..transport.turns.apart import AdminListenerSettings
from .broker import Broker
from .config import BrokerConfig
from .controlled_daemon import serve_controlled
from .daemon_loops import until
from .elected_daemon import serve_elected

log = logs.get("pyromq.broker")

KNOWN_WITHIN_S = 1.0  # a name server that does not answer holds nobody up
SPARE_FILES = 4  # descriptors, of those that no share covers
BLOCKING_THREADS = 4  # one for the log's sync, one for everything derived, one for cold reads, one for the audit log


async def run(
    loaded: Loaded[BrokerConfig],
    *,
    clock: Clock,
    rng: random.Random,
    ready: Callable[[str], None],
    stop_wanted: asyncio.Event,
    budget: Budget | None = None,
    grpc_ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until `stop_wanted` is set. `ready` gets the address once name servers know it.

    `grpc_ready` gets the address of the gRPC port just before, if there is one. `budget`:
    of this process, where something else runs in it too."""
    load_dialect()
    config = loaded.config
    config.check_daemon()
    if config.access.holds_secrets:
        forbid_core_dumps()
    reserved = config.part(TransportSettings).reserved_descriptors
    shared, budget = budget, budget or budget_of_process(queue_files=config.max_open_queue_files, reserved=reserved)
    for notice in loaded.notices:
        log.warning("configuration", notice=notice)
    _warn_of_strangers(config)
    keys = config.part(TransportSettings).key_files(config.tls_folder)
    warn_of_open_keys(log, [config.store_path_root_dir / KEY, *keys])
    async with AsyncExitStack() as stack:
        run_blocking = stack.enter_context(helper_threads(BLOCKING_THREADS))
        check_not_inside(config.store_path_root_dir)
        check_not_above(config.store_path_root_dir)
        disk = RealDisk(config.store_path_root_dir, create=True, spares=SPARE_FILES)
        stack.callback(disk.close)
        folder = config.audit_folder_unless_named
        audit = await stack.enter_async_context(
            audit_log("broker", config.part(AuditSettings), folder, clock, run_blocking)
        )
        if config.is_elected:
            stack.enter_context(settled())  # not a life that may be over soon, but what all of them use
            serve = serve_controlled if config.is_controlled else serve_elected
            await serve(
                loaded,
                clock=clock,
                rng=rng,
                disk=disk,
                run_blocking=run_blocking,
                budget=lambda: budget_of_process(queue_files=config.max_open_queue_files, reserved=reserved),
                ready=ready,
                stop_wanted=stop_wanted,
                audit=audit,
            )
            return
        broker = await Broker.open(
            loaded,
            clock=clock,
            rng=rng,
            disk=disk,
            flusher=thread_flusher(disk),
            run_blocking=run_blocking,
            budget=budget,
            tls_folder=config.tls_folder,
            audit=audit,
        )
        stack.push_async_callback(broker.stop)
        address = await broker.start()
        if shared is None:
            budget.log_shares()
        log_certificate("broker", broker.environment.transport)
        stack.enter_context(settled())

        async def announce() -> None:
            await broker.naming.registration.registered(KNOWN_WITHIN_S)  # clients find its topics then
            if broker.listeners.ports.grpc is not None:
                grpc_ready(format_address(config.advertised_host, broker.listeners.ports.grpc_port))
            ready(address)
            await stop_wanted.wait()

        await until(stop_wanted, [*broker.loops(), announce()])
    log.info("broker stopped")


def _warn_of_strangers(config: BrokerConfig) -> None:
    if not config.access.authentication_enabled:
        others = config.part(AdminListenerSettings).admin_listeners
        config.part(TransportSettings).warn_of_strangers(log, (config.bind_address, config.listen_port), *others)
