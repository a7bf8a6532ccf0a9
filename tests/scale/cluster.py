"""A large cluster on virtual time: the real name server, the real registration of brokers, real sessions of clients.

Brokers themselves are stand-ins that take heartbeats and sends: what they do with messages is measured elsewhere. Every
client has one topic, a producer that sends now and then, and heartbeats; a third of the brokers are replicas.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyromq.ambient import Clock
from pyromq.broker.registration import BrokerRegistration, Identity, RegistrationFacts
from pyromq.client.config import ClientConfig
from pyromq.client.connect.session import Session
from pyromq.client.errors import Error
from pyromq.client.produce.outgoing import Outgoing
from pyromq.client.produce.sending import Sender, SendPolicy
from pyromq.config import Loaded
from pyromq.model.codes import ResponseCode
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.bodies.body import DataVersion
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply, Request
from tests.scale.network import Link, Network, Server, State

COPIES = 4  # brokers of a topic
QUEUES = 8
SEND_EVERY_S = 20.0
# CPU seconds of a server for one request, with its transport: bench/namesrv_scale.py and bench/scale.py, rounded up.
NAME_SERVER_COSTS_S = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC.code: 60e-6,
    RequestCode.QUERY_DATA_VERSION.code: 40e-6,
    RequestCode.REGISTER_BROKER.code: 40e-6,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER.code: 10e-3,
}
REGISTERED_TOPIC_S = 5e-6  # of each topic in a registration
TOPIC_BYTES = 150
BROKER_COST_S = 60e-6


@dataclass(frozen=True, slots=True)
class Size:
    brokers: int = 1000
    topics: int = 50_000
    clients: int = 100_000
    name_servers: int = 2

    @property
    def masters(self) -> int:
        return self.brokers - self.brokers // 3


class SimulatedSession(Session):
    """The client's own session over the simulated network."""

    def __init__(self, cluster: Cluster, number: int, rng: random.Random) -> None:
        self._network = cluster.network
        config = ClientConfig(name_servers=tuple(cluster.name_servers), instance=str(number))
        super().__init__(config, clock=cluster.clock, rng=rng, connect=lambda *_: asyncio.sleep(0))

    def _make_transport(self, *_: Any) -> Any:
        return Link(self._network, self.rng, self._connection_lost)


