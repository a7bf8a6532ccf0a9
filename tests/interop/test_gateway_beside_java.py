"""Our gateway beside Apache's proxy: each knows the consumers of the other, over our broker and over Apache's.

Asked as remoting clients ask them (38, 203); what they say to each other goes through a topic of the broker.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyromq.client.sync import connect
from tests.interop.peers.process import Program

from . import wire
from .conftest import needed
from .peers import java, java_proxy, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # two Java programs: make interop

GET_MEMBERS, GET_CONNECTIONS = 38, 203
TOPIC = "GatewaysT"


@dataclass
class Beside:
    """A name server's brokers behind a gateway of ours and a proxy of Apache's."""

    endpoint: str
    remoting: str
    java: java_proxy.Proxy

    def members(self, address: str, group: str) -> list[str]:
        answer = wire.ask(address, GET_MEMBERS, {"consumerGroup": group})
        return sorted(json.loads(answer.body)["consumerIdList"]) if answer.code == 0 else []


@pytest.fixture(scope="module", params=["our broker", "Apache's broker"])
def beside(request: pytest.FixtureRequest, home: Callable[[str], Path]) -> Iterator[Beside]:
    needed(java.runtime)
    names = ours.NameServer(home("beside-names"))
    broker: ours.Broker | java.Broker
    if request.param == "our broker":
        broker = ours.Broker(home("beside-ours"), [names.address])
    else:
        broker = java.Broker("5.5.0", home("beside-java"), [names.address], {"timerWheelEnable": "true"})
    wire.create_topic(broker.address, TOPIC, 1, "+message.type=NORMAL")
    eventually(lambda: wire.ask(names.address, wire.GET_ROUTE, {"topic": TOPIC}).code == 0, "the topic's route")
    words = ["-m", "pyromq.cli.main", "proxy", "-n", names.address, "--listen", "127.0.0.1:0"]
    folder = home("beside-gateway")
    command: list[str | Path] = [sys.executable, *words, "--remoting-listen-port", "0"]
    gateway = Program(command, name="pyromq proxy", env={"HOME": str(folder)}, cwd=folder)
    proxy: java_proxy.Proxy | None = None
    try:
        endpoint = gateway.wait_for(r"pyromq proxy ready on (127\.0\.0\.1:[1-9]\d*)")[1]
        remoting = gateway.wait_for(r"remoting clients on (127\.0\.0\.1:[1-9]\d*)")[1]
        proxy = java_proxy.Proxy(home("beside-proxy"), names.address)
        yield Beside(endpoint, remoting, proxy)
        gateway.signal(signal.SIGTERM)
        assert gateway.wait() == 0
    finally:
        for each in (gateway, broker, names, *([] if proxy is None else [proxy])):
            each.kill()


def test_each_knows_the_consumers_of_the_other(beside: Beside) -> None:
    group = re.sub(r"\W", "-", beside.endpoint)
    with connect(endpoints=beside.endpoint) as here, connect(endpoints=beside.java.endpoint) as there:
        with here.simple_consumer(TOPIC, group=group) as one, there.simple_consumer(TOPIC, group=group) as other:
            one.receive(wait=0.1)
            other.receive(wait=0.1)
            for address in (beside.remoting, beside.java.remoting):
                eventually(lambda at=address: len(beside.members(at, group)) == 2, f"both members at {address}")  # type: ignore[misc]
            assert beside.members(beside.remoting, group) == beside.members(beside.java.remoting, group)
            shown = wire.ask(beside.java.remoting, GET_CONNECTIONS, {"consumerGroup": group})
            assert b'"language":"PYTHON"' in shown.body
            shown = wire.ask(beside.remoting, GET_CONNECTIONS, {"consumerGroup": group})
            assert len(json.loads(shown.body)["connectionSet"]) == 2
        for address in (beside.remoting, beside.java.remoting):
            eventually(lambda at=address: not beside.members(at, group), f"no member at {address}")  # type: ignore[misc]


def test_remoting_consumers_are_known_too(beside: Beside) -> None:
    group = "remoting-" + re.sub(r"\W", "-", beside.endpoint)
    with connect(beside.remoting) as client, client.push_consumer(TOPIC, lambda message: None, group=group):
        eventually(lambda: beside.members(beside.java.remoting, group), "our remoting client at Java's proxy")
        assert beside.members(beside.java.remoting, group) == beside.members(beside.remoting, group)
