"""Simulated machines: one with a broker of an elected set, one with a name server, one with clients of the SDK.

A broker is the product's own from `take_part` on (broker/elected_daemon.py): composition, requests, store, replication.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from pyromq.ambient import Random, Timer, seeded_random
from pyromq.broker.broker_life import BrokerLife
from pyromq.broker.config import BrokerConfig
from pyromq.broker.elected.member import ElectedMember
from pyromq.broker.elected_daemon import Machine, take_part
from pyromq.broker.wiring.listeners import Ports
from pyromq.client.client import Client
from pyromq.client.config import ClientConfig
from pyromq.config import Loaded
from pyromq.machine.budget import Budget
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.store.message_store import run_at_once
from pyromq.testing.coordination import SimulatedCoordination
from pyromq.testing.in_process import SMALL_FILES
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.cluster.network import Network
from tests.cluster.processes import OutsideClock, ProcessLoop, SimulatedProcess

T = TypeVar("T")

MAIN, HA, FAST, NAMES = 10911, 10912, 10909, 9876
NAME = "broker-a"
SETTINGS: dict[str, Any] = SMALL_FILES | {
    "broker_name": NAME,
    "listen_port": MAIN,
    "bind_address": "0.0.0.0",
    "allow_unauthenticated": True,
    "timer_wheel_slots": 2000,
    "max_loop_lag_ms": 1 << 40,
    "wait_time_mills_in_send_queue": 60_000,
    "etcd_endpoints": ("http://10.0.9.9:2379",),
}


EPOCH_MS = 1_700_000_000_000  # of clocks that are right, when a run begins


def seconds_of(wall_ms: int) -> float:
    """Return the time outside at which a clock that is right says this."""
    return (wall_ms - EPOCH_MS) / 1000


class MachineClock:
    """The clock of one machine: it may run fast or slow, and its wall clock may jump, or stand."""

    def __init__(self, outside: OutsideClock) -> None:
        self._outside = outside
        self._rate = 1.0  # seconds of this clock for one outside
        self._since, self._passed_s = outside.monotonic(), 0.0
        self._step_ms = 0
        self._stands_at: int | None = None

    def monotonic(self) -> float:
        return self._passed_s + (self._outside.monotonic() - self._since) * self._rate

    def now_ms(self) -> int:
        return self._running_ms() if self._stands_at is None else self._stands_at

    def _running_ms(self) -> int:
        return EPOCH_MS + self._step_ms + round(self.monotonic() * 1000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._rate)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        return asyncio.get_running_loop().call_later(seconds / self._rate, callback, *args)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(None if seconds is None else seconds / self._rate)

    def run_at(self, rate: float) -> None:
        self._passed_s, self._since = self.monotonic(), self._outside.monotonic()
        self._rate = rate

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self._step_ms += round(seconds * 1000)

    def stand(self, stands: bool) -> None:
        """Let the wall clock stand, or go on where it would be."""
        self._stands_at = self.now_ms() if stands else None


class Surroundings:
    """What all machines of a simulated cluster share."""

    def __init__(self, loop: ProcessLoop, seed: int, folder: Path) -> None:
        self.loop, self.folder = loop, folder
        self.rng = seeded_random(seed)
        self.clock = OutsideClock(loop)
        self.network = Network(self.clock, self.rng)
        self.store = SimulatedCoordination(self.clock, self.rng)
        self.processes: list[SimulatedProcess] = []

    def process(self, name: str) -> SimulatedProcess:
        made = SimulatedProcess(self.loop, name, self.rng)
        self.processes.append(made)
        return made


class MachineMember(ElectedMember):
    """The product's member, known to its machine. Planted bugs are subclasses."""

    def __init__(self, machine: BrokerMachine, *rest: Any, **more: Any) -> None:
        super().__init__(*rest, **more)
        self.machine = machine
        machine.member = self


