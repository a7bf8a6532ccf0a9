"""Quotas and Java's clients: what is refused is sent and read again later, and nothing is lost or stored twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from . import wire
from .conftest import OwnCluster
from .peers import java
from .waiting import eventually

pytestmark = pytest.mark.interop

SET, LIST, DELETE = 30010, 30011, 30012
COUNT = 40


@pytest.fixture(params=[("5.5.0", False), ("4.9.8", True)], ids=["5.5.0", "4.9.8"])
def client(request: pytest.FixtureRequest, java_client: Callable[..., java.Client]) -> java.Client:
    version, binary_headers = request.param
    return java_client(version, binary_headers=binary_headers)


@pytest.fixture
def topic(own: OwnCluster) -> Iterator[str]:
    name = own.new_topic(queues=2)
    body = {"kind": "topic", "name": name, "limits": {"sendMessages": 8, "readMessages": 12}}
    assert wire.ask(own.broker.address, SET, body=json.dumps(body).encode()).code == 0
    yield name
    assert wire.ask(own.broker.address, DELETE, {"kind": "topic", "name": name}).code == 0


def test_a_producer_comes_again_and_a_consumer_gets_everything_once(
    client: java.Client, own: OwnCluster, topic: str
) -> None:
    sending = client.sending(own.servers, topic, "m")
    eventually(lambda: len(sending.acknowledged()) >= COUNT, f"{COUNT} messages were taken, 8 a second")
    wanted = sending.stop()
    with client.consuming("push", own.servers, topic, f"GID_{topic}", start="first") as consumer:
        eventually(lambda: len(set(consumer.bodies())) >= len(wanted), "all that was sent was read, 12 a second")
        assert sorted(consumer.bodies()) == sorted(wanted)


def test_an_async_send_is_told_why(client: java.Client, own: OwnCluster, topic: str) -> None:
    sent = client.send_by("async", own.servers, topic, [f"a{number}" for number in range(30)])
    assert 8 <= len(sent) < 30
    said = client.program.tail(200)
    assert "CODE: 2" in said
    assert f"the quota of topic:{topic} is 8 messages sent a second (sendMessages)" in said
