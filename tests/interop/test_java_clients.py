"""Java producers and consumers find Java brokers through our routes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .peers import java, ours

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop


@pytest.mark.parametrize("binary_headers", [False, True], ids=["json", "binary"])
@pytest.mark.parametrize("version", ["5.5.0", "5.3.3", "4.9.8"])
def test_java_producer_and_consumer_work_through_our_routes(
    version: str,
    binary_headers: bool,
    java_client: Callable[..., java.Client],
    new_topic: Callable[..., str],
    name_server: ours.NameServer,
) -> None:
    client = java_client(version, binary_headers=binary_headers)
    topic = new_topic(queues=2)
    assert client.queues(name_server.address, topic) == ["broker-a:0", "broker-a:1", "broker-b:0", "broker-b:1"]

    sent = client.send(name_server.address, topic, 8, "m")

    assert {one["status"] for one in sent} == {"SEND_OK"}
    assert {one["broker"] for one in sent} == {"broker-a", "broker-b"}
    received = client.consume(name_server.address, topic, f"GID_{topic}", 8)
    assert set(received) == {f"m{number}" for number in range(8)}


def test_a_client_with_both_name_servers_uses_either(
    java_client: Callable[..., java.Client],
    new_topic: Callable[..., str],
    name_server: ours.NameServer,
    java_name_server: java.NameServer,
) -> None:
    client = java_client("5.5.0")
    topic = new_topic(queues=1)
    sent = client.send(f"{name_server.address};{java_name_server.address}", topic, 4, "m")
    assert {one["status"] for one in sent} == {"SEND_OK"}
    assert len(client.consume(name_server.address, topic, f"GID_{topic}", 4)) >= 4


@pytest.mark.parametrize("version", ["5.5.0", "4.9.8"])
def test_an_automatically_created_topic_reaches_consumers(
    version: str,
    java_client: Callable[..., java.Client],
    brokers: dict[str, java.Broker],
    name_server: ours.NameServer,
) -> None:
    """The producer finds no route, takes that of TBW102, the broker creates the topic and registers again."""
    client = java_client(version)
    topic = f"Automatic{version.replace('.', '_')}"
    client.send(name_server.address, topic, 4, "m")
    received = client.consume(name_server.address, topic, f"GID_{topic}", 4)
    assert set(received) == {"m0", "m1", "m2", "m3"}
