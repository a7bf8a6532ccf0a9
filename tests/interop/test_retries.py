"""Retries and dead letters with clients nobody here wrote, on our broker; and beside it on Java's, to compare.

The levels are short (a second each), so that sixteen retries take seconds.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from pyromq.protocol.requests import RequestCode

from . import wire
from .conftest import OwnCluster, is_known
from .peers import go, java, ours
from .waiting import eventually

pytestmark = pytest.mark.interop

LEVELS = " ".join(["1s"] * 18)
VERSIONS = ["5.5.0", "4.9.8"]
# What differs from run to run, or by the broker's name and place.
CHANGING = {"MIN_OFFSET", "MAX_OFFSET", "UNIQ_KEY", "ORIGIN_MESSAGE_ID", "CONSUME_START_TIME", "REAL_QID", "__CRC32#"}


class Retrying:
    """A consumer in a Java client that fails as it is told (tests/interop/java/Retrying.java)."""

    _numbers = itertools.count(1)

    def __init__(self, client: java.Client, **wanted: Any) -> None:
        self._client = client
        self._name = f"retrying{next(self._numbers)}"
        client.do("retry", name=self._name, **wanted)

    def deliveries(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.do("retried", name=self._name)
        return found

    def expire(self) -> None:
        """The client looks for what takes too long."""
        self._client.do("expire", name=self._name)

    def times(self, body: str) -> list[int]:
        return [one["times"] for one in self.deliveries() if one["body"] == body]

    def __enter__(self) -> Retrying:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.do("stop retrying", name=self._name)


@pytest.fixture(scope="module")
def quick(home: Callable[[str], Path]) -> Iterator[OwnCluster]:
    """A cluster of ours with short levels."""
    with ExitStack() as stack:
        name_server = ours.NameServer(home("retry-namesrv"))
        stack.callback(name_server.kill)
        settings = {"messageDelayLevel": LEVELS, "flushConsumerOffsetInterval": "200"}
        broker = ours.Broker(home("retry-broker"), [name_server.address], settings)
        stack.callback(broker.kill)
        eventually(lambda: is_known(name_server.address, broker.name), "our broker is registered")
        yield OwnCluster(name_server, broker)


@pytest.fixture(scope="module")
def javas(java_peers: None, home: Callable[[str], Path], quick: OwnCluster) -> Iterator[OwnCluster]:
    """Java's broker with the same levels, at a name server of its own."""
    with ExitStack() as stack:
        name_server = ours.NameServer(home("retry-java-namesrv"))
        stack.callback(name_server.kill)
        broker = java.Broker("5.5.0", home("retry-java"), [name_server.address], {"messageDelayLevel": LEVELS})
        stack.callback(broker.kill)
        eventually(lambda: is_known(name_server.address, broker.name), "Java's broker is registered")
        yield OwnCluster(name_server, broker)  # type: ignore[arg-type]


@pytest.fixture(params=VERSIONS)
def client(request: pytest.FixtureRequest, java_client: Callable[..., java.Client]) -> java.Client:
    return java_client(request.param, binary_headers=request.param == "4.9.8")


def group_for(cluster: OwnCluster, topic: str, client: java.Client, kind: str = "") -> str:
    """A group whose retry topic is there already.

    Else the client of a new group asks for its route before the heartbeat that makes it, and takes its queue at the
    next sharing-out, 20 s later; so it is on Java's broker too.
    """
    group = f"GID_{kind}{topic}_{client.program.name.replace(' ', '_').replace('.', '_')}"
    make_topic(cluster, f"%RETRY%{group}")
    return group


def make_topic(cluster: OwnCluster, topic: str) -> None:
    wire.create_topic(cluster.broker.address, topic, 1)
    eventually(lambda: wire.ask(cluster.servers, wire.GET_ROUTE, {"topic": topic}).code == 0, f"{topic} has a route")


def dead_letters(client: java.Client, cluster: OwnCluster, group: str) -> list[dict[str, Any]]:
    """What a consumer of the dead letters' topic is given."""
    with Retrying(
        client, kind="push", servers=cluster.servers, topic=f"%DLQ%{group}", group=f"{group}_dead", fails=0
    ) as reader:
        eventually(reader.deliveries, "the dead letter is read")
        return reader.deliveries()


