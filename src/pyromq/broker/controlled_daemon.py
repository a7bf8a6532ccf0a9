"""A replica of a set that a controller leads as a process: gets its number, and lives in whatever role it is named for.

The controller is Java's, or `pyromq controller`; so are the other replicas Java's, or ours.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial

from .. import logs
from ..access.settings import AccessSettings
from ..access.signatures import inner_sign
from ..ambient import Clock, RunBlocking
from ..audit.log import AuditLog
from ..config import Loaded
from ..errors import CallFailed, ConfigError
from ..machine.budget import Budget
from ..protocol.bodies.replication import SyncStateSet
from ..protocol.headers.replication import ElectedMaster
from ..protocol.requests import RequestCode as Code
from ..store.files.real_disk import RealDisk
from ..store.log.thread_flusher import thread_flusher
from ..store.recovery.claim import claimed
from ..supervision import Loops
from ..transport.client import RemotingClient, connect_socket
from ..transport.settings import TransportSettings
from .broker import with_own_certificate
from .broker_life import BrokerLife, LifeParts
from .config import BrokerConfig
from .daemon_loops import until
from .elected.boot_notes import begin_boot_note
from .elected.controlled.controllers import Controllers, named_by
from .elected.controlled.enrolment import enrol
from .elected.controlled.member import ControlledMember, OwnReplica
from .elected.identity import SetName
from .elected.seams import Timings
from .elected_daemon import FollowingTasks, addresses, boot_id, serving
from .replication.asking import ask
from .replication.file_size import file_size_at, with_masters_file_size
from .replication.tables.note import NAME as TABLES_NOTE
from .wiring.listeners import bind_ports

log = logs.get("pyromq.broker")

ASK_AGAIN_S = 1.0
REPEAT_S = 60.0
MOST_HEARTBEAT_MS = 1_000  # so that a master notices in seconds who is gone


async def serve_controlled(
    loaded: Loaded[BrokerConfig],
    *,
    clock: Clock,
    rng: random.Random,
    disk: RealDisk,
    run_blocking: RunBlocking,
    budget: Callable[[], Budget],
    ready: Callable[[str], None],
    stop_wanted: asyncio.Event,
    audit: AuditLog | None = None,
) -> None:
    """Serve until a stop is wanted. `ready` gets the address once this replica serves, in whatever role.

    Raises ConfigError, which says why this replica cannot take part. Controllers that do not answer are waited for."""
    config = loaded.config
    _check(disk)
    async with AsyncExitStack() as stack:
        tls = config.part(TransportSettings).client_tls()
        sign = inner_sign(config.part(AccessSettings))
        client = await stack.enter_async_context(RemotingClient(clock=clock, rng=rng, tls=tls, sign=sign))
        name = SetName(config.broker_cluster_name, config.broker_name)
        controllers = Controllers(client, clock, config.controller_mode.controller_addr, name.cluster, name.broker)
        ports = await bind_ports(config)
        stack.callback(ports.close)
        address, _ = addresses(config, ports)
        me = await _enrolled(controllers, disk, name, address, clock, stop_wanted)
        if me is None:
            return
        log.info("this broker is a replica of a set that a controller leads", replica=me, controller=controllers.leader)
        with claimed(disk):
            asked = partial(_masters_file_size, client, controllers, config, address)
            loaded = await with_masters_file_size(loaded, disk, asked)
        loaded = with_own_certificate(loaded, config.tls_folder, clock)
        timings = _timings(config)

        def take_notice(header: ElectedMaster, members: SyncStateSet) -> None:
            member.take_named(named_by(header, members))

        parts = LifeParts(
            loaded=loaded,
            clock=clock,
            rng=rng,
            disk=disk,
            flusher=lambda: thread_flusher(disk),
            run_blocking=run_blocking,
            budget=budget,
            connect=connect_socket,
            ports=ports,
            timings=timings,
            places=lambda: member.places,
            note=begin_boot_note(disk, boot_id(), acks_synced=config.replication.ha_ack_after_flush),
            audit=audit,
            told=take_notice,
        )
        life = BrokerLife(parts, me)
        following = FollowingTasks(clock, life.failed)
        own = OwnReplica(
            name=name,
            address=address,
            minimum=config.replication.controlled_minimum,
            settings=config.controller_mode,
            ha_address_of=partial(_ha_address, client),
        )
        member = ControlledMember(me, life, controllers, clock, rng, following.spawn, own=own, timings=timings)
        served = await life.open()
        stack.push_async_callback(life.close)
        stack.push_async_callback(following.close)
        stack.push_async_callback(_leave, member, client)
        keep = Loops(clock, log).keep
        loops = [keep(loop.__name__.replace("_", " "), loop) for loop in member.loops()]
        await until(stop_wanted, [*loops, *serving(life, served, ready, stop_wanted)])
    log.info("broker stopped")


def _check(disk: RealDisk) -> None:
    if disk.exists(TABLES_NOTE):
        raise ConfigError(
            f"{disk.root} is of a set that elects its master over etcd, whose log carries its tables ({TABLES_NOTE}): "
            "start it with etcdEndpoints, or this replica with an empty storePathRootDir"
        )


def _timings(config: BrokerConfig) -> Timings:
    """Return times that fit replicas of Java's, too: those say nothing for `haSendHeartbeatInterval`."""
    settings, controller_mode = config.replication, config.controller_mode
    return Timings(
        silence_s=min(settings.ha_housekeeping_interval, controller_mode.ha_max_time_slave_not_catchup) / 1000,
        heartbeat_s=min(settings.ha_send_heartbeat_interval, MOST_HEARTBEAT_MS) / 1000,
    )


async def _enrolled(
    controllers: Controllers, disk: RealDisk, name: SetName, address: str, clock: Clock, stop_wanted: asyncio.Event
) -> int | None:
    """Return the number of this replica; None: a stop was wanted before a controller answered."""
    limited = logs.Limited(log, clock, REPEAT_S)
    while not stop_wanted.is_set():
        try:
            return await enrol(controllers, disk, name, address, clock)
        except CallFailed as fault:
            limited.warning("no controller takes this broker in yet", why=str(fault))
        with suppress(TimeoutError):
            async with clock.timeout(ASK_AGAIN_S):
                await stop_wanted.wait()
    return None


async def _masters_file_size(
    client: RemotingClient, controllers: Controllers, config: BrokerConfig, own: str
) -> int | None:
    """Return the size of the master's log files; None: there is no other broker that leads, or it does not say."""
    try:
        master = (await controllers.named()).address
    except CallFailed as fault:
        log.warning("no controller says who is master: an empty replica begins with its own file size", why=str(fault))
        return None

    async def find() -> str:
        return master

    return None if master in ("", own) else await file_size_at(client, config, find)


async def _ha_address(client: RemotingClient, master: str) -> str:
    """Return where a master's log is. CallFailed: it does not say."""
    header, _ = await ask(client, master, Code.EXCHANGE_BROKER_HA_INFO)
    if not header.master_ha_address:
        raise CallFailed(f"{master} does not lead yet")
    return header.master_ha_address


async def _leave(member: ControlledMember, client: RemotingClient) -> None:
    """Give way before the process ends: controllers elect as soon as the connection to them is closed."""
    await member.resign()
    member.leave_master()
    await client.close()
