"""Our ends of the stream of elected sets with real Java 5.5.0 brokers in controller mode: the log, the epochs and what
is confirmed, over file rolls and deaths. Our controller leads both."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from pyromq.ambient import SystemClock
from pyromq.broker.replication.following.elected_follower import join
from pyromq.broker.replication.following.follower import FollowSettings
from pyromq.broker.replication.leading.elected_copies import ElectedCopies
from pyromq.broker.replication.leading.elected_streams import ElectedStreams
from pyromq.broker.replication.leading.ha_port import HaPort
from pyromq.broker.replication.leading.log_source import CommitLogSource
from pyromq.broker.replication.settings import ReplicationSettings
from pyromq.errors import ConnectionLost
from pyromq.protocol.replication.epochs import EpochList, decode_epochs
from pyromq.protocol.requests import RequestCode as Code
from pyromq.store.config import StoreConfig
from pyromq.store.epochs import EpochFile, load_epochs
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore, run_at_once
from pyromq.store.tools.verify import verify_store
from pyromq.transport.client import connect_socket
from pyromq.transport.listening import bind
from tests.broker.replication.elected_pair import ActingLead
from tests.coordination.etcd_peer import EtcdCluster, require_etcd
from tests.store.small import message

from . import wire
from .peers import java, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

NAME, OURS = "streamed", "streaming"  # the set whose master is Java's, and the one whose master is ours
FILE_BYTES = 65536
FILES = StoreConfig(commit_log_file_bytes=FILE_BYTES, queue_file_bytes=6000, index_slots=1000, index_entries=4000)


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory, home: Callable[[str], Path]) -> Iterator[ours.Controller]:
    require_etcd()
    with EtcdCluster(tmp_path_factory.mktemp("etcd")) as etcd:
        running = ours.Controller(home("controller"), etcd.endpoints, {})
        yield running
        running.kill()


def settings(controller: ours.Controller) -> dict[str, str]:
    """Of a Java broker in controller mode, with small files."""
    return {
        "enableControllerMode": "true",
        "controllerAddr": controller.address,
        "brokerIP2": "127.0.0.1",
        "syncControllerMetadataPeriod": "1000",
        "syncBrokerMetadataPeriod": "1000",
        "mappedFileSizeCommitLog": str(FILE_BYTES),
        "maxMessageSize": "30000",
    }


@pytest.fixture
def master(
    java_peers: None, name_server: ours.NameServer, controller: ours.Controller, home: Callable[[str], Path]
) -> Iterator[java.Broker]:
    made = java.Broker("5.5.0", home(NAME), [name_server.address], settings(controller), name=NAME)
    yield made
    made.kill()


def send(master: java.Broker, count: int) -> bool:
    """True: all were stored."""
    fields = {
        "producerGroup": "P", "topic": "Streamed", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
        "queueId": "0", "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": "TAGS\x01t\x02",
    }  # fmt: skip
    return all(
        wire.ask(master.address, Code.SEND_MESSAGE.code, fields, body=b"x" * 300).code == 0 for _ in range(count)
    )


def log_end(master: java.Broker) -> int:
    answer = wire.ask(master.address, Code.GET_BROKER_RUNTIME_INFO.code)
    return int(wire.json_with_bare_keys(answer.body)["table"]["commitLogMaxOffset"])


def masters_files(master: java.Broker, end: int) -> tuple[bytes, EpochList]:
    """Its log up to a position, and its epochs, as they lie on disk."""
    root = master.home / "store"
    log = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
    return log[:end], decode_epochs((root / "epochFileCheckpoint").read_bytes())


class Replica:
    """Ours, in this process. It follows whoever is at the master's HA port until it is cancelled."""

    def __init__(self, folder: Path, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.ha = f"{host}:{int(port) + 1}"
        self.disk = RealDisk(folder, create=True)
        self.store = MessageStore(self.disk, FILES, SystemClock(), is_elected=True)
        self.epochs = EpochFile(self.disk, self.store.commit_log)
        self.why: list[str] = []

    async def run(self) -> None:
        while True:
            try:
                stream = await join(connect_socket, self.ha, 7, SystemClock(), FollowSettings())
                await stream.follow(self.store, self.epochs)
            except ConnectionLost as fault:
                self.why.append(str(fault))
                await asyncio.sleep(0.2)

    async def compare(self, master: java.Broker) -> None:
        """Wait until it has all of the master's log, and all of it is confirmed; then it is the same."""
        end = await asyncio.to_thread(log_end, master)
        async with asyncio.timeout(60):
            await self.store.readable.reached(end)
        log, epochs = masters_files(master, end)
        pieces = self.store.commit_log.sequence.pieces(0, self.store.commit_log.end, 1 << 20)
        assert b"".join(pieces)[:end] == log
        assert load_epochs(self.disk) == epochs


async def test_our_replica_has_the_log_and_the_epochs_of_a_java_master(master: java.Broker, tmp_path: Path) -> None:
    await asyncio.to_thread(eventually, lambda: send(master, 1), "the master takes sends")
    assert await asyncio.to_thread(send, master, 300)
    replica = Replica(tmp_path / "replica", master.address)
    task = asyncio.create_task(replica.run())
    await replica.compare(master)
    assert replica.store.commit_log.end > FILE_BYTES
    assert await asyncio.to_thread(send, master, 100)
    await replica.compare(master)

    await asyncio.to_thread(master.kill)
    await asyncio.to_thread(master.restart, int(master.address.rsplit(":", 1)[1]))
    await asyncio.to_thread(eventually, lambda: send(master, 1), "the master takes sends again")
    assert await asyncio.to_thread(send, master, 100)
    await replica.compare(master)
    assert replica.epochs.list.newest > 1

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    replica.store.close()
    assert verify_store(replica.disk, FILES).exit_code == 0


class OurMaster:
    """A master's end in this process, which controller and name server take for a broker: it has no other port."""

    def __init__(self, folder: Path, controller: str, name_server: str) -> None:
        self.controller, self.name_server = controller, name_server
        self.disk, clock = RealDisk(folder, create=True), SystemClock()
        self.store = MessageStore(self.disk, FILES, clock, is_elected=True)
        self.epochs = EpochFile(self.disk, self.store.commit_log)
        self.epochs.begin(1)
        self.lead = ActingLead(1, 1, (1, 2), 0, 0)
        source = CommitLogSource(self.store.commit_log, run_at_once)
        self.copies = ElectedCopies(self.store, self.lead, 2)
        self.streams = ElectedStreams(self.lead, source, self.epochs.list, 1)
        self.port = HaPort(
            source, clock, ReplicationSettings, self._members, lambda: None, self.store.on_append, self.streams.wire
        )
        self.address = f"127.0.0.1:{java.free_broker_port()}"
        self._stopped = threading.Event()

    async def _members(self) -> list[str]:
        return []

    def introduce(self, ha_address: str) -> None:
        """Become replica 1 and master at the controller, and the master of its name at the name server."""
        who = {"clusterName": "DefaultCluster", "brokerName": OURS}
        me = {**who, "brokerId": "1"}
        with wire.Client(self.controller) as client:
            code = f"{self.address};1"
            applied = {**who, "appliedBrokerId": "1", "registerCheckCode": code}
            assert client.call(Code.CONTROLLER_APPLY_BROKER_ID.code, applied).code == 0
            assert client.call(Code.CONTROLLER_REGISTER_BROKER.code, {**me, "brokerAddress": self.address}).code == 0
        alive = {
            **me, "brokerAddr": self.address, "epoch": "1", "maxOffset": "0", "confirmOffset": "0",
            "heartbeatTimeoutMills": "10000", "electionPriority": "1",
        }  # fmt: skip
        self._thread = threading.Thread(target=self._stay_alive, args=(alive, ha_address))
        self._thread.start()
        elected = Code.CONTROLLER_ELECT_MASTER.code
        eventually(lambda: wire.ask(self.controller, elected, me).code in (0, 2011), "the controller has elected it")

    def _stay_alive(self, alive: dict[str, str], ha_address: str) -> None:
        with wire.Client(self.controller) as controller, wire.Client(self.name_server) as name_server:
            while not self._stopped.wait(0.5):
                controller.call(Code.BROKER_HEARTBEAT.code, alive)
                wire.register_broker(name_server, OURS, ["Streamed", "TBW102"], self.address, ha_address)

    async def close(self) -> None:
        self._stopped.set()
        await asyncio.to_thread(self._thread.join)
        await self.port.close()
        self.copies.close()
        self.store.close()


async def test_a_java_replica_has_the_log_and_the_epochs_of_our_master(
    java_peers: None,
    name_server: ours.NameServer,
    controller: ours.Controller,
    home: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    master = OurMaster(tmp_path / "master", controller.address, name_server.address)
    listening = await bind("127.0.0.1", 0)
    master.port.accept(listening)
    await asyncio.to_thread(master.introduce, listening.address)

    def put_some(count: int) -> None:
        for number in range(count):
            master.store.put([message(b"x" * 300, topic="Streamed", queue_id=number % 4, keys=f"k{number}")])

    put_some(300)
    replica = await asyncio.to_thread(
        partial(java.Broker, "5.5.0", home(OURS), [name_server.address], settings(controller), name=OURS)
    )
    try:
        async with asyncio.timeout(90):
            await master.store.readable.reached(master.store.commit_log.end)  # Java has reported all of it
            put_some(100)
            await master.store.readable.reached(master.store.commit_log.end)
        assert master.streams.replicas == {2}
        end = master.store.commit_log.end
        log, epochs = masters_files(replica, end)
        assert b"".join(master.store.commit_log.sequence.pieces(0, end, 1 << 20)) == log
        assert epochs == master.epochs.list

        await asyncio.to_thread(replica.kill)
        put_some(50)
        await asyncio.to_thread(replica.restart, int(replica.address.rsplit(":", 1)[1]))
        async with asyncio.timeout(90):
            await master.store.readable.reached(master.store.commit_log.end)
        end = master.store.commit_log.end
        log, _ = masters_files(replica, end)
        assert b"".join(master.store.commit_log.sequence.pieces(0, end, 1 << 20)) == log
    finally:
        await asyncio.to_thread(replica.kill)
        await master.close()
