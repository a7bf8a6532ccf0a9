"""Our slave of a real Java 5.5.0 master, and of ours: the same log byte for byte and the same queues, over rolls and
kills; and consumers that go on at the slave while the master is away."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from pyromq.store.files.real_disk import RealDisk
from pyromq.store.recovery.sizes import inferred_config
from pyromq.store.tools.verify import verify_store

from . import wire
from .conftest import CLUSTER, is_known
from .peers import go, java, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

NAME = "broker-r"
TOPIC = "Replicated"
FILE_BYTES = 65536
SMALL = {"mappedFileSizeCommitLog": str(FILE_BYTES), "maxMessageSize": "30000"}
SEND, SEND_BACK, RUNTIME, MAX_OFFSET, MIN_OFFSET, BY_PLACE, INSPECT = 10, 36, 28, 30, 31, 33, 30001
DELETE_GROUP, ONE_TOPIC = 207, 351


class Pair:
    """A master and our slave of it."""

    def __init__(self, kind: str, name_server: ours.NameServer, home: Callable[[str], Path]) -> None:
        self.name_server = name_server
        self.master: java.Broker | ours.Broker
        settings = {
            **SMALL,
            "brokerRole": "ASYNC_MASTER",
            "slaveReadEnable": "true",
            "flushConsumerOffsetInterval": "200",
            "messageDelayLevel": "1s 2s 3s",
        }
        servers = [name_server.address]
        if kind == "java":
            settings |= {"brokerIP2": "127.0.0.1"}
            self.master = java.Broker("5.5.0", home("master"), servers, settings, name=NAME, cluster=CLUSTER)
        else:
            self.master = ours.Broker(home("master"), servers, settings, name=NAME, cluster=CLUSTER)
        eventually(lambda: is_known(self.servers, NAME), "the master is registered")
        wire.create_topic(self.master.address, TOPIC, 2, "")
        eventually(lambda: wire.ask(self.servers, wire.GET_ROUTE, {"topic": TOPIC}).code == 0, "the topic has a route")
        roles = {**SMALL, "brokerRole": "SLAVE", "brokerId": "1", "slaveReadEnable": "true"}
        self.slave_settings = {**roles, "messageDelayLevel": "1s 2s 3s"}
        self._home = home
        self._numbers = itertools.count()

    @property
    def servers(self) -> str:
        return self.name_server.address

    def start_slave(self) -> ours.Broker:
        self.slave = ours.Broker(self._home("slave"), [self.servers], self.slave_settings, name=NAME, cluster=CLUSTER)
        return self.slave

    def restart_master(self) -> None:
        """After its `kill`, at the same place; it is registered when this returns."""
        if isinstance(self.master, java.Broker):
            self.master.restart(int(self.master.address.rsplit(":")[1]))
        else:
            self.master.restart()
        eventually(lambda: self.addresses().get("0") == self.master.address, "the master is registered again")

    def addresses(self) -> dict[str, str]:
        route = wire.ask(self.servers, wire.GET_ROUTE, {"topic": TOPIC})
        found: dict[str, str] = wire.json_with_bare_keys(route.body)["brokerDatas"][0]["brokerAddrs"]
        return found

    def send(self, count: int, properties: str = "", size: int = 200) -> list[str]:
        """The bodies, without what fills them."""
        sent = []
        with wire.Client(self.master.address) as client:
            for number in range(count):
                sent.append(f"m{next(self._numbers)}")
                body = f"{sent[-1]} ".encode().ljust(size, b"x")
                fields = {
                    "producerGroup": "P", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
                    "queueId": str(number % 2), "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0",
                    "properties": f"KEYS\x01k{number}\x02TAGS\x01t{number % 3}\x02{properties}",
                }  # fmt: skip
                answer = client.call(SEND, fields, body)
                assert answer.code == 0, answer.remark
        return sent

    def max_offset(self, queue: int) -> int:
        return int(wire.ask(self.master.address, MAX_OFFSET, {"topic": TOPIC, "queueId": str(queue)}).fields["offset"])

    def ends(self) -> tuple[int, int]:
        return log_end(self.master.address), log_end(self.slave.address)

    def caught_up(self) -> int:
        """Wait until the slave has all; return where the logs end."""
        eventually(lambda: len({*self.ends()}) == 1, "the slave has all", seen=self.seen)
        return self.ends()[0]

    def seen(self) -> object:
        return self.ends(), self.slave.program.tail()

    def compare(self) -> None:
        """Both logs, up to where the slave is, and the entries of all queues, as they lie in the files."""
        end = self.caught_up()
        ours_, theirs = log_bytes(self.slave.home, end), log_bytes(self.master.home, end)
        assert len(theirs) == len(ours_) == end
        assert ours_ == theirs
        for folder in sorted((self.master.home / "store" / "consumequeue").glob("*/*")):
            name = folder.relative_to(self.master.home)
            entries, copied = queue_bytes(folder), queue_bytes(self.slave.home / name)
            assert copied[: len(entries)].rstrip(b"\0") == entries.rstrip(b"\0"), name


def log_end(address: str) -> int:
    table = wire.json_with_bare_keys(wire.ask(address, RUNTIME).body)["table"]
    return int(table["commitLogMaxOffset"])


def log_bytes(home: Path, end: int) -> bytes:
    files = sorted(path for path in (home / "store" / "commitlog").iterdir() if path.name.isdigit())
    return b"".join(path.read_bytes() for path in files)[:end]


def queue_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


@pytest.fixture(scope="module", params=["java", "ours"])
def pair(java_peers: None, request: pytest.FixtureRequest, home: Callable[[str], Path]) -> Iterator[Pair]:
    name_server = ours.NameServer(home("slave-namesrv"))
    both = Pair(request.param, name_server, home)
    both.send(500)  # several files before there is a slave
    both.start_slave()
    yield both
    both.slave.kill()
    both.master.kill()
    name_server.kill()


def test_a_new_slave_gets_everything_from_the_first_file_on(pair: Pair) -> None:
    assert pair.caught_up() > 2 * FILE_BYTES
    pair.compare()


def test_every_kind_of_message_arrives(pair: Pair, java_client: Callable[..., java.Client]) -> None:
    client = java_client("5.5.0")
    client.send_by("batch", pair.servers, TOPIC, [f"batch {number}" for number in range(20)])
    pair.send(10, "DELAY\x012\x02")
    transacting = client.transacting(pair.servers, TOPIC, "P_tx")
    transacting.send("commit 1", "rollback 2", "commit 3")
    transacting.stop()
    place = eventually(lambda: wire.ask(pair.master.address, MAX_OFFSET, {"topic": TOPIC, "queueId": "0"}), "an end")
    assert place.code == 0
    back = {"offset": "0", "group": "GID_back", "delayLevel": "1", "originTopic": TOPIC, "maxReconsumeTimes": "16"}
    wire.ask(pair.master.address, wire.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"GID_back"}')
    assert wire.ask(pair.master.address, SEND_BACK, back).code == 0
    pair.send(300, size=1000)
    pair.compare()


def test_tables_are_the_masters(pair: Pair) -> None:
    assert pair.addresses() == {"0": pair.master.address, "1": pair.slave.address}
    eventually(
        lambda: (
            wire.ask(pair.slave.address, MAX_OFFSET, {"topic": TOPIC, "queueId": "1"}).fields
            == wire.ask(pair.master.address, MAX_OFFSET, {"topic": TOPIC, "queueId": "1"}).fields
        ),
        "the queues are as long",
    )


def test_a_slave_takes_no_messages_and_names_its_master(pair: Pair) -> None:
    fields = {
        "producerGroup": "P", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
        "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": "",
    }  # fmt: skip
    answer = wire.ask(pair.slave.address, SEND, fields, body=b"no")
    assert answer.code == 14
    assert pair.master.address in answer.remark


def test_mqadmin_deletes_a_group_with_its_topics_on_both(pair: Pair, admin: java.Admin) -> None:
    """It asks the master for the group (207), and master and slave, in any order, for its topics (215)."""
    retries = "%RETRY%GID_back"
    eventually(lambda: _has_topic(pair.slave.address, retries), "the slave knows the topic")
    printed = admin.run("deleteSubGroup", "-n", pair.servers, "-c", CLUSTER, "-g", "GID_back", "-r", "true")
    assert "success" in printed
    if not isinstance(pair.master, java.Broker):  # Java's fails behind the deletion if it has no timers, as here
        assert "Exception" not in printed, printed
    for address in (pair.master.address, pair.slave.address):
        eventually(partial(_lacks_topic, address, retries), "the topic is gone")
    refused = wire.ask(pair.slave.address, DELETE_GROUP, {"groupName": "GID_other", "cleanOffset": "true"})
    assert refused.code == 14
    assert pair.master.address in refused.remark


def _has_topic(address: str, topic: str) -> bool:
    return not _lacks_topic(address, topic)


def _lacks_topic(address: str, topic: str) -> bool:
    return wire.ask(address, ONE_TOPIC, {"topic": topic}).code != 0


def test_a_slave_that_is_stopped_or_killed_goes_on(pair: Pair) -> None:
    pair.send(50)
    pair.slave.stop()
    pair.send(200)
    pair.slave.restart()
    pair.compare()
    for _ in range(3):
        pair.send(100)
        pair.slave.kill()
        pair.send(100)
        pair.slave.restart()
    pair.compare()


def test_a_master_that_is_killed_and_returns_is_followed_again(pair: Pair) -> None:
    pair.caught_up()
    pair.master.kill()
    eventually(lambda: b"closed the connection" in inspected(pair) or b"reached" in inspected(pair), "it is noticed")
    pair.restart_master()
    pair.send(200)
    pair.compare()


def inspected(pair: Pair) -> bytes:
    return wire.ask(pair.slave.address, RUNTIME).body


def words(bodies: list[str]) -> list[str]:
    return [body.split(" ")[0] for body in bodies]


def test_consumers_go_on_at_the_slave_while_the_master_is_away(
    pair: Pair, java_client: Callable[..., java.Client], go_peer: None, home: Callable[[str], Path]
) -> None:
    """Those that were there before, and new ones; when the master returns all of them get the rest.

    The Go client was there before: its library asks the master alone where a new consumer begins."""
    versions, servers = ("4.9.8", "5.5.0"), pair.servers
    wanted = set(pair.send(300))
    pair.caught_up()
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor())
        in_topic = sum(pair.max_offset(queue) for queue in (0, 1))
        by_go = pool.submit(
            go.client.consume, servers, TOPIC, "GID_go", "*", in_topic + 200, home=home("go"), limit_s=150
        )

        def consuming(moment: str, version: str) -> java.Consuming:
            group = f"GID_{moment}_{version.replace('.', '_')}"
            return stack.enter_context(java_client(version).consuming("push", servers, TOPIC, group, start="first"))

        def all_have(seen: set[str]) -> None:
            for one in consumers:
                eventually(lambda one=one: seen <= set(words(one.bodies())), "all arrive")  # type: ignore[misc]

        consumers = [consuming("before", version) for version in versions]
        all_have(wanted)
        wanted |= set(pair.send(100))
        pair.caught_up()
        pair.master.kill()
        eventually(lambda: pair.addresses() == {"1": pair.slave.address}, "the name server knows the slave alone")
        consumers += [consuming("away", version) for version in versions]
        all_have(wanted)
        pair.restart_master()
        wanted |= set(pair.send(100))
        all_have(wanted)
        pair.compare()
        assert wanted <= set(words([one["body"] for one in by_go.result()]))
        late = consuming("late", "5.5.0")
        eventually(lambda: wanted <= set(words(late.bodies())), "a new group gets everything from the master")


def test_the_store_is_whole(pair: Pair) -> None:
    pair.caught_up()
    pair.slave.stop()
    disk = RealDisk(pair.slave.home / "store")
    report = verify_store(disk, inferred_config(disk))
    assert report.exit_code == 0, report
    pair.slave.restart()
    pair.compare()
