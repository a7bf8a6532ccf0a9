"""Real clients that filter: SQL92 from Java 4.9 and 5.5 and Go, colliding tags, restarts and kills of our broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .conftest import OwnCluster, is_known
from .peers import go, java, ours
from .peers.process import ProgramFailed
from .waiting import eventually

pytestmark = pytest.mark.interop

GetClient = Callable[..., java.Client]

# The Java applications put the body into KEYS and give every message the tag TagA and a property colour.
FROM_FIFTEEN = "SQL92:KEYS >= 15 AND TAGS = 'TagA' AND colour STARTSWITH 'blau' AND missing IS NULL"


@pytest.fixture(scope="module")
def filtering(home: Callable[[str], Path]) -> Iterator[OwnCluster]:
    with ExitStack() as stack:
        name_server = ours.NameServer(home("filter-namesrv"))
        stack.callback(name_server.kill)
        settings = {"enablePropertyFilter": "true", "flushConsumerOffsetInterval": "200"}
        broker = ours.Broker(home("filter-broker"), [name_server.address], settings, name="broker-f")
        stack.callback(lambda: broker.kill())
        cluster = OwnCluster(name_server, broker)
        eventually(lambda: is_known(cluster.servers, broker.name), "the broker has registered")
        yield cluster


@pytest.fixture(params=[("5.5.0", False), ("4.9.8", True)], ids=["5.5.0", "4.9.8"])
def client(request: pytest.FixtureRequest, java_client: GetClient) -> java.Client:
    version, binary_headers = request.param
    return java_client(version, binary_headers=binary_headers)


@pytest.fixture(params=["5.5.0", "4.9.8"])
def own_client(request: pytest.FixtureRequest, java_peers: None, home: Callable[[str], Path]) -> Iterator[java.Client]:
    """Of its own: a consumer that was refused stays known in its JVM and is in the way of later ones."""
    running = java.Client(request.param, home("refused-client"))
    yield running
    running.kill()


def numbered(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


@pytest.mark.parametrize("kind", ["push", "orderly", "lite"])
def test_a_java_consumer_gets_what_its_expression_matches(
    kind: str, client: java.Client, filtering: OwnCluster
) -> None:
    topic = filtering.new_topic(queues=2)
    with client.consuming(kind, filtering.servers, topic, f"GID_{topic}", tags=FROM_FIFTEEN) as consumer:
        client.send_by("sync", filtering.servers, topic, numbered(0, 20))
        eventually(lambda: len(consumer.bodies()) >= 5, "what matches has arrived")
        client.send_by("sync", filtering.servers, topic, [*numbered(0, 5), "99"])
        eventually(lambda: "99" in consumer.bodies(), "the last one has arrived")
        assert sorted(consumer.bodies()) == [*numbered(15, 20), "99"]


@pytest.mark.slow
def test_a_filter_works_on_after_a_restart_and_a_kill(client: java.Client, filtering: OwnCluster) -> None:
    topic = filtering.new_topic(queues=2)
    with client.consuming("push", filtering.servers, topic, f"GID_{topic}", tags=FROM_FIFTEEN) as consumer:
        client.send_by("sync", filtering.servers, topic, numbered(10, 20))
        eventually(lambda: set(consumer.bodies()) == set(numbered(15, 20)), "what matches has arrived")
        filtering.broker.stop()
        filtering.restart_broker()
        client.send_by("sync", filtering.servers, topic, numbered(12, 22))
        eventually(lambda: {"20", "21"} <= set(consumer.bodies()), "it filters on after a restart")
        filtering.broker.kill()
        filtering.restart_broker()
        client.send_by("sync", filtering.servers, topic, numbered(13, 24))
        eventually(lambda: {"22", "23"} <= set(consumer.bodies()), "it filters on after a kill")
        assert {int(body) for body in consumer.bodies()} == set(range(15, 24))
    kept = (filtering.broker.home / "store" / "config" / "consumerFilter.json").read_text()
    assert f"GID_{topic}" in kept


def test_a_wrong_expression_is_refused_at_the_start(own_client: java.Client, filtering: OwnCluster) -> None:
    topic = filtering.new_topic(queues=1)
    with pytest.raises(ProgramFailed, match="column 8"):
        own_client.consuming("push", filtering.servers, topic, f"GID_{topic}", tags="SQL92:KEYS > ")


def test_a_broker_without_filters_refuses_at_the_start(own_client: java.Client, own: OwnCluster) -> None:
    topic = own.new_topic(queues=1)
    with pytest.raises(ProgramFailed, match="does not support consumer to filter message by SQL92"):
        own_client.consuming("push", own.servers, topic, f"GID_{topic}", tags="SQL92:KEYS > 5")


def test_tags_whose_hashes_collide_are_told_apart_by_the_client(client: java.Client, filtering: OwnCluster) -> None:
    topic = filtering.new_topic(queues=1)
    with client.consuming("push", filtering.servers, topic, f"GID_{topic}", tags="Aa || C") as consumer:
        for tag in ("Aa", "BB", "C"):
            client.send_by("sync", filtering.servers, topic, [f"of {tag}"], tag=tag)
        eventually(lambda: "of C" in consumer.bodies(), "the last one has arrived")
        assert sorted(consumer.bodies()) == ["of Aa", "of C"]


def test_the_go_client_filters(go_peer: None, filtering: OwnCluster, home: Callable[[str], Path]) -> None:
    topic = filtering.new_topic(queues=2)
    go.client.send(filtering.servers, topic, "TagA", numbered(0, 20), home=home("go"))
    got = go.client.consume(
        filtering.servers,
        topic,
        f"GID_{topic}",
        "SQL92:KEYS BETWEEN 15 AND 30 AND TAGS IN ('TagA')",
        5,
        home=home("go"),
    )
    assert sorted(one["body"] for one in got) == numbered(15, 20)
