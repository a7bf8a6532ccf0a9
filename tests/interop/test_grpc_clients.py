"""Apache's gRPC clients of other languages through our broker's own endpoint: every kind of message, both kinds of
consumers, tags, retries, and a broker that is stopped or killed while a consumer waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from . import wire
from .conftest import needed
from .grpc_endpoint import Endpoint, grpc_endpoint
from .peers import java_proxy
from .peers.grpc_clients import CLIENTS, GrpcClient
from .peers.process import answer_of

pytestmark = pytest.mark.interop

# By hand, `make interop`: older ones of the same family, and one that takes minutes to build.
SLOW = ("java-5.0.0", "java-5.0.7", "rust")
NAMES = {name: pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in CLIENTS}
PUSHING = [param for name, param in NAMES.items() if CLIENTS[name].can_push]


@pytest.fixture(scope="module")
def own_endpoint(home: Callable[[str], Path]) -> Iterator[Endpoint]:
    settings = {
        "flushConsumerOffsetInterval": "200",
        "transactionCheckInterval": "1000",
        "transactionTimeOut": "1000",
    }
    with grpc_endpoint(home, settings) as cluster:
        yield cluster


@pytest.fixture(params=NAMES.values())
def client(request: pytest.FixtureRequest) -> GrpcClient:
    found = CLIENTS[request.param]
    needed(found.start)
    return found


def bodies_of(received: list[dict[str, object]]) -> list[str]:
    return sorted(str(one["body"]) for one in received)


def pushed(client: GrpcClient) -> Callable[..., list[dict[str, Any]]]:
    """By a push consumer, if the library has one."""
    return client.push if client.can_push else client.simple


def test_messages_arrive_once_by_simple_and_by_push_consumers(
    client: GrpcClient, own_endpoint: Endpoint, home: Callable[[str], Path]
) -> None:
    topic, endpoint, folder = own_endpoint.new_topic(queues=2, kind="NORMAL"), own_endpoint.endpoint, home("grpc")
    for tag in ("TagA", "TagB"):
        assert len(set(client.send(endpoint, topic, tag, [f"{tag} {number}" for number in range(5)], home=folder))) == 5
    by_simple = client.simple(endpoint, topic, f"S_{topic}", "*", 10, home=folder)
    assert bodies_of(by_simple) == [f"{tag} {number}" for tag in ("TagA", "TagB") for number in range(5)]
    assert {(one["attempt"], one["colour"]) for one in by_simple} == {(1, "blue")}
    by_push = pushed(client)(endpoint, topic, f"P_{topic}", "TagB", 5, home=folder)
    assert [(one["tag"], one["attempt"]) for one in by_push] == [("TagB", 1)] * 5
    assert bodies_of(by_push) == [f"TagB {number}" for number in range(5)]


def test_a_message_group_keeps_its_order(
    client: GrpcClient, own_endpoint: Endpoint, home: Callable[[str], Path]
) -> None:
    topic, endpoint, folder = own_endpoint.new_topic(queues=2, kind="FIFO"), own_endpoint.endpoint, home("grpc")
    # 5.0.0 goes on with a group only when one of its polls has ended, which is after 20 s.
    wanted = [f"step {number}" for number in range(3 if client is CLIENTS["java-5.0.0"] else 8)]
    wire.create_group(own_endpoint.broker.address, f"F_{topic}", in_order=True)
    client.fifo(endpoint, topic, "one", wanted, home=folder)
    received = pushed(client)(endpoint, topic, f"F_{topic}", "*", len(wanted), home=folder)
    assert [one["body"] for one in received] == wanted


def test_a_delayed_message_arrives(client: GrpcClient, own_endpoint: Endpoint, home: Callable[[str], Path]) -> None:
    topic, endpoint, folder = own_endpoint.new_topic(queues=2, kind="DELAY"), own_endpoint.endpoint, home("grpc")
    client.delay(endpoint, topic, 2000, ["later"], home=folder)
    assert bodies_of(client.simple(endpoint, topic, f"D_{topic}", "*", 1, home=folder)) == ["later"]


def test_transactions_are_committed_rolled_back_and_asked_about(
    client: GrpcClient, own_endpoint: Endpoint, home: Callable[[str], Path]
) -> None:
    topic, endpoint, folder = own_endpoint.new_topic(queues=2, kind="TRANSACTION"), own_endpoint.endpoint, home("grpc")
    asked = client.transact(endpoint, topic, 1, ["commit 1", "rollback 2", "unknown 3"], home=folder)
    assert "unknown 3" in asked
    assert "commit 1" not in asked
    wanted = ["commit 1", "unknown 3"]
    if client is CLIENTS["python"] and "rollback 2" in asked:
        # Its rollback is sent without waiting and may come too late for the first check, whose answer commits.
        wanted = bodies_of([{"body": body} for body in (*wanted, "rollback 2")])
    received = client.simple(endpoint, topic, f"T_{topic}", "*", len(wanted), home=folder)
    assert bodies_of(received) == sorted(wanted)


@pytest.mark.parametrize("client", PUSHING, indirect=True)
def test_a_delivery_that_fails_comes_again_and_is_counted(
    client: GrpcClient, own_endpoint: Endpoint, home: Callable[[str], Path]
) -> None:
    topic, endpoint, folder = own_endpoint.new_topic(queues=1, kind="NORMAL"), own_endpoint.endpoint, home("grpc")
    client.send(endpoint, topic, "TagA", ["bad"], home=folder)
    received = client.fail(endpoint, topic, f"R_{topic}", "*", 2, home=folder)
    assert [(one["body"], one["attempt"]) for one in received[:2]] == [("bad", 1), ("bad", 2)]


@pytest.mark.parametrize("away", ["stop", pytest.param("kill", marks=pytest.mark.slow)])
def test_a_waiting_consumer_outlives_a_restart_of_the_broker(
    client: GrpcClient, away: str, own_endpoint: Endpoint, home: Callable[[str], Path]
) -> None:
    topic, endpoint, folder = own_endpoint.new_topic(queues=2, kind="NORMAL"), own_endpoint.endpoint, home("grpc")
    early, late = ["early 1", "early 2"], ["late 1", "late 2"]
    client.send(endpoint, topic, "TagA", early, home=folder)
    with client.starting(["simple", endpoint, topic, f"W_{topic}", "*", "4"], home("grpc")) as consuming:
        consuming.wait_for("^got ")
        client.send(endpoint, topic, "TagA", ["early 3"], home=folder)
        own_endpoint.broker.stop() if away == "stop" else own_endpoint.broker.kill()
        own_endpoint.restart_broker()
        client.send(endpoint, topic, "TagA", late, home=folder)
        received = answer_of(consuming, timeout_s=120)
    if len(received) < 5:
        received += client.simple(endpoint, topic, f"W_{topic}", "*", 5 - len(received), home=folder)
    assert set(bodies_of(received)) == {*early, "early 3", *late}


def test_javas_proxy_serves_clients_over_our_broker(
    java_peers: None, own_endpoint: Endpoint, home: Callable[[str], Path]
) -> None:
    """Pop, ack, change, transactions and timers over remoting, as Apache's proxy asks for them."""
    client, folder = CLIENTS["go"], home("grpc")
    needed(client.start)
    proxy = java_proxy.Proxy(home("java-proxy"), own_endpoint.servers)
    try:
        topic = own_endpoint.new_topic(queues=2, kind="NORMAL")
        client.send(proxy.endpoint, topic, "TagA", [f"body {number}" for number in range(6)], home=folder)
        for way, group in ((client.simple, f"S_{topic}"), (client.push, f"P_{topic}")):
            received = way(proxy.endpoint, topic, group, "*", 6, home=folder)
            assert bodies_of(received) == [f"body {number}" for number in range(6)]
        failing = client.fail(proxy.endpoint, topic, f"R_{topic}", "*", 12, home=folder)
        assert {one["attempt"] for one in failing[:12]} == {1, 2}
        halves = own_endpoint.new_topic(queues=2, kind="TRANSACTION")
        asked = client.transact(proxy.endpoint, halves, 1, ["commit 1", "rollback 2", "unknown 3"], home=folder)
        assert asked == ["unknown 3"]
        committed = client.simple(proxy.endpoint, halves, f"T_{halves}", "*", 2, home=folder)
        assert bodies_of(committed) == ["commit 1", "unknown 3"]
    finally:
        proxy.kill()
