"""Clients in other languages: routes from our name server to Java brokers, and all through our own broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import OwnCluster
from .peers import cpp, go, java, node, ours
from .peers.small_client import SmallClient
from .waiting import eventually

pytestmark = pytest.mark.interop


def test_node_client_fetches_a_route_and_sends(
    node_peer: None,
    new_topic: Callable[..., str],
    name_server: ours.NameServer,
    java_client: Callable[..., java.Client],
    home: Callable[[str], Path],
) -> None:
    topic = new_topic()
    (sent,) = node.client.send(name_server.address, topic, "TagA", ["from node"], home=home("node"))
    assert sent["status"] == "SEND_OK"
    assert sent["broker"] in ("broker-a", "broker-b")
    received = java_client("5.5.0").consume(name_server.address, topic, f"GID_{topic}", 1)
    assert received == ["from node"]


def test_cpp_client_fetches_a_route_and_sends(
    cpp_peer: None,
    new_topic: Callable[..., str],
    name_server: ours.NameServer,
    java_client: Callable[..., java.Client],
    home: Callable[[str], Path],
) -> None:
    topic = new_topic()
    (sent,) = cpp.client.send(name_server.address, topic, "TagA", ["from C++"], home=home("cpp"))
    assert sent["status"] == "OK"
    received = java_client("5.5.0").consume(name_server.address, topic, f"GID_{topic}", 1)
    assert received == ["from C++"]


# --- our broker -------------------------------------------------------------------------------------------------------

CLIENTS = {"go": go.client, "node": node.client, "cpp": cpp.client}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> SmallClient:
    request.getfixturevalue(f"{request.param}_peer")
    return CLIENTS[request.param]


def test_send_and_consume_with_tags_through_our_broker(
    client: SmallClient, own: OwnCluster, home: Callable[[str], Path]
) -> None:
    topic = own.new_topic(queues=2)
    for tag in ("TagA", "TagB", "TagC"):
        sent = client.send(own.servers, topic, tag, [f"{tag} {number}" for number in range(4)], home=home("client"))
        assert len(sent) == 4
    received = client.consume(own.servers, topic, f"GID_{topic}", "TagA || TagC", 8, home=home("client"))
    assert sorted((one["tag"], one["body"]) for one in received) == [
        (tag, f"{tag} {number}") for tag in ("TagA", "TagC") for number in range(4)
    ]


@pytest.mark.parametrize("away", ["stop", "kill"])
def test_a_group_goes_on_after_a_restart_of_our_broker(
    client: SmallClient, away: str, own: OwnCluster, home: Callable[[str], Path]
) -> None:
    topic = own.new_topic(queues=1)
    group = f"GID_{topic}"
    client.send(own.servers, topic, "TagA", ["early 1", "early 2"], home=home("client"))
    early = client.consume(own.servers, topic, group, "*", 2, home=home("client"))
    assert sorted(one["body"] for one in early) == ["early 1", "early 2"]
    eventually(lambda: own.stored_offsets(topic, group) == {"0": 2}, "the offset is on disk")
    getattr(own.broker, away)()
    own.restart_broker()
    client.send(own.servers, topic, "TagA", ["late"], home=home("client"))
    late = client.consume(own.servers, topic, group, "*", 1, home=home("client"))
    assert [one["body"] for one in late] == ["late"]