class BrokerMachine:
    """One broker after the other on one disk. `fault`: what ended the last one by itself."""

    def __init__(self, around: Surroundings, number: int, name_servers: tuple[str, ...], **settings: Any) -> None:
        self.around, self.number = around, number
        self.host = f"10.0.0.{number}"
        self.clock = MachineClock(around.clock)
        self.disk = SimulatedDisk(now_ms=self.clock.now_ms)
        self.coordination = around.store.member(self.host)
        self.process: SimulatedProcess | None = None
        self.fault: BaseException | None = None
        self.stopping: asyncio.Event | None = None
        self.member: ElectedMember | None = None  # of the present process, once it is that far
        self.kind = MachineMember
        self._boots = 0
        folder = around.folder / str(number)
        own: dict[str, Any] = {"store_path_root_dir": folder, "namesrv_addr": name_servers, "broker_ip1": self.host}
        self._loaded = Loaded(BrokerConfig(**(SETTINGS | own | settings)))

    @property
    def life(self) -> BrokerLife | None:
        """Return the lives of the broker in the present process."""
        return None if self.member is None else cast(BrokerLife, self.member.life)

    @property
    def is_up(self) -> bool:
        return self.process is not None and not self.process.is_over

    def start(self) -> None:
        """Begin a process of the broker; the machine is on then."""
        around = self.around
        around.network.powered.add(self.host)
        self.process = process = around.process(self.host)
        self.fault, self.member, self.stopping = None, None, asyncio.Event()
        main, fast, ha = (around.network.bind(process, f"{self.host}:{port}") for port in (MAIN, FAST, HA))
        machine = Machine(
            disk=self.disk,
            boot_id=f"boot {self._boots}",
            run_blocking=self._run_blocking,
            flusher=lambda: None,
            budget=Budget,
            ports=Ports(main, fast, None, ha),
            connect=around.network.connector(process, self.host),
            coordination=self.coordination,
        )
        process.begin(self._run(process, machine, self.stopping))

    async def _run(self, process: SimulatedProcess, machine: Machine, stop_wanted: asyncio.Event) -> None:
        try:
            await take_part(
                self._loaded,
                machine,
                clock=self.clock,
                rng=self.around.rng,
                ready=lambda _: None,
                stop_wanted=stop_wanted,
                make_member=partial(self.kind, self),
            )
        except Exception as fault:
            self.fault = fault
        finally:
            if not process.is_over:
                self._end(process, power=False)
                self.disk = self.disk.kill()

    async def _run_blocking(self, call: Callable[[], T]) -> T:
        """Run a call of the disk; it takes its time. As in a helper thread, it is done though its caller is cancelled:
        else what a flush had planned to sync would be synced by nobody."""
        try:
            await asyncio.sleep(self.around.rng.random() ** 4 * 0.02)
        except asyncio.CancelledError:
            call()
            raise
        return call()

    def kill(self) -> None:
        """End the process; all that it has written stays."""
        if self.process is not None and self.is_up:
            self._end(self.process, power=False)
            self.disk = self.disk.kill()

    def cut_power(self) -> None:
        """End the machine: nobody hears of it, and what was not synced may go."""
        if self.process is not None and self.is_up:
            self._end(self.process, power=True)
        self.around.network.powered.discard(self.host)
        self.disk.kill()  # whoever still has it finds it off
        self.disk = self.disk.crash(self.around.rng.getrandbits(32))
        self._boots += 1

    def _end(self, process: SimulatedProcess, *, power: bool) -> None:
        process.end()
        self.around.network.leave(process, power=power)


class NameServerMachine:
    """A name server, which knows nothing after a start."""

    def __init__(self, around: Surroundings, number: int) -> None:
        self.around = around
        self.host = f"10.0.1.{number}"
        self.address = f"{self.host}:{NAMES}"
        self.clock = MachineClock(around.clock)
        self.process: SimulatedProcess | None = None
        path = around.folder / f"kv{number}.json"
        self._loaded = Loaded(NamesrvConfig(kv_config_path=path, bind_address="0.0.0.0", allow_unauthenticated=True))

    @property
    def is_up(self) -> bool:
        return self.process is not None and not self.process.is_over

    def start(self) -> None:
        network = self.around.network
        network.powered.add(self.host)
        self.process = process = self.around.process(self.host)

        async def serve() -> None:
            connect = network.connector(process, self.host)
            server = NameServer(
                self._loaded, clock=self.clock, rng=self.around.rng, run_blocking=run_at_once, connect=connect
            )
            server.server.accept_on(network.bind(process, self.address))
            server.start_loops()

        process.begin(serve())

    def kill(self) -> None:
        if self.process is not None and not self.process.is_over:
            self.process.end()
            self.around.network.leave(self.process, power=False)


class ClientMachine:
    """A process with clients of the SDK."""

    def __init__(self, around: Surroundings, number: int, name_servers: tuple[str, ...]) -> None:
        self.around, self.host = around, f"10.0.2.{number}"
        around.network.powered.add(self.host)
        self.process = around.process(self.host)
        self._name_servers = name_servers
        self._clients = 0

    def client(self) -> Client:
        """Make a client, which is not started yet. Steps of it are this process's if it is used in a task of its."""
        self._clients += 1
        config = ClientConfig(name_servers=self._name_servers, instance=f"{self.host}-{self._clients}")
        connect = self.around.network.connector(self.process, self.host)
        rng: Random = self.around.rng
        return Client(config, clock=MachineClock(self.around.clock), rng=rng, connect=connect)
