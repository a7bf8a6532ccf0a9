"""Every way of sending and of consuming, with our broker gone in between, by a clean stop or by kill -9.

Client 5.5.0 speaks JSON headers here and 4.9.8 binary ones. What runs while the broker goes away under it is tested by
`test_own_broker_restarts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .conftest import OwnCluster, is_known
from .peers import java, ours
from .test_own_broker_java import WAYS, all_arrive, bodies, shared, time_ms
from .test_tls import certificate  # noqa: F401 - a fixture
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # four minutes: by hand; CI has test_own_broker_restarts.py

VERSIONS = {"5.5.0": False, "4.9.8": True}  # binary headers


@pytest.fixture(params=VERSIONS)
def client(request: pytest.FixtureRequest, java_client: Callable[..., java.Client]) -> java.Client:
    return java_client(request.param, binary_headers=VERSIONS[request.param])


@pytest.fixture(params=["stop", "kill"])
def away(request: pytest.FixtureRequest, own: OwnCluster) -> Callable[[], None]:
    """Ends the broker, cleanly or by kill -9, and starts it again."""
    end: Callable[[], None] = own.broker.stop if request.param == "stop" else own.broker.kill

    def go() -> None:
        end()
        own.restart_broker()

    return go


@pytest.fixture
def members(client: java.Client, own: OwnCluster) -> Iterator[Callable[..., java.Consuming]]:
    """Consumers that end with the test: `members(kind, topic, group)`."""
    with ExitStack() as stack:
        yield lambda kind, topic, group, **more: stack.enter_context(
            client.consuming(kind, own.servers, topic, group, **more)
        )


def stored(client: java.Client, own: OwnCluster, topic: str) -> int:
    """Messages in all queues of a topic."""
    seen = client.do("look", servers=own.servers, topic=topic, group="GID_look", time=0)
    return sum(queue["max"] - queue["min"] for queue in seen.values())


def test_what_was_sent_in_every_way_is_there_for_every_kind_of_consumer(
    client: java.Client, away: Callable[[], None], own: OwnCluster, members: Callable[..., java.Consuming]
) -> None:
    topic = own.new_topic(queues=4)
    early = [body for way in WAYS for body in bodies(f"early {way} ", 8)]
    late = [body for way in WAYS for body in bodies(f"late {way} ", 8)]
    for way in WAYS:
        client.send_by(way, own.servers, topic, bodies(f"early {way} ", 8))
    eventually(lambda: stored(client, own, topic) == len(early), "the one-way ones have arrived too")
    away()
    for way in WAYS:
        sent = client.send_by(way, own.servers, topic, bodies(f"late {way} ", 8))
        assert {one["status"] for one in sent} == ({"SEND_OK"} if way != "oneway" else set())
    everything = [*early, *late]
    for kind in ("push", "orderly", "lite", "broadcast"):
        all_arrive(everything, members(kind, topic, f"GID_{kind}_{topic}"))
    pulled = client.do("pull", tags="*", servers=own.servers, topic=topic, group=f"GID_pull_{topic}")
    assert sorted(one["body"] for one in pulled) == sorted(everything)


def test_pulling_by_hand_goes_on_where_the_group_stood(
    client: java.Client, away: Callable[[], None], own: OwnCluster
) -> None:
    topic = own.new_topic(queues=2)
    wanted = {"servers": own.servers, "topic": topic, "group": f"GID_{topic}"}
    client.send_by("selector", own.servers, topic, bodies("first ", 20))
    assert len(client.do("pull", tags="*", **wanted)) == 20
    eventually(lambda: own.stored_offsets(topic, f"GID_{topic}") == {"0": 10, "1": 10}, "the offsets are on disk")
    away()
    client.send_by("sync", own.servers, topic, bodies("then ", 5))
    assert sorted(one["body"] for one in client.do("pull", tags="*", **wanted)) == bodies("then ", 5)


def test_a_new_group_begins_at_the_first_the_last_or_a_time(
    client: java.Client, away: Callable[[], None], own: OwnCluster, members: Callable[..., java.Consuming]
) -> None:
    topic = own.new_topic(queues=1)
    client.send_by("sync", own.servers, topic, bodies("early ", 3))
    seen = client.do("pull", tags="*", servers=own.servers, topic=topic, group=f"GID_pull_{topic}")
    after = max(one["stored"] for one in seen) // 1000 * 1000 + 1000  # the client's setting has seconds only
    eventually(lambda: time_ms() >= after, "the next second has begun")
    client.send_by("sync", own.servers, topic, bodies("later ", 3))
    away()
    begins = {"first": 6, "last": 0, str(after): 3}
    consumers = {start: members("broadcast", topic, f"GID_{start}_{topic}", **{"from": start}) for start in begins}
    for consumer in consumers.values():
        eventually(consumer.owned, "the consumer has its queue")
    eventually(lambda: len(consumers["first"].bodies()) == 6, "the first")
    client.send_by("sync", own.servers, topic, ["end"])
    everything = [*bodies("early ", 3), *bodies("later ", 3), "end"]
    for start, consumer in consumers.items():
        all_arrive(everything[6 - begins[start] :], consumer)


def test_two_three_and_one_member_own_every_queue_once_and_lose_nothing(
    java_client: Callable[..., java.Client], away: Callable[[], None], own: OwnCluster
) -> None:
    """Of 5.5.0: a consumer of 4.9.8 waits half a minute for answers on a connection that is no more."""
    client = java_client("5.5.0")
    topic = own.new_topic(queues=6)
    group = f"GID_{topic}"
    with ExitStack() as stack:
        first, second = (stack.enter_context(client.consuming("push", own.servers, topic, group)) for _ in range(2))
        sending = client.sending(own.servers, topic, "m")
        shared({first: 3, second: 3}, topic_queues=6)
        away()
        third = stack.enter_context(client.consuming("push", own.servers, topic, group))
        shared({first: 2, second: 2, third: 2}, topic_queues=6)
        eventually(third.received, "the third receives something")
        second.stop()
        third.stop()
        shared({first: 6}, topic_queues=6)
        sent = set(sending.stop())

        def received() -> set[str]:
            return {body for consumer in (first, second, third) for body in consumer.bodies()}

        eventually(lambda: received() >= sent, "all that was acknowledged was received by someone")


def test_namespaces_stay_apart(
    client: java.Client, away: Callable[[], None], own: OwnCluster, members: Callable[..., java.Consuming]
) -> None:
    topic = own.new_topic(queues=1)  # the name is of use; each namespace makes its own
    for space in ("east", "west"):
        client.send_by("sync", own.servers, topic, bodies(f"{space} ", 4), namespace=space)
    away()
    for space in ("east", "west"):
        consumer = members("push", topic, f"GID_{topic}", namespace=space)
        all_arrive(bodies(f"{space} ", 4), consumer)


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("version", VERSIONS)
def test_tls_clients_go_on(
    version: str,
    end: str,
    java_client: Callable[..., java.Client],
    home: Callable[[str], Path],
    certificate: dict[str, str],  # noqa: F811
) -> None:
    client = java_client(version, tls=True)
    topic = "SecretOverRestarts"
    with ExitStack() as stack:
        server = ours.NameServer(home("tls-away"), {**certificate, "tls.server.mode": "permissive"})
        stack.callback(server.kill)
        settings = {**certificate, "tls.server.mode": "enforcing"}
        broker = ours.Broker(home("tls-away-broker"), [server.address], settings)
        stack.callback(broker.kill)
        own = OwnCluster(server, broker)
        eventually(lambda: is_known(server.address, broker.name), "the broker has registered")
        client.send_by("sync", server.address, topic, bodies("early ", 4))
        if end == "stop":
            broker.stop()
        else:
            broker.kill()
        own.restart_broker()
        client.send_by("batch", server.address, topic, bodies("late ", 4))
        with client.consuming("push", server.address, topic, f"GID_{topic}") as consumer:
            all_arrive([*bodies("early ", 4), *bodies("late ", 4)], consumer)
