"""Java's brokers and ours in one cluster under our name server: topics, producers and consumers spread over all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import wire
from .conftest import BROKERS, CLUSTER, is_known
from .peers import java, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

OURS = "broker-p"
ALL = {*BROKERS.values(), OURS}


@pytest.fixture(scope="module")
def our_broker(
    brokers: dict[str, java.Broker], name_server: ours.NameServer, home: Callable[[str], Path]
) -> Iterator[ours.Broker]:
    """It joins the cluster of the Java brokers, for this file alone."""
    broker = ours.Broker(home("mixed"), [name_server.address], name=OURS, cluster=CLUSTER)
    eventually(lambda: is_known(name_server.address, OURS), "our broker has registered")
    yield broker
    broker.kill()
    eventually(lambda: not is_known(name_server.address, OURS), "our broker is forgotten")


@pytest.fixture
def topic(
    request: pytest.FixtureRequest, admin: java.Admin, name_server: ours.NameServer, our_broker: ours.Broker
) -> str:
    """Made by mqadmin on the whole cluster, two queues each."""
    name = "Mixed" + "".join(char for char in request.node.name if char.isalnum())[-60:]
    size = ["-r", "2", "-w", "2"]
    printed = admin.run("updateTopic", "-n", name_server.address, "-c", CLUSTER, "-t", name, *size)
    assert printed.count("success") == len(ALL), printed
    eventually(lambda: brokers_of(name_server.address, name) == ALL, "every broker has it")
    return name


def brokers_of(name_server: str, topic: str) -> set[str]:
    answer = wire.ask(name_server, wire.GET_ROUTE, {"topic": topic})
    if answer.code:
        return set()
    return {one["brokerName"] for one in wire.json_with_bare_keys(answer.body)["queueDatas"]}


@pytest.mark.parametrize("version", ["5.5.0", "4.9.8"])
@pytest.mark.parametrize("kind", ["push", "orderly"])
def test_producer_and_consumers_are_spread_over_all_brokers(
    version: str, kind: str, java_client: Callable[..., java.Client], name_server: ours.NameServer, topic: str
) -> None:
    client = java_client(version, binary_headers=version == "4.9.8")
    sent = client.send_by("selector", name_server.address, topic, [f"m{number}" for number in range(60)])
    assert {one["broker"] for one in sent} == ALL
    with client.consuming(kind, name_server.address, topic, f"GID_{topic}") as consumer:
        eventually(lambda: len(consumer.bodies()) >= 60, "all arrive")
        assert sorted(consumer.bodies()) == sorted(f"m{number}" for number in range(60))
        assert consumer.owned() == {f"{broker}:{queue}" for broker in ALL for queue in range(2)}
        per_broker = [sum(one["broker"] == broker for one in consumer.received()) for broker in sorted(ALL)]
        assert per_broker == [20, 20, 20]


def test_a_group_is_shared_over_all_brokers(
    java_client: Callable[..., java.Client], name_server: ours.NameServer, topic: str
) -> None:
    """Each member's list of members comes from one broker, whichever it asks: all must agree."""
    client = java_client("5.5.0")
    first, second = (client.consuming("push", name_server.address, topic, f"GID_{topic}") for _ in range(2))
    eventually(lambda: sorted(len(one.owned()) for one in (first, second)) == [3, 3], "three queues each")
    assert not first.owned() & second.owned()
    second.stop()
    eventually(lambda: len(first.owned()) == 6, "one has all")
    first.stop()


def test_the_others_go_on_without_ours_and_with_it_again(
    java_client: Callable[..., java.Client], name_server: ours.NameServer, our_broker: ours.Broker, topic: str
) -> None:
    client = java_client("5.5.0")
    with client.consuming("push", name_server.address, topic, f"GID_{topic}") as consumer:
        sending = client.sending(name_server.address, topic, "m")
        eventually(lambda: {one["broker"] for one in consumer.received()} == ALL, "messages from all brokers")
        our_broker.kill()
        before = len(sending.acknowledged())
        eventually(lambda: len(sending.acknowledged()) > before + 20, "the producer goes on with the others")
        our_broker.restart()
        eventually(lambda: is_known(name_server.address, OURS), "our broker has registered again")
        back = len(consumer.received())
        eventually(lambda: OURS in {one["broker"] for one in consumer.received()[back:]}, "and is used again as before")
        sent = sending.stop()
        eventually(lambda: set(consumer.bodies()) >= set(sent), "nothing acknowledged is lost")


def test_a_topic_that_a_send_creates_on_ours_reaches_the_java_brokers(
    our_broker: ours.Broker, name_server: ours.NameServer
) -> None:
    fields = {"producerGroup": "PG", "topic": "MixedAutomatic", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4"}
    fields |= {"queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": "UNIQ_KEY\x01u\x02"}
    with wire.Client(our_broker.address) as client:
        assert client.call(10, fields, b"first").code == 0
    eventually(lambda: brokers_of(name_server.address, "MixedAutomatic") == ALL, "the topic is on every broker")


def test_mqadmin_shows_them_side_by_side(
    admin: java.Admin, name_server: ours.NameServer, our_broker: ours.Broker
) -> None:
    printed = admin.run("clusterList", "-n", name_server.address)
    rows = sorted(line.split() for line in printed.splitlines()[1:] if line.strip())
    assert [row[:3] for row in rows] == [[CLUSTER, broker, "0"] for broker in sorted(ALL)]
    columns = {len(row) for row in rows}
    assert len(columns) == 1, printed
    (ours_row,) = (row for row in rows if row[1] == OURS)
    assert (ours_row[3], ours_row[4], ours_row[-1]) == (our_broker.address, "V5_5_0", "true")
