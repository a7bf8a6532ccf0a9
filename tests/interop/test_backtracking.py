"""Going back in time on our broker: Java's consumers and mqadmin, to the millisecond, while producers go on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from pyromq.model.ids import pack_host
from pyromq.protocol.record import Record
from pyromq.store.config import StoreConfig
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock

from . import wire
from .conftest import OwnCluster, is_known
from .peers import java, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # long waits: make interop

GetClient = Callable[..., java.Client]
TOPIC, QUEUES, HOUR_MS = "Past", 2, 3_600_000
MIDNIGHT = int(time.mktime((*time.localtime(time.time() - 86_400)[:3], 0, 0, 0, 0, 0, -1))) * 1000  # yesterday 00:00
BEFORE = [MIDNIGHT - 2 * HOUR_MS, MIDNIGHT - 2, MIDNIGHT - 1]
SINCE = [MIDNIGHT, MIDNIGHT, MIDNIGHT + 1, MIDNIGHT + 2, MIDNIGHT + 9 * HOUR_MS]
UPDATE_BROKER_CONFIG = 25
HOST = pack_host("127.0.0.1", 10911)


def write_yesterday(root: Path) -> None:
    """A store whose messages were stored then, in every queue alike: `queue:time`."""
    config = StoreConfig(commit_log_file_bytes=16 << 20, queue_file_bytes=20_000, index_entries=4000)
    clock = ManualClock(BEFORE[0])
    store = MessageStore(RealDisk(root, create=True), config, clock)
    for number, stored_ms in enumerate([*BEFORE, *SINCE]):
        clock.step_wall((stored_ms - clock.now_ms()) / 1000)
        for queue in range(QUEUES):
            store.put([record(f"{queue}:{number}", queue, stored_ms)])
    store.close()
    topic = {"topicName": TOPIC, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6}
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": {TOPIC: topic}}))


def record(body: str, queue: int, born_ms: int) -> Record:
    return Record(
        topic=TOPIC,
        queue_id=queue,
        body=body.encode(),
        properties=b"KEYS\x01%b\x02UNIQ_KEY\x01id-%b\x02" % (body.encode(), body.encode()),
        born_timestamp=born_ms,
        born_host=HOST,
        store_host=HOST,
    )


@pytest.fixture(scope="module")
def cluster(home: Callable[[str], Path]) -> Iterator[OwnCluster]:
    with ExitStack() as stack:
        name_server = ours.NameServer(home("past-namesrv"))
        stack.callback(name_server.kill)
        folder = home("past-broker")
        write_yesterday(folder / "store")
        broker = ours.Broker(folder, [name_server.address])
        stack.callback(broker.kill)
        eventually(partial(is_known, name_server.address, broker.name), "the broker is known")
        eventually(lambda: wire.ask(name_server.address, wire.GET_ROUTE, {"topic": TOPIC}).code == 0, "it has a route")
        yield OwnCluster(name_server, broker)


def numbers(first: int) -> set[str]:
    """Bodies of yesterday from the n-th on."""
    return {f"{queue}:{number}" for queue in range(QUEUES) for number in range(first, len(BEFORE) + len(SINCE))}


YESTERDAY = numbers(len(BEFORE))


def of_the_past(consumer: java.Consuming, skip: int = 0) -> set[str]:
    return {body for body in consumer.bodies()[skip:] if ":" in body}


def reset(admin: java.Admin, cluster: OwnCluster, group: str, when: str, *more: str) -> str:
    words = ("resetOffsetByTime", "-n", cluster.servers, "-g", group, "-t", TOPIC, "-s", when, *more)
    return admin.run(*words)


@pytest.mark.parametrize("version", ["5.5.0", "4.9.8"])
def test_an_online_group_goes_back_to_yesterday_while_producers_go_on(
    version: str, java_client: GetClient, admin: java.Admin, cluster: OwnCluster
) -> None:
    client = java_client(version, binary_headers=version == "4.9.8")
    group = f"GID_online_{version.replace('.', '_')}"
    sending = client.sending(cluster.servers, TOPIC, f"now {version} ")
    with client.consuming("push", cluster.servers, TOPIC, group) as consumer:
        eventually(lambda: of_the_past(consumer) == numbers(0), "everything is there once")
        skip = len(consumer.bodies())
        printed = reset(admin, cluster, group, str(MIDNIGHT))
        assert cluster.broker.name in printed, printed
        eventually(lambda: of_the_past(consumer, skip) >= YESTERDAY, "yesterday comes again")
        sent = set(sending.stop())
        eventually(lambda: set(consumer.bodies()[skip:]) >= sent, "and all that was sent since")
        assert of_the_past(consumer, skip) == YESTERDAY, "and not a millisecond more"


def test_the_members_of_an_online_group_are_told_to_go_back(
    java_client: GetClient, admin: java.Admin, cluster: OwnCluster
) -> None:
    """The way of 4.9, for those who ask for it: request 222, and 220 to each client, which takes ten seconds for it."""
    versions = {"5.5.0": "GID_told_5", "4.9.8": "GID_told_4"}
    set_reset_by_the_broker(cluster, False)
    with ExitStack() as stack:
        stack.callback(set_reset_by_the_broker, cluster, True)
        consumers = []
        for version, group in versions.items():
            client = java_client(version, binary_headers=version == "4.9.8")
            consumers.append(stack.enter_context(client.consuming("push", cluster.servers, TOPIC, group)))
        for consumer, group in zip(consumers, versions.values(), strict=True):
            eventually(lambda of=consumer: of_the_past(of) == numbers(0), "everything is there once")  # type: ignore[misc]
            eventually(lambda of=group: len(cluster.stored_offsets(TOPIC, of) or {}) == QUEUES, "its offsets are known")  # type: ignore[misc]
        skips = [len(consumer.bodies()) for consumer in consumers]
        for group in versions.values():
            printed = reset(admin, cluster, group, str(MIDNIGHT + 1))
            assert cluster.broker.name in printed, printed
        for consumer, skip in zip(consumers, skips, strict=True):
            eventually(lambda of=consumer, after=skip: of_the_past(of, after) == numbers(5), "it goes back")  # type: ignore[misc]


def set_reset_by_the_broker(cluster: OwnCluster, by_broker: bool) -> None:
    body = f"useServerSideResetOffset={str(by_broker).lower()}\n".encode()
    with wire.Client(cluster.broker.address) as client:
        assert client.call(UPDATE_BROKER_CONFIG, {}, body).code == 0


@pytest.mark.parametrize(
    ("when", "expected"),
    [(str(MIDNIGHT + 1), numbers(5)), (str(MIDNIGHT - 1), numbers(2)), ("-1", set()), ("now", set())],
    ids=["a millisecond later", "a millisecond before", "the end", "now"],
)
def test_an_offline_group_goes_where_it_is_set(
    when: str, expected: set[str], java_client: GetClient, admin: java.Admin, cluster: OwnCluster
) -> None:
    client = java_client("5.5.0")
    group = f"GID_offline_{abs(hash(when))}"
    wanted = {"servers": cluster.servers, "topic": TOPIC, "group": group, "tags": "*"}
    assert {one["body"] for one in client.do("pull", **wanted)} >= numbers(0)
    printed = reset(admin, cluster, group, when)
    assert cluster.broker.name in printed, printed
    again = {one["body"] for one in client.do("pull", **wanted) if ":" in one["body"]}
    assert again == expected


def test_one_queue_by_offset(java_client: GetClient, admin: java.Admin, cluster: OwnCluster) -> None:
    client = java_client("5.5.0")
    wanted = {"servers": cluster.servers, "topic": TOPIC, "group": "GID_offset", "tags": "*"}
    client.do("pull", **wanted)
    reset(admin, cluster, "GID_offset", "-1", "-b", cluster.broker.address, "-q", "1", "-o", "6")
    again = {one["body"] for one in client.do("pull", **wanted) if ":" in one["body"]}
    assert again == {"1:6", "1:7"}


def test_a_backlog_is_skipped(java_client: GetClient, admin: java.Admin, cluster: OwnCluster) -> None:
    client = java_client("5.5.0")
    with client.consuming("push", cluster.servers, TOPIC, "GID_skip", pause=1000) as consumer:
        eventually(consumer.received, "it has begun")
        admin.run("skipAccumulatedMessage", "-n", cluster.servers, "-g", "GID_skip", "-t", TOPIC)
        client.send_by("sync", cluster.servers, TOPIC, ["after the skip"])
        eventually(lambda: "after the skip" in consumer.bodies(), "what comes later comes")
