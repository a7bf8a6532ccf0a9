"""Java clients live through restarts and kill -9 of our broker: nothing acknowledged is lost, offsets go on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from .conftest import OwnCluster
from .peers import java
from .waiting import eventually

pytestmark = pytest.mark.interop

KINDS = ("push", "orderly", "broadcast", "lite")
HEADERS = {"5.5.0": False, "4.9.8": True}
VERSIONS = ["5.5.0", pytest.param("4.9.8", marks=pytest.mark.slow)]


@pytest.fixture(params=["stop", "kill"])
def broker_away(request: pytest.FixtureRequest, own: OwnCluster) -> Callable[[], None]:
    """Ends the broker, cleanly or by kill -9."""
    end: Callable[[], None] = own.broker.stop if request.param == "stop" else own.broker.kill
    return end


@pytest.fixture
def together(own: OwnCluster) -> Iterator[ExitStack]:
    """What a test opens; consumers end before the next test."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_acknowledged_is_lost_and_everybody_goes_on(
    version: str,
    broker_away: Callable[[], None],
    java_client: Callable[..., java.Client],
    own: OwnCluster,
    together: ExitStack,
) -> None:
    """A producer never stops sending; consumers of every kind are at work when the broker goes away under them."""
    client = java_client(version, binary_headers=HEADERS[version])
    topic = own.new_topic(queues=4)

    def start(kind: str) -> java.Consuming:
        return together.enter_context(client.consuming(kind, own.servers, topic, f"GID_{kind}_{topic}"))

    consumers = {kind: [start(kind)] for kind in KINDS}
    sending = client.sending(own.servers, topic, "m")
    for one in consumers.values():
        eventually(one[0].received, "everybody receives")
    before = len(sending.acknowledged())

    broker_away()
    own.restart_broker()

    eventually(lambda: len(sending.acknowledged()) > before + 20, "the producer goes on")
    if version == "4.9.8":  # it waits half a minute for answers on a connection that is no more
        for kind, one in consumers.items():
            one[0].stop()
            one.append(start(kind))
    sent = set(sending.stop())
    for kind, one in consumers.items():
        have_all(kind, one, sent)
    for queue in range(4):
        received = [message for one in consumers["orderly"] for message in one.received()]
        offsets = dict.fromkeys(message["offset"] for message in received if message["queue"] == queue)
        assert list(offsets) == list(range(len(offsets))), "in order, without a hole"


def have_all(kind: str, consumers: Sequence[java.Consuming], bodies: set[str]) -> None:
    def missing() -> set[str]:
        return bodies - {body for consumer in consumers for body in consumer.bodies()}

    eventually(lambda: not missing(), f"the {kind} consumer has all {len(bodies)}", seen=missing)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_goes_on_where_it_was(
    version: str,
    broker_away: Callable[[], None],
    java_client: Callable[..., java.Client],
    own: OwnCluster,
) -> None:
    client = java_client(version, binary_headers=HEADERS[version])
    topic = own.new_topic(queues=2)
    group = f"GID_{topic}"
    early, late = ([f"{when}-{number}" for number in range(10)] for when in ("early", "late"))
    client.send_by("selector", own.servers, topic, early)
    with client.consuming("push", own.servers, topic, group) as consumer:
        eventually(lambda: len(consumer.bodies()) == 10, "all have arrived")
    eventually(lambda: own.stored_offsets(topic, group) == {"0": 5, "1": 5}, "the offsets are on disk")

    broker_away()
    own.restart_broker()

    client.send_by("selector", own.servers, topic, late)
    with client.consuming("push", own.servers, topic, group) as consumer:
        eventually(lambda: set(consumer.bodies()) >= set(late), "the new ones arrive")
        assert sorted(consumer.bodies()) == late
    found = client.do("query", servers=own.servers, topic=topic, group=group, key="early-3")
    assert [one["body"] for one in found] == ["early-3"], "the index is there again"


@pytest.mark.slow
def test_a_consumer_that_dies_is_replaced_once_its_locks_have_expired(
    java_client: Callable[..., java.Client], own: OwnCluster, home: Callable[[str], Path], together: ExitStack
) -> None:
    """kill -9 of one member: the other two take over what it had after 60 s, not before: it might just have lost its
    connection, and still be at work."""
    topic = own.new_topic(queues=6)
    doomed = java.Client("5.5.0", home("doomed"))
    together.callback(doomed.kill)
    client = java_client("5.5.0")
    group = f"GID_{topic}"
    staying = [together.enter_context(client.consuming("orderly", own.servers, topic, group)) for _ in range(2)]
    dying = doomed.consuming("orderly", own.servers, topic, group)
    eventually(lambda: sorted(len(one.owned()) for one in (*staying, dying)) == [2, 2, 2], "three share six queues")
    doomed.kill()
    eventually(lambda: sorted(len(one.owned()) for one in staying) == [3, 3], "two share six queues", 150)
    client.send_by("selector", own.servers, topic, [f"m{number}" for number in range(30)])

    def received() -> list[str]:
        return sorted(itertools.chain.from_iterable(one.bodies() for one in staying))

    eventually(lambda: len(received()) >= 30, "all arrive at the two")
    assert len(set(received())) == 30
