"""Java producers and consumers on our broker and name server: every way of sending and of consuming.

Client 5.5.0 speaks JSON headers here and 4.9.8 binary ones; sending is tried with both by each.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from . import wire
from .conftest import OwnCluster
from .peers import java
from .waiting import eventually

pytestmark = pytest.mark.interop

GetClient = Callable[..., java.Client]
WAYS = ("sync", "async", "oneway", "batch", "selector")


@pytest.fixture(params=[("5.5.0", False), ("4.9.8", True)], ids=["5.5.0", "4.9.8"])
def client(request: pytest.FixtureRequest, java_client: GetClient) -> java.Client:
    version, binary_headers = request.param
    return java_client(version, binary_headers=binary_headers)


@pytest.fixture
def members(client: java.Client, own: OwnCluster) -> Iterator[Callable[..., java.Consuming]]:
    """Consumers that end with the test: `members(kind, topic, group)`."""
    with ExitStack() as stack:
        yield lambda kind, topic, group, **more: stack.enter_context(
            client.consuming(kind, own.servers, topic, group, **more)
        )


def bodies(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def all_arrive(wanted: Sequence[str], *consumers: java.Consuming) -> None:
    """Every body is received by one of them, none twice."""

    def arrived() -> list[str]:
        return sorted(itertools.chain.from_iterable(consumer.bodies() for consumer in consumers))

    eventually(lambda: len(set(arrived())) >= len(wanted), f"{len(wanted)} messages have arrived")
    assert arrived() == sorted(wanted)


@pytest.mark.parametrize("binary_headers", [False, True], ids=["json", "binary"])
@pytest.mark.parametrize("version", ["5.5.0", "4.9.8"])
def test_every_way_of_sending_arrives(
    version: str, binary_headers: bool, java_client: GetClient, own: OwnCluster
) -> None:
    client = java_client(version, binary_headers=binary_headers)
    topic = own.new_topic(queues=4)
    with client.consuming("push", own.servers, topic, f"GID_{topic}") as consumer:
        for way in WAYS:
            sent = client.send_by(way, own.servers, topic, bodies(f"{way} ", 8))
            assert {one["status"] for one in sent} == ({"SEND_OK"} if way != "oneway" else set())
            assert {one["broker"] for one in sent} <= {"broker-p"}
            assert len(sent) == {"oneway": 0, "batch": 1}.get(way, 8)
            if way == "selector":
                assert [one["queue"] for one in sent] == [0, 1, 2, 3] * 2
        all_arrive([body for way in WAYS for body in bodies(f"{way} ", 8)], consumer)
        for message in consumer.received():
            assert (message["tag"], message["key"]) == ("TagA", message["body"])
            assert message["colour"] == "blau ünd grün"


@pytest.mark.parametrize("kind", ["NORMAL", "FIFO", "DELAY", "TRANSACTION"])
def test_a_topic_of_any_type_takes_every_way_of_sending(kind: str, client: java.Client, own: OwnCluster) -> None:
    topic = own.new_topic(kind=kind)
    for way in WAYS:
        sent = client.send_by(way, own.servers, topic, bodies(f"{way} ", 4))
        assert {one["status"] for one in sent} == ({"SEND_OK"} if way != "oneway" else set())


def test_an_automatically_created_topic(
    client: java.Client, own: OwnCluster, members: Callable[..., java.Consuming]
) -> None:
    topic = f"OwnAutomatic{client.program.name.replace(' ', '').replace('.', '_')}"
    sent = client.send_by("sync", own.servers, topic, bodies("m", 8))
    assert {one["status"] for one in sent} == {"SEND_OK"}
    all_arrive(bodies("m", 8), members("push", topic, f"GID_{topic}"))


def test_a_group_reads_added_queues_from_their_first_message(
    client: java.Client, own: OwnCluster, members: Callable[..., java.Consuming]
) -> None:
    """It has its offsets before it knows of the queues, and before anything is in them."""
    topic = own.new_topic(queues=2)
    group = f"GID_{topic}"
    consumer = members("push", topic, group, **{"from": "last"})
    eventually(lambda: own.stored_offsets(topic, group) == {"0": 0, "1": 0}, "it has begun", 15)
    wire.create_topic(own.broker.address, topic, 4)
    eventually(lambda: own.stored_offsets(topic, group) == {str(n): 0 for n in range(4)}, "it has all queues", 5)
    client.send_by("selector", own.servers, topic, bodies("m", 40))
    all_arrive(bodies("m", 40), consumer)


def test_a_consumer_that_was_there_before_its_topic(
    client: java.Client, own: OwnCluster, members: Callable[..., java.Consuming]
) -> None:
    topic = f"OwnLate{client.program.name.replace(' ', '').replace('.', '_')}"
    consumer = members("push", topic, f"GID_{topic}", **{"from": "last"})
    client.send_by("sync", own.servers, topic, bodies("m", 20))
    all_arrive(bodies("m", 20), consumer)


def test_large_bodies_are_compressed_by_the_client(
    client: java.Client, own: OwnCluster, members: Callable[..., java.Consuming]
) -> None:
    topic = own.new_topic(queues=1)
    large = [f"{number} " + "abc" * 40_000 for number in range(3)]
    client.send_by("sync", own.servers, topic, large)
    all_arrive(large, members("push", topic, f"GID_{topic}"))


def test_an_orderly_consumer_keeps_the_order_of_each_queue(
    client: java.Client, own: OwnCluster, members: Callable[..., java.Consuming]
) -> None:
    topic = own.new_topic(queues=3)
    consumer = members("orderly", topic, f"GID_{topic}")
    client.send_by("selector", own.servers, topic, bodies("m", 30))
    all_arrive(bodies("m", 30), consumer)
    for queue in range(3):
        got = [message["body"] for message in consumer.received() if message["queue"] == queue]
        assert got == [f"m{number}" for number in range(queue, 30, 3)]


def test_two_orderly_consumers_share_the_queues_and_one_takes_over(java_client: GetClient, own: OwnCluster) -> None:
    """A client of 4.9 tries only every 20 s to lock what the other has given up."""
    client = java_client("5.5.0")
    topic = own.new_topic(queues=4)
    first, second = (client.consuming("orderly", own.servers, topic, f"GID_{topic}") for _ in range(2))
    shared({first: 2, second: 2}, topic_queues=4)
    client.send_by("selector", own.servers, topic, bodies("m", 40))
    all_arrive(bodies("m", 40), first, second)
    second.stop()
    shared({first: 4}, topic_queues=4)
    client.send_by("selector", own.servers, topic, bodies("n", 40))
    eventually(lambda: set(first.bodies()) >= set(bodies("n", 40)), "the one that stayed receives all")
    first.stop()


def shared(expected: dict[java.Consuming, int], topic_queues: int) -> None:
    """Wait until each consumer owns its number of queues; every queue then has one owner."""
    everything = {f"broker-p:{number}" for number in range(topic_queues)}

    def as_expected() -> bool:
        owned = {consumer: consumer.owned() for consumer in expected}
        return (
            all(len(owned[consumer]) == count for consumer, count in expected.items())
            and set().union(*owned.values()) == everything
        )

    eventually(as_expected, f"queues are shared {sorted(expected.values())}")


def test_a_group_of_two_three_and_one_owns_every_queue_once_and_loses_nothing(
    client: java.Client, own: OwnCluster, members: Callable[..., java.Consuming]
) -> None:
    topic = own.new_topic(queues=6)
    group = f"GID_{topic}"
    sending = client.sending(own.servers, topic, "m")
    first, second = (members("push", topic, group) for _ in range(2))
    shared({first: 3, second: 3}, topic_queues=6)
    third = members("push", topic, group)
    shared({first: 2, second: 2, third: 2}, topic_queues=6)
    eventually(third.received, "the third receives something")
    second.stop()
    third.stop()
    shared({first: 6}, topic_queues=6)
    sent = sending.stop()

    def received() -> set[str]:
        return {body for consumer in (first, second, third) for body in consumer.bodies()}

    eventually(lambda: received() >= set(sent), "all that was sent was received by someone")
    assert received() == set(sent)


def test_pulling_by_hand_goes_on_where_the_group_stands(client: java.Client, own: OwnCluster) -> None:
    topic = own.new_topic(queues=2)
    wanted = {"servers": own.servers, "topic": topic, "group": f"GID_{topic}"}
    client.send_by("sync", own.servers, topic, bodies("first ", 50))
    assert {one["body"] for one in client.do("pull", tags="*", **wanted)} == set(bodies("first ", 50))
    client.send_by("sync", own.servers, topic, bodies("then ", 5))
    assert sorted(one["body"] for one in client.do("pull", tags="*", **wanted)) == bodies("then ", 5)
    assert client.do("pull", tags="*", **wanted) == []


def test_ends_and_times_of_queues(client: java.Client, own: OwnCluster) -> None:
    topic = own.new_topic(queues=2)
    client.send_by("selector", own.servers, topic, bodies("m", 10))
    pulled = client.do("pull", tags="*", servers=own.servers, topic=topic, group=f"GID_{topic}")
    stored = {(one["queue"], one["offset"]): one["stored"] for one in pulled}
    seen = client.do("look", servers=own.servers, topic=topic, group=f"GID_{topic}", time=stored[0, 0])
    assert seen["broker-p:0"] == {"min": 0, "max": 5, "at": 0, "earliest": stored[0, 0]}
    later = client.do("look", servers=own.servers, topic=topic, group=f"GID_{topic}", time=stored[1, 4] + 1)
    assert later["broker-p:1"]["at"] in (4, 5)


def test_messages_are_found_by_key_and_by_id(client: java.Client, own: OwnCluster) -> None:
    topic = own.new_topic(queues=2)
    sent = client.send_by("sync", own.servers, topic, bodies("m", 10))
    wanted = {"servers": own.servers, "topic": topic, "group": f"GID_{topic}"}
    assert [one["body"] for one in client.do("query", key="m7", **wanted)] == ["m7"]
    assert client.do("query", id=sent[3]["id"], **wanted)[0]["body"] == "m3"
    assert client.do("query", id=sent[4]["place"], **wanted)[0]["body"] == "m4"


def test_lite_pull_shares_and_goes_on_after_a_restart_of_the_consumer(
    client: java.Client, own: OwnCluster, members: Callable[..., java.Consuming]
) -> None:
    topic = own.new_topic(queues=4)
    first, second = (members("lite", topic, f"GID_{topic}") for _ in range(2))
    shared({first: 2, second: 2}, topic_queues=4)
    client.send_by("sync", own.servers, topic, bodies("m", 20))
    all_arrive(bodies("m", 20), first, second)
    first.stop()
    second.stop()
    client.send_by("sync", own.servers, topic, bodies("n", 20))
    again = members("lite", topic, f"GID_{topic}")
    eventually(lambda: set(again.bodies()) >= set(bodies("n", 20)), "what came meanwhile is received")
    assert sorted(again.bodies()) == sorted(bodies("n", 20)), "and nothing a second time"


def test_broadcast_reaches_every_member(
    client: java.Client, own: OwnCluster, members: Callable[..., java.Consuming]
) -> None:
    topic = own.new_topic(queues=2)
    consumers = [members("broadcast", topic, f"GID_{topic}") for _ in range(2)]
    for consumer in consumers:
        shared({consumer: 2}, topic_queues=2)
    client.send_by("sync", own.servers, topic, bodies("m", 10))
    for consumer in consumers:
        all_arrive(bodies("m", 10), consumer)


def test_tags_select(client: java.Client, own: OwnCluster, members: Callable[..., java.Consuming]) -> None:
    topic = own.new_topic(queues=2)
    for tag in ("TagA", "TagB", "TagC"):
        client.send_by("sync", own.servers, topic, bodies(f"{tag} ", 5), tag=tag)
    consumer = members("push", topic, f"GID_{topic}", tags="TagA || TagC")
    all_arrive([*bodies("TagA ", 5), *bodies("TagC ", 5)], consumer)


def test_a_new_group_begins_at_the_first_the_last_or_a_time(
    client: java.Client, own: OwnCluster, members: Callable[..., java.Consuming]
) -> None:
    """By members of a broadcast, who keep offsets themselves and ask the broker for its ends and for times.

    A shared group is told 0 by the broker as long as everything is still there, wherever it wants to begin: as Java's.
    """
    topic = own.new_topic(queues=1)
    client.send_by("sync", own.servers, topic, bodies("early ", 3))
    seen = client.do("pull", tags="*", servers=own.servers, topic=topic, group=f"GID_pull_{topic}")
    after = max(one["stored"] for one in seen) // 1000 * 1000 + 1000  # the client's setting has seconds only
    eventually(lambda: time_ms() >= after, "the next second has begun")
    client.send_by("sync", own.servers, topic, bodies("later ", 3))
    begins = {"first": 6, "last": 0, str(after): 3}
    consumers = {start: members("broadcast", topic, f"GID_{start}_{topic}", **{"from": start}) for start in begins}
    shared_group = members("push", topic, f"GID_shared_{topic}", **{"from": "last"})
    for consumer in (*consumers.values(), shared_group):
        eventually(consumer.owned, "the consumer has its queue")
    eventually(lambda: len(consumers["first"].bodies()) == 6, "the first")
    client.send_by("sync", own.servers, topic, ["end"])
    everything = [*bodies("early ", 3), *bodies("later ", 3), "end"]
    for start, consumer in consumers.items():
        all_arrive(everything[6 - begins[start] :], consumer)
    all_arrive(everything, shared_group)


def test_namespaces_keep_topics_apart(
    client: java.Client, own: OwnCluster, members: Callable[..., java.Consuming]
) -> None:
    topic = f"Spaced{client.program.name.replace(' ', '').replace('.', '_')}"
    for space in ("north", "south"):
        client.send_by("sync", own.servers, topic, bodies(f"{space} ", 4), namespace=space)
    for space in ("north", "south"):
        consumer = members("push", topic, f"GID_{topic}", namespace=space)
        all_arrive(bodies(f"{space} ", 4), consumer)
        assert {one["topic"] for one in consumer.received()} == {topic}


def time_ms() -> int:
    return int(time.time() * 1000)
