"""A replica of an elected set as a process: finds its set in etcd, and lives in whatever role the set gives it."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import logs
from ..access.settings import AccessSettings
from ..access.signatures import inner_sign
from ..ambient import Clock, RunBlocking
from ..audit.log import AuditLog
from ..config import Loaded
from ..coordination.etcd import EtcdCoordination
from ..coordination.store import Coordination, CoordinationUnreachable
from ..errors import ConfigError, PyroError
from ..machine.budget import Budget
from ..store.epochs import load_epochs
from ..store.files.disk import Disk
from ..store.files.real_disk import RealDisk
from ..store.log.thread_flusher import ThreadFlusher, thread_flusher
from ..store.recovery.claim import claimed
from ..store.recovery.store_state import read_store_state
from ..supervision import Loops
from ..transport.address import format_address, parse_address
from ..transport.client import Connect, RemotingClient, connect_socket
from ..transport.settings import TransportSettings
from .broker import with_own_certificate
from .broker_life import BrokerLife, LifeParts
from .config import BrokerConfig
from .daemon_loops import until
from .elected.boot_notes import begin_boot_note
from .elected.identity import Claim, SetName, claim_replica
from .elected.member import ElectedMember
from .elected.seams import Timings
from .elected.set_keys import ReplicaPlace, SetKeys
from .election.set_state import decode_state
from .replication.file_size import file_size_at, with_masters_file_size
from .wiring.listeners import Ports, bind_ports

log = logs.get("pyromq.broker")

KNOWN_WITHIN_S = 1.0  # a name server that does not answer holds nobody up
REPEAT_S = 60.0
LEAST_PAUSE_S, MOST_PAUSE_S = 0.05, 2.0  # between tries to follow that fail here
FAULTS_APART_S = 5.0  # then the next one counts as the first
TIMINGS = Timings(silence_s=3.0)
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a replica's process finds around it: `tests/cluster` has simulated ones."""

    disk: Disk
    boot_id: str  # another one after each boot of the system
    run_blocking: RunBlocking
    flusher: Callable[[], ThreadFlusher | None]
    budget: Callable[[], Budget]
    ports: Ports
    connect: Connect
    coordination: Coordination
    audit: AuditLog | None = None


