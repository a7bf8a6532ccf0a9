"""Clients in other languages fetch routes from our name server and send through the Java brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .peers import cpp, java, node, ours

pytestmark = pytest.mark.interop


def test_node_client_fetches_a_route_and_sends(
    node_peer: None,
    new_topic: Callable[..., str],
    name_server: ours.NameServer,
    java_client: Callable[..., java.Client],
    home: Callable[[str], Path],
) -> None:
    topic = new_topic()
    sent = node.send(name_server.address, topic, "from node", home=home("node"))
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
    sent = cpp.send(name_server.address, topic, "from C++", home=home("cpp"))
    assert sent["status"] == "OK"
    received = java_client("5.5.0").consume(name_server.address, topic, f"GID_{topic}", 1)
    assert received == ["from C++"]