@pytest.mark.slow
def test_what_takes_longer_than_the_time_out_is_given_back_by_the_client(
    client: java.Client, quick: OwnCluster
) -> None:
    """While its listener is still at it; what is behind it goes on."""
    topic = quick.new_topic(queues=1)
    group = group_for(quick, topic, client)
    with Retrying(client, kind="push", servers=quick.servers, topic=topic, group=group, fails=0) as consumer:
        client.send_by("sync", quick.servers, topic, ["stuck", "good"])
        eventually(lambda: consumer.times("stuck") == [0] and consumer.times("good") == [0], "both are handed out")
        assert (quick.stored_offsets(topic, group) or {}).get("0", 0) == 0, "the first is not done"
        consumer.expire()
        eventually(lambda: consumer.times("stuck") == [0, 1], "it comes again")
        again = consumer.deliveries()[-1]
        assert (again["properties"]["RETRY_TOPIC"], consumer.times("good")) == (topic, [0])
        eventually(lambda: quick.stored_offsets(topic, group) == {"0": 2}, "and holds nothing up")


@pytest.mark.slow
def test_sixteen_retries_end_in_the_dead_letters(client: java.Client, quick: OwnCluster) -> None:
    topic = quick.new_topic(queues=1)
    group = group_for(quick, topic, client)
    with Retrying(client, kind="push", servers=quick.servers, topic=topic, group=group, fails=99) as consumer:
        client.send_by("sync", quick.servers, topic, ["bad"])
        eventually(lambda: len(consumer.times("bad")) == 17, "17 deliveries", 90)
        deliveries = consumer.deliveries()
        assert consumer.times("bad") == list(range(17))
        assert {one["topic"] for one in deliveries} == {topic}
        for before, after in itertools.pairwise(deliveries):
            assert after["at"] - before["at"] >= 1000, "never early"
        (dead,) = dead_letters(client, quick, group)
    assert (dead["times"], dead["body"]) == (17, "bad")
    assert dead["properties"]["RETRY_TOPIC"] == topic
    assert dead["properties"]["UNIQ_KEY"] == deliveries[0]["id"]
    life = json.loads(
        wire.ask(quick.broker.address, RequestCode.MESSAGE_LIFE, {"topic": topic, "id": deliveries[0]["id"]}).body
    )
    (told,) = [one for one in life["groups"] if one["group"] == group]
    assert (told["state"], told["retry"]) == ("dead", 17)
    steps = ["stored", *["waits for a retry", "on the retry topic"] * 16, "dead"]
    assert [one["what"] for one in life["history"]] == steps


def test_own_levels_and_dead_letters_at_once(client: java.Client, quick: OwnCluster) -> None:
    topic = quick.new_topic(queues=1)
    for level, fails in ((2, 1), (-1, 1)):
        group = group_for(quick, topic, client, f"L{level}_".replace("-", "m"))
        wanted: dict[str, Any] = {"servers": quick.servers, "topic": topic, "group": group}
        with Retrying(client, kind="push", fails=fails, level=level, **wanted) as consumer:
            client.send_by("sync", quick.servers, topic, [f"bad {level}"])
            if level > 0:
                eventually(lambda c=consumer, b=f"bad {level}": c.times(b) == [0, 1], "it comes again")  # type: ignore[misc]
                (again,) = [one for one in consumer.deliveries() if one["body"] == f"bad {level}" and one["times"]]
                assert again["properties"]["DELAY"] == "2"
            else:
                eventually(consumer.deliveries, "it came")
                dead = [one for one in dead_letters(client, quick, group) if one["body"] == f"bad {level}"]
                assert [one["times"] for one in dead] == [1]
                assert consumer.times(f"bad {level}") == [0]


def test_only_what_follows_the_ack_index_comes_again(client: java.Client, quick: OwnCluster) -> None:
    topic = quick.new_topic(queues=1)
    group = group_for(quick, topic, client)
    client.send_by("batch", quick.servers, topic, ["a", "b", "c", "d"])
    wanted: dict[str, Any] = {"servers": quick.servers, "topic": topic, "group": group}
    with Retrying(client, kind="push", fails=1, batch=4, ack=1, **wanted) as consumer:
        first = eventually(lambda: [one for one in consumer.deliveries() if one["call"] == 1], "the first call")
        eventually(lambda: len(consumer.deliveries()) >= 6, "what failed comes again")
        assert [one["body"] for one in first] == ["a", "b", "c", "d"]
        assert [consumer.times(body) for body in "abcd"] == [[0], [0], [0, 1], [0, 1]]