async def serve_elected(
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

    Raises ConfigError, CoordinationRefused or CoordinationUnreachable, which say why this replica cannot take part."""
    config = loaded.config
    async with AsyncExitStack() as stack:
        coordination = await stack.enter_async_context(EtcdCoordination(config.coordination.etcd(), clock))
        log.info("the coordination store is there", etcd=await coordination.check())
        ports = await bind_ports(config)
        stack.callback(ports.close)
        machine = Machine(
            disk=disk,
            boot_id=boot_id(),
            run_blocking=run_blocking,
            flusher=lambda: thread_flusher(disk),
            budget=budget,
            ports=ports,
            connect=connect_socket,
            coordination=coordination,
            audit=audit,
        )
        loaded = await _with_size_of_the_set(loaded, disk, coordination, clock, rng)
        loaded = with_own_certificate(loaded, config.tls_folder, clock)
        await take_part(loaded, machine, clock=clock, rng=rng, ready=ready, stop_wanted=stop_wanted)
    log.info("broker stopped")


async def _with_size_of_the_set(
    loaded: Loaded[BrokerConfig], disk: RealDisk, coordination: Coordination, clock: Clock, rng: random.Random
) -> Loaded[BrokerConfig]:
    """Return the configuration with the size that the log files of the set have, as its master says."""
    config, keys = loaded.config, set_keys(loaded.config)
    found = await coordination.read(keys.prefix)
    stored = found.keys.get(keys.state)
    place = None if stored is None else keys.places_in(found).get(decode_state(stored.value).master)
    tls, sign = config.part(TransportSettings).client_tls(), inner_sign(config.part(AccessSettings))

    async def find() -> str | None:
        return None if place is None else place.address

    async def ask_master() -> int | None:
        async with RemotingClient(clock=clock, rng=rng, tls=tls, sign=sign) as client:
            return None if stored is None else await file_size_at(client, config, find)

    with claimed(disk):
        return await with_masters_file_size(loaded, disk, ask_master)


async def take_part(
    loaded: Loaded[BrokerConfig],
    machine: Machine,
    *,
    clock: Clock,
    rng: random.Random,
    ready: Callable[[str], None],
    stop_wanted: asyncio.Event,
    make_member: Callable[..., ElectedMember] = ElectedMember,
) -> None:
    """Be a replica of the set until a stop is wanted. Raises as `serve_elected`. `make_member`: for simulations."""
    config, disk, coordination = loaded.config, machine.disk, machine.coordination
    async with AsyncExitStack() as stack:
        keys = set_keys(config)
        me = await claim_replica(coordination, keys, disk, _claim(config, disk, machine.ports), rng)
        log.info("this broker is a replica of an elected set", replica=me, keys=keys.prefix)
        parts = LifeParts(
            loaded=loaded,
            clock=clock,
            rng=rng,
            disk=disk,
            flusher=machine.flusher,
            run_blocking=machine.run_blocking,
            budget=machine.budget,
            connect=machine.connect,
            ports=machine.ports,
            timings=TIMINGS,
            audit=machine.audit,
            places=lambda: _places(member, keys),
            note=begin_boot_note(disk, machine.boot_id, acks_synced=config.replication.ha_ack_after_flush),
        )
        life = BrokerLife(parts, me)
        following = FollowingTasks(clock, life.failed)
        minimum = config.replication.elected_minimum
        member = make_member(
            me, life, coordination, keys, clock, rng, following.spawn, minimum=minimum, timings=TIMINGS
        )
        address = await life.open()
        stack.push_async_callback(life.close)
        stack.push_async_callback(following.close)
        stack.push_async_callback(_leave, member)
        await until(stop_wanted, [*_loops(member, clock), *serving(life, address, ready, stop_wanted)])


def boot_id() -> str:
    """Return what is another one after each boot of the system."""
    return BOOT_ID.read_text().strip()


def set_keys(config: BrokerConfig) -> SetKeys:
    """Return the keys of the set that this broker is configured for."""
    return SetKeys(f"{config.coordination.etcd_prefix.rstrip('/')}/{config.broker_cluster_name}/{config.broker_name}/")


def addresses(config: BrokerConfig, ports: Ports) -> tuple[str, str]:
    """Return where clients and where other replicas reach this one; the port for those listens from here on."""
    if ports.ha is None:
        raise ConfigError("the port for other replicas cannot be bound: name a free one by haListenPort")
    ports.ha.listen()  # who connects while this replica is about to lead waits, and does not find it gone
    host = config.advertised_host
    return format_address(host, parse_address(ports.main.address)[1]), format_address(host, ports.ha_port)


def _claim(config: BrokerConfig, disk: Disk, ports: Ports) -> Claim:
    address, ha_address = addresses(config, ports)
    with claimed(disk):
        epochs, synced = load_epochs(disk), read_store_state(disk).synced or 0
    return Claim(
        name=SetName(config.broker_cluster_name, config.broker_name),
        address=address,
        ha_address=ha_address,
        epochs=epochs,
        has_records=synced > 0,
    )


def _places(member: ElectedMember, keys: SetKeys) -> dict[int, ReplicaPlace]:
    return {} if member.snapshot is None else keys.places_in(member.snapshot)


def _loops(member: ElectedMember, clock: Clock) -> list[Coroutine[Any, Any, None]]:
    keep = Loops(clock, log).keep
    return [
        keep("lease of the elected set", member.keep_lease),
        keep("watch of the elected set", member.keep_watching),
        keep("role in the elected set", member.keep_role),
    ]


def serving(
    life: BrokerLife, address: str, ready: Callable[[str], None], stop_wanted: asyncio.Event
) -> list[Coroutine[Any, Any, None]]:
    """Return what ends with the daemon besides its loops: `ready` is called, and faults of lives are raised."""
    return [_announce(life, address, ready, stop_wanted), _raised(life)]


async def _announce(life: BrokerLife, address: str, ready: Callable[[str], None], stop_wanted: asyncio.Event) -> None:
    await life.broker.naming.registration.registered(KNOWN_WITHIN_S)
    ready(address)
    await stop_wanted.wait()


async def _raised(life: BrokerLife) -> None:
    """Raise the fault of a loop that nobody supervises."""
    await asyncio.shield(life.failed)


async def _leave(member: ElectedMember) -> None:
    """Give way before the process ends, and let the set know that this replica is gone."""
    await member.resign()
    member.leave_master()
    if member.presence.lease is not None:
        with suppress(CoordinationUnreachable):
            await member.presence.lease.release()


class FollowingTasks:
    """The tasks in which a member follows: what ends one of them is said, and the member tries again.

    It does so at once, since the store is closed at each change of roles, but not for ever: a follower whose disk is
    full would connect many times a second, each time to be sent what it cannot keep."""

    def __init__(self, clock: Clock, failed: asyncio.Future[None]) -> None:
        self._clock = clock
        self._pause_s, self._failed_at = 0.0, -math.inf
        self._limited = logs.Limited(log, clock, REPEAT_S)
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, part: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin a task."""
        task = asyncio.get_running_loop().create_task(self._guarded(part))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, part: Coroutine[Any, Any, None]) -> None:
        try:
            await part
        except PyroError as fault:
            self._limited.warning("the master is not followed now", why=str(fault))
            await self._clock.sleep(self._next_pause())
        except Exception as fault:
            if not self._failed.done():
                self._failed.set_exception(fault)

    def _next_pause(self) -> float:
        """Return how long to wait before the next try: nothing at first, then more with each fault that follows."""
        now = self._clock.monotonic()
        is_another = now - self._failed_at < FAULTS_APART_S
        self._pause_s = min(MOST_PAUSE_S, max(LEAST_PAUSE_S, 2 * self._pause_s)) if is_another else 0.0
        self._failed_at = now
        return self._pause_s

    async def close(self) -> None:
        """End what is left of them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
