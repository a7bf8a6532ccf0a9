"""Transactions of real producers on our broker: ended, asked about, through kills, and in stores that Java wrote."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from . import wire
from .conftest import OwnCluster, is_known
from .peers import go, java, ours
from .peers.process import ProgramFailed
from .waiting import eventually

pytestmark = pytest.mark.interop

GetClient = Callable[..., java.Client]
HEADERS = {"5.5.0": False, "4.9.8": True}
HALF_MESSAGES = 30_003
SOON = {"transactionCheckInterval": "500", "transactionTimeOut": "300", "flushConsumerOffsetInterval": "200"}


@pytest.fixture(scope="module")
def cluster(home: Callable[[str], Path]) -> Iterator[OwnCluster]:
    """Our broker, which asks about transactions after half a second instead of half a minute."""
    with ExitStack() as stack:
        name_server = ours.NameServer(home("tx-namesrv"))
        stack.callback(name_server.kill)
        broker = ours.Broker(home("tx-broker"), [name_server.address], SOON)
        stack.callback(lambda: broker.kill())
        yield OwnCluster(name_server, broker)


@pytest.fixture(params=HEADERS)
def client(request: pytest.FixtureRequest, java_client: GetClient) -> java.Client:
    return java_client(request.param, binary_headers=HEADERS[request.param])


@pytest.fixture
def transacting(client: java.Client, cluster: OwnCluster) -> Iterator[Callable[[str], java.Transacting]]:
    with ExitStack() as stack:

        def start(topic: str) -> java.Transacting:
            producer = client.transacting(cluster.servers, topic, f"PID_{topic}")
            stack.callback(producer.stop)
            return producer

        yield start


def undecided(broker: ours.Broker, topic: str) -> list[dict[str, Any]]:
    answer = wire.ask(broker.address, HALF_MESSAGES, {"topic": topic})
    assert answer.code == 0, answer
    found: list[dict[str, Any]] = json.loads(answer.body)["halfMessages"]
    return found


_groups = itertools.count(1)


def consumed(client: java.Client, cluster: OwnCluster, topic: str) -> list[str]:
    """What is in the topic now, from its beginning to its end: by a new group each time."""
    group = f"GID_{topic}_{next(_groups)}"
    found = client.do("pull", tags="*", servers=cluster.servers, topic=topic, group=group)
    return sorted(one["body"] for one in found)


def test_commit_and_rollback(
    client: java.Client, cluster: OwnCluster, transacting: Callable[[str], java.Transacting]
) -> None:
    topic = cluster.new_topic(queues=2)
    producer = transacting(topic)
    sent = producer.send("commit 1", "rollback 2", "commit 3")
    assert [one["status"] for one in sent] == ["SEND_OK"] * 3
    assert [one["state"] for one in sent] == ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "COMMIT_MESSAGE"]
    eventually(lambda: undecided(cluster.broker, topic) == [], "all are decided")
    assert consumed(client, cluster, topic) == ["commit 1", "commit 3"]
    assert producer.checks() == []


def test_unknown_is_asked_about_until_it_is_known(
    client: java.Client, cluster: OwnCluster, transacting: Callable[[str], java.Transacting]
) -> None:
    topic = cluster.new_topic(queues=2)
    producer = transacting(topic)
    sent = producer.send("unknown commit 1", "unknown rollback 2", "unknown unknown unknown commit 3")
    assert {one["status"] for one in sent} == {"SEND_OK"}
    assert len(undecided(cluster.broker, topic)) == 3
    eventually(lambda: undecided(cluster.broker, topic) == [], "all are decided")
    assert consumed(client, cluster, topic) == ["unknown commit 1", "unknown unknown unknown commit 3"]
    checks = producer.checks()
    assert {one["topic"] for one in checks} == {topic}
    assert [one["times"] for one in checks if one["body"].endswith(" 3")] == ["1", "2", "3"]
    assert {one["transaction"] for one in checks} == {one["id"] for one in sent}


@pytest.mark.parametrize("away", ["stop", "kill"])
def test_the_broker_goes_away_between_half_and_end(
    away: str, client: java.Client, cluster: OwnCluster, transacting: Callable[[str], java.Transacting]
) -> None:
    topic = cluster.new_topic(queues=1)
    producer = transacting(topic)
    producer.send("commit 0", "unknown unknown commit 1", "unknown unknown rollback 2")
    eventually(lambda: "commit 0" in consumed(client, cluster, topic), "the first is there")
    getattr(cluster.broker, away)()
    cluster.restart_broker()
    eventually(lambda: undecided(cluster.broker, topic) == [], "all are decided after the restart")
    assert producer.checks()
    assert consumed(client, cluster, topic) == ["commit 0", "unknown unknown commit 1"]


def test_another_producer_of_the_group_is_asked_when_the_first_is_gone(
    client: java.Client, cluster: OwnCluster, transacting: Callable[[str], java.Transacting]
) -> None:
    """It has sent nothing to this broker but a heartbeat."""
    topic = cluster.new_topic(queues=1)
    first = client.transacting(cluster.servers, topic, f"PID_{topic}")
    first.send("unknown unknown unknown unknown commit 1")
    first.stop()
    assert len(undecided(cluster.broker, topic)) == 1
    second = transacting(topic)
    eventually(lambda: undecided(cluster.broker, topic) == [], "it is decided")
    assert second.checks()
    assert consumed(client, cluster, topic) == ["unknown unknown unknown unknown commit 1"]


def test_no_delayed_transaction_leaves_a_client_unnoticed(
    client: java.Client, cluster: OwnCluster, transacting: Callable[[str], java.Transacting]
) -> None:
    """Client 5.5 refuses it by itself; 4.9 takes a delay level away, and our broker refuses its timer."""
    topic = cluster.new_topic(queues=1)
    producer = transacting(topic)
    is_new = client.program.name.endswith("5.5.0")
    if is_new:
        with pytest.raises(ProgramFailed, match="do not support delayed delivery"):
            producer.send("commit 1", DELAY="18")
    else:
        producer.send("commit 1", DELAY="18")
    with pytest.raises(ProgramFailed, match="do not support delayed delivery" if is_new else "send message Exception"):
        producer.send("commit 2", TIMER_DELAY_SEC="60")
    producer.send("commit 3")
    expected = ["commit 3"] if is_new else ["commit 1", "commit 3"]
    eventually(lambda: consumed(client, cluster, topic) == expected, "nothing waits")
    assert undecided(cluster.broker, topic) == []


def test_go(go_peer: None, java_client: GetClient, cluster: OwnCluster, home: Callable[[str], Path]) -> None:
    topic = cluster.new_topic(queues=1)
    bodies = ["commit 1", "rollback 2", "unknown commit 3", "unknown rollback 4"]
    checked = go.client.transact(cluster.servers, topic, f"PID_{topic}", 2, bodies, home=home("go"))
    assert sorted(checked)[:2] == ["unknown commit 3", "unknown rollback 4"]
    eventually(lambda: undecided(cluster.broker, topic) == [], "all are decided")
    assert consumed(java_client("5.5.0"), cluster, topic) == ["commit 1", "unknown commit 3"]


@pytest.mark.slow  # a Java broker
def test_half_messages_in_a_store_that_javas_broker_left(java_client: GetClient, home: Callable[[str], Path]) -> None:
    """Java's broker is killed with halves that it has asked about and put again; ours opens its store and asks on."""
    client = java_client("5.5.0")
    folder = home("tx-java")
    with ExitStack() as stack:
        name_server = ours.NameServer(home("tx-java-namesrv"))
        stack.callback(name_server.kill)
        # It gathers its notes for 3 s, and asks about what it has only gathered: twice committed, were it not for this.
        settings = SOON | {"transactionOpBatchInterval": "20"}
        theirs = java.Broker("5.5.0", folder, [name_server.address], settings, name="broker-p")
        stack.callback(theirs.kill)
        eventually(lambda: is_known(name_server.address, "broker-p"), "Java's broker is registered")
        wire.create_topic(theirs.address, "Moved", 1)
        eventually(lambda: wire.ask(name_server.address, wire.GET_ROUTE, {"topic": "Moved"}).code == 0, "a route")
        producer = client.transacting(name_server.address, "Moved", "PID_moved")
        producer.send("commit 0", "rollback 1", "unknown unknown commit 2")
        producer.send(*("unknown unknown unknown unknown unknown unknown unknown unknown commit 3",) * 1)
        eventually(lambda: len(producer.checks()) >= 4, "Java's broker has asked")
        theirs.kill()
        asked = len(producer.checks())
        mine = ours.Broker(folder, [name_server.address], {**SOON, "maxHashSlotNum": "1000"})
        stack.callback(mine.kill)
        eventually(lambda: is_known(name_server.address, "broker-p"), "ours is registered")
        eventually(lambda: undecided(mine, "Moved") == [], "all are decided")
        assert len(producer.checks()) > asked
        moved = OwnCluster(name_server, mine)
        assert consumed(client, moved, "Moved") == [
            "commit 0",
            "unknown unknown commit 2",
            "unknown unknown unknown unknown unknown unknown unknown unknown commit 3",
        ]
        producer.stop()
