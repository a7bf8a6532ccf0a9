"""Controllers in the test's process, over the simulations' coordination store; frames in, decoded responses out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyromq.ambient import seeded_random
from pyromq.audit.log import AuditLog
from pyromq.config import Loaded
from pyromq.controller.config import ControllerConfig
from pyromq.controller.server import Controller
from pyromq.protocol.bodies.replication import SyncStateSet
from pyromq.protocol.command import Command
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.headers import replication as headers
from pyromq.protocol.headers.header import Header
from pyromq.protocol.headers.namesrv import BrokerHeartbeat
from pyromq.protocol.requests import RequestCode as Code
from pyromq.store.message_store import run_at_once
from pyromq.testing.coordination import CoordinationMember, SimulatedCoordination
from pyromq.testing.virtual_time import VirtualClock
from pyromq.transport.memory import MemoryNetwork
from tests.wire import FrameDecoder

CLUSTER, NAME = "HaCluster", "broker-a"


class Talk(asyncio.Protocol):
    """One connection, by frames: to a controller, or of a broker that is told something."""

    def __init__(self) -> None:
        self._decoder = FrameDecoder()
        self.received: asyncio.Queue[Command] = asyncio.Queue()
        self._stream: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream = transport

    def data_received(self, data: bytes) -> None:
        for command in self._decoder.feed(data):
            self.received.put_nowait(command)

    async def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        return await self.ask_command(Command(code, fields=header.to_fields() if header else {}, body=body))

    async def ask_command(self, request: Command) -> Command:
        self._stream.write(encode_frame(request))
        return await self.received.get()

    def close(self) -> None:
        self._stream.abort()


class World:
    """A coordination store, and the controllers over it by name. Virtual time."""

    def __init__(self, clock: VirtualClock, folder: Path, **settings: Any) -> None:
        self.clock = clock
        self.folder = folder
        self.settings = settings
        self.store = SimulatedCoordination(clock, seeded_random(1))
        self.network = MemoryNetwork()
        self.controllers: dict[str, Controller] = {}
        self.members: dict[str, CoordinationMember] = {}

    async def start(self, name: str = "n0", audit: AuditLog | None = None) -> Controller:
        facts: dict[str, Any] = {
            "etcd_endpoints": ("http://unused:2379",),
            "controller_dleger_self_id": name,
            "controller_store_path": self.folder / name,
            "tls_test_mode_enable": False,
        }
        config = ControllerConfig(**facts, **self.settings)
        self.members[name] = self.store.member(name)
        controller = Controller(
            Loaded(config),
            self.members[name],
            clock=self.clock,
            rng=random.Random(1),
            connect=self.network.connect,
            run_blocking=run_at_once,
            audit=audit,
        )
        self.controllers[name] = controller
        self.network.listen(f"{name}:9877", controller.server.attach)
        await controller.join(f"{name}:9877")
        return controller

    async def stop(self, name: str = "n0") -> None:
        await self.controllers.pop(name).stop()

    async def close(self) -> None:
        for name in list(self.controllers):
            await self.stop(name)

    async def talk(self, name: str = "n0") -> Talk:
        talk = Talk()
        await self.network.connect(f"{name}:9877", talk)
        return talk


class LedBroker:
    """A broker in controller mode as the controllers see it: its requests, heartbeats and what it is told."""

    def __init__(self, world: World, replica: int, name: str = NAME, cluster: str = CLUSTER) -> None:
        self.world, self.replica, self.name, self.cluster = world, replica, name, cluster
        self.address = f"{name}-{replica}:10911"
        self.told: asyncio.Queue[Command] = asyncio.Queue()
        self.talk: Talk | None = None
        self.sign: Callable[[Command], object] = lambda command: None
        self._named: dict[str, Any] = {"broker_name": name, "cluster_name": cluster}
        world.network.listen(self.address, self._accept)

    def _accept(self, stream: asyncio.Transport) -> None:
        talk = Talk()
        talk.received = self.told
        stream.set_protocol(talk)
        talk.connection_made(stream)

    async def join(self, at: str = "n0") -> Command:
        """Get the id, register, send one heartbeat and ask for an election, as Java's brokers start."""
        self.talk = await self.world.talk(at)
        answer = await self.ask(
            Code.CONTROLLER_APPLY_BROKER_ID,
            headers.ApplyBrokerId(
                **self._named, applied_broker_id=self.replica, register_check_code=f"{self.address};1"
            ),
        )
        assert answer.code == 0, answer
        await self.register()
        await self.heartbeat()
        return await self.elect()

    async def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        assert self.talk is not None
        request = Command(code, fields=header.to_fields() if header else {}, body=body)
        self.sign(request)
        return await self.talk.ask_command(request)

    async def register(self) -> Command:
        header = headers.RegisterBrokerToController(**self._named, broker_id=self.replica, broker_address=self.address)
        return await self.ask(Code.CONTROLLER_REGISTER_BROKER, header)

    async def heartbeat(self, **other: Any) -> Command:
        facts = {"epoch": 1, "max_offset": 100, "heartbeat_timeout_mills": 10_000, "broker_id": self.replica} | other
        header = BrokerHeartbeat(**self._named, broker_addr=self.address, **facts)
        return await self.ask(Code.BROKER_HEARTBEAT, header)

    async def elect(self, *, designated: bool = False) -> Command:
        header = headers.ElectMaster(**self._named, broker_id=self.replica, designate_elect=designated)
        return await self.ask(Code.CONTROLLER_ELECT_MASTER, header)

    async def alter(self, members: list[int], *, epoch: int, set_epoch: int, master: int | None = None) -> Command:
        header = headers.AlterSyncStateSet(
            broker_name=self.name, master_broker_id=master or self.replica, master_epoch=epoch
        )
        row = Code.CONTROLLER_ALTER_SYNC_STATE_SET
        body = row.takes.write_body(SyncStateSet(sync_state_set=members, sync_state_set_epoch=set_epoch))
        return await self.ask(row, header, body)

    def die(self) -> None:
        """Its connections end."""
        assert self.talk is not None
        self.talk.close()