class Cluster:
    """Event loop only."""

    def __init__(self, size: Size, clock: Clock, folder: Path, seed: int = 7) -> None:
        self.size = size
        self.clock = clock
        self.network = Network(clock)
        self.folder = folder
        self.rng = random.Random(seed)
        self.name_servers = {f"10.0.0.{number}:9876": number for number in range(size.name_servers)}
        self.brokers: dict[str, BrokerLife] = {}
        self.sessions: list[SimulatedSession] = []
        self.sent = 0
        self.failed: list[float] = []  # when sends failed
        self.longest_send_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._lives: dict[str, NameServer] = {}

    # --- name servers -------------------------------------------------------------------------------------------------

    def start_name_server(self, address: str) -> None:
        config = NamesrvConfig(kv_config_path=self.folder / f"kv{self.name_servers[address]}.json")
        life = NameServer(Loaded(config), clock=self.clock, rng=self.rng, run_blocking=_at_once)
        life.start_loops()
        self._lives[address] = life
        server = self.network.servers.get(address)
        dispatch = life.dispatch
        if server is None:
            server = Server(self.network, address, dispatch, name_server_cost_s)
        server.handle, server.state = dispatch, State.UP
        server.on_close = life._connection_lost

    def stop_name_server(self, address: str) -> None:
        self.network.servers[address].go(State.REFUSING)
        life = self._lives.pop(address)
        if life.expiry is not None:
            life.expiry.cancel()

    def known_brokers(self, address: str) -> int:
        life = self._lives.get(address)
        return 0 if life is None else life.table.replica_count()

    # --- brokers ------------------------------------------------------------------------------------------------------

    def start_brokers(self) -> None:
        topics: list[list[str]] = [[] for _ in range(self.size.masters)]
        for number in range(self.size.topics):
            for step in range(COPIES):
                topics[(number + step) % self.size.masters].append(f"topic-{number:06d}")
        for number in range(self.size.brokers):
            is_replica = number >= self.size.masters
            name = (number - self.size.masters) * 2 if is_replica else number
            life = BrokerLife(self, number, f"broker-{name:04d}", 1 if is_replica else 0, topics[name])
            self.brokers[life.address] = life
            life.start()

    # --- clients ------------------------------------------------------------------------------------------------------

    async def start_clients(self, within_s: float) -> None:
        """Start all of them, at moments of their own."""
        for number in range(self.size.clients):
            rng = random.Random(self.rng.getrandbits(64))
            session = SimulatedSession(self, number, rng)
            self.sessions.append(session)
            self._run(self._client(session, rng.randrange(self.size.topics), rng.random() * within_s, rng))
        await self.clock.sleep(within_s)

    async def _client(self, session: Session, topic: int, begins_s: float, rng: random.Random) -> None:
        await self.clock.sleep(begins_s)
        session.start()
        session.heartbeats.add_producer("makers")
        sender = Sender(session, "makers", SendPolicy())
        message = Outgoing(topic=f"topic-{topic:06d}", ids=["0"], body=b"x", properties="")
        while True:
            began = self.clock.monotonic()
            try:
                await sender.send(message)
                self.sent += 1
            except Error:
                self.failed.append(self.clock.monotonic())
            self.longest_send_s = max(self.longest_send_s, self.clock.monotonic() - began)
            await self.clock.sleep(SEND_EVERY_S * (0.5 + rng.random()))

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class BrokerLife:
    """One broker as name servers and clients see it."""

    def __init__(self, cluster: Cluster, number: int, name: str, broker_id: int, topics: list[str]) -> None:
        self.address = f"10.1.{number >> 8}.{number & 255}:10911"
        self.broker_id = broker_id
        self._cluster = cluster
        self._tasks: set[asyncio.Task[None]] = set()
        version = DataVersion(counter=1, timestamp=1_700_000_000_000 + number)
        facts = RegistrationFacts(version, {topic: _topic(topic) for topic in topics})
        identity = Identity(cluster="c", broker_name=name, address=self.address, broker_id=broker_id)
        self._link = Link(cluster.network, cluster.rng, self._lost)
        self.registration = BrokerRegistration(
            self._link,  # type: ignore[arg-type]
            cluster.clock,
            identity,
            tuple(cluster.name_servers),
            lambda: facts,
            rng=cluster.rng,
            period_s=30.0,
            timeout_s=24.0,
        )
        self.server = Server(cluster.network, self.address, self._handle, lambda _: BROKER_COST_S)

    def start(self) -> None:
        self.server.state = State.UP
        task = asyncio.get_running_loop().create_task(self.registration.run())
        self._tasks = {task}

    async def stop(self, state: State) -> None:
        """Unregister and end, or be gone from one moment to the other."""
        for task in self._tasks:
            task.cancel()
        if state is State.REFUSING:
            await self.registration.unregister()
            for peer in tuple(self._link._peers.values()):
                peer.close("the broker ends")
        self.server.go(state)

    def _lost(self, peer: Any) -> None:
        self.registration.lost(peer)

    def _handle(self, request: Request) -> Reply:
        if request.command.code == RequestCode.HEART_BEAT:
            return Reply()
        if self.broker_id:
            return Reply(ResponseCode.SERVICE_NOT_AVAILABLE, "a slave")
        return Reply(fields={"msgId": "0", "queueId": request.command.fields["e"], "queueOffset": "0"})


def name_server_cost_s(command: Command) -> float:
    cost_s = NAME_SERVER_COSTS_S.get(command.code, 40e-6)
    if command.code == RequestCode.REGISTER_BROKER:
        cost_s += len(command.body) / TOPIC_BYTES * REGISTERED_TOPIC_S
    return cost_s


def _topic(name: str) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)


async def _at_once(blocking: Any) -> None:
    blocking()