def test_an_ordered_queue_waits_and_gives_up_at_its_bound(client: java.Client, quick: OwnCluster) -> None:
    topic = quick.new_topic(queues=1)
    group = group_for(quick, topic, client)
    client.send_by("sync", quick.servers, topic, ["good 1", "bad", "good 2"])
    wanted: dict[str, Any] = {"servers": quick.servers, "topic": topic, "group": group}
    with Retrying(client, kind="orderly", fails=99, max=2, suspend=100, **wanted) as consumer:
        eventually(lambda: consumer.times("good 2"), "the queue goes on")
        assert [one["body"] for one in consumer.deliveries()] == ["good 1", "bad", "bad", "bad", "good 2"]
        (dead,) = dead_letters(client, quick, group)
    assert (dead["body"], dead["properties"]["RETRY_TOPIC"]) == ("bad", topic)


@pytest.mark.parametrize(
    "policy",
    [
        '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[2000,3000]}}',
        '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":2000,"max":3000,"multiplier":4}}',
    ],
    ids=["list", "exponential"],
)
def test_the_groups_own_schedule_holds(policy: str, client: java.Client, admin: java.Admin, quick: OwnCluster) -> None:
    """Set by mqadmin: two seconds before the first retry, three before the second; the levels would be one each."""
    topic = quick.new_topic(queues=1)
    group = group_for(quick, topic, client)
    admin.run("updateSubGroup", "-n", quick.servers, "-c", "DefaultCluster", "-g", group, "-p", policy)
    with Retrying(client, kind="push", servers=quick.servers, topic=topic, group=group, fails=2) as consumer:
        client.send_by("sync", quick.servers, topic, ["bad"])
        eventually(lambda: consumer.times("bad") == [0, 1, 2], "two retries")
        gaps = [after["at"] - before["at"] for before, after in itertools.pairwise(consumer.deliveries())]
    assert gaps[0] >= 2000
    assert gaps[1] >= 3000


@pytest.mark.slow  # a Java broker
def test_a_dead_letter_has_javas_properties(client: java.Client, quick: OwnCluster, javas: OwnCluster) -> None:
    """The same life on both brokers leaves the same record, property by property, on the same kind of topic."""
    topic = f"Same{client.program.name.replace(' ', '_').replace('.', '_')}"
    assert end_of_a_life(client, quick, topic) == end_of_a_life(client, javas, topic)


def end_of_a_life(client: java.Client, cluster: OwnCluster, topic: str) -> dict[str, Any]:
    make_topic(cluster, topic)
    group = f"GID_{topic}"
    wanted: dict[str, Any] = {"servers": cluster.servers, "topic": topic, "group": group}
    with Retrying(client, kind="push", fails=99, max=2, **wanted) as consumer:
        client.send_by("sync", cluster.servers, topic, ["bad"])
        eventually(lambda: consumer.times("bad") == [0, 1, 2], "three deliveries", 90)
        (dead,) = dead_letters(client, cluster, group)
        deliveries = consumer.deliveries()
    return {
        "dead": (dead["topic"], dead["times"], fixed(dead)),
        "deliveries": [(one["topic"], fixed(one)) for one in deliveries],
        "topics": {prefix: queues_of(cluster, f"{prefix}{group}") for prefix in ("%RETRY%", "%DLQ%")},
    }


def fixed(delivery: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in delivery["properties"].items() if key not in CHANGING}


def queues_of(cluster: OwnCluster, topic: str) -> list[tuple[int, int, int]]:
    route = wire.json_with_bare_keys(bytes(wire.ask(cluster.servers, wire.GET_ROUTE, {"topic": topic}).body))
    return [(one["readQueueNums"], one["writeQueueNums"], one["perm"]) for one in route["queueDatas"]]


def test_the_go_client_gets_it_again_until_it_is_dead(
    go_peer: None, quick: OwnCluster, home: Callable[[str], Path], java_client: Callable[..., java.Client]
) -> None:
    topic = quick.new_topic(queues=1)
    group = f"GID_go_{topic}"
    make_topic(quick, f"%RETRY%{group}")
    go.client.send(quick.servers, topic, "TagA", ["bad"], home=home("client"))
    received = go.client.retry(quick.servers, topic, group, 2, 3, home=home("client"))
    assert [one["times"] for one in received] == ["0", "1", "2"]
    assert {one["topic"] for one in received} == {topic}
    (dead,) = dead_letters(java_client("5.5.0"), quick, group)
    assert (dead["body"], dead["times"]) == ("bad", 3)
