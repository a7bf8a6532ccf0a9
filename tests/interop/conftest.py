"""The peers of one test run. JVMs are dear, so they are shared: what a test changes, it changes under names of its own.

Both name servers know the same two Java brokers at once (`namesrvAddr=ours;java's`), so that the same question can be
put to both and the answers compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support import require

from . import wire
from .peers import cache, cpp, go, java, node, ours
from .waiting import eventually

T = TypeVar("T")

CLUSTER = "DefaultCluster"
BROKERS = {"5.5.0": "broker-a", "5.3.3": "broker-b"}


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A fresh folder for a program's files."""
    return lambda name: tmp_path_factory.mktemp(name)


def needed(get: Callable[[], T]) -> T:
    """What `get` returns; where it is missing the test is skipped with the reason (a failure under PYROMQ_CI=1)."""
    try:
        return get()
    except cache.PeerMissing as reason:
        require(False, str(reason))
        raise


@pytest.fixture(scope="session")
def java_peers() -> None:
    """All Java versions are on this machine, or the test says what is missing."""
    needed(java.runtime)
    for version in java.CLIENTS:
        needed(partial(java.classes, version))


@pytest.fixture(scope="session")
def node_peer() -> None:
    needed(node.runtime)
    needed(node.modules)


@pytest.fixture(scope="session")
def cpp_peer() -> None:
    needed(cpp.packages)


@pytest.fixture(scope="session")
def go_peer() -> None:
    needed(go.program)


@pytest.fixture(scope="session")
def name_server(home: Callable[[str], Path]) -> Iterator[ours.NameServer]:
    """Ours."""
    server = ours.NameServer(home("ours"))
    yield server
    server.kill()


@pytest.fixture(scope="session")
def java_name_server(java_peers: None, home: Callable[[str], Path]) -> Iterator[java.NameServer]:
    server = java.NameServer("5.5.0", home("java-namesrv"))
    yield server
    server.kill()


@pytest.fixture(scope="session")
def brokers(
    java_peers: None,
    name_server: ours.NameServer,
    java_name_server: java.NameServer,
    home: Callable[[str], Path],
) -> Iterator[dict[str, java.Broker]]:
    """A Java broker of each version, by version, registered with both name servers."""
    both = [name_server.address, java_name_server.address]
    with ThreadPoolExecutor() as pool:  # most of their start is waiting
        started = {
            version: pool.submit(java.Broker, version, home(name), both, name=name, cluster=CLUSTER)
            for version, name in BROKERS.items()
        }
    running = {version: future.result() for version, future in started.items()}
    for broker in running.values():
        for address in both:
            registered(address, broker)
    yield running
    for broker in running.values():
        broker.kill()


@pytest.fixture(scope="session")
def admin(java_peers: None, home: Callable[[str], Path]) -> Iterator[java.Admin]:
    """mqadmin of 5.5.0."""
    running = java.Admin("5.5.0", home("mqadmin"))
    yield running
    running.kill()


@pytest.fixture(scope="session")
def java_client(java_peers: None, home: Callable[[str], Path]) -> Iterator[Callable[..., java.Client]]:
    """`java_client(version, binary_headers=..., tls=...)`: started at the first call, shared afterwards."""
    running: dict[tuple[str, bool, bool], java.Client] = {}

    def get(version: str, *, binary_headers: bool = False, tls: bool = False) -> java.Client:
        key = (version, binary_headers, tls)
        if key not in running:
            running[key] = java.Client(version, home("client"), binary_headers=binary_headers, tls=tls)
        return running[key]

    yield get
    for client in running.values():
        client.kill()


@pytest.fixture(scope="session")
def new_topic(
    admin: java.Admin, name_server: ours.NameServer, java_name_server: java.NameServer, brokers: dict[str, java.Broker]
) -> Callable[..., str]:
    """`new_topic()`: a topic of its own on both brokers, made by mqadmin through our name server."""
    numbers = itertools.count(1)

    def create(queues: int = 2) -> str:
        topic = f"Interop{next(numbers)}"
        size = ["-r", str(queues), "-w", str(queues)]
        printed = admin.run("updateTopic", "-n", name_server.address, "-c", CLUSTER, "-t", topic, *size)
        assert printed.count("success") == len(brokers), printed
        for address in (name_server.address, java_name_server.address):
            eventually(partial(has_topic_on_all, address, topic), f"{topic} is known to {address}")
        return topic

    return create


class OwnCluster:
    """A name server and a broker, both ours, and topics on them."""

    def __init__(self, name_server: ours.NameServer, broker: ours.Broker) -> None:
        self.name_server = name_server
        self.broker = broker
        self._numbers = itertools.count(1)

    @property
    def servers(self) -> str:
        return self.name_server.address

    def new_topic(self, queues: int = 4, kind: str = "") -> str:
        """`kind`: its message.type."""
        topic = f"Own{next(self._numbers)}"
        wire.create_topic(self.broker.address, topic, queues, f"+message.type={kind}" if kind else "")
        eventually(lambda: wire.ask(self.servers, wire.GET_ROUTE, {"topic": topic}).code == 0, f"{topic} has a route")
        return topic

    def stored_offsets(self, topic: str, group: str) -> dict[str, int] | None:
        """Offset by queue, as the broker has put it on disk."""
        table = self.broker.home / "store" / "config" / "consumerOffset.json"
        if not table.exists():
            return None
        offsets: dict[str, dict[str, int]] = wire.json_with_bare_keys(table.read_bytes()).get("offsetTable", {})
        return offsets.get(f"{topic}@{group}")

    def restart_broker(self) -> None:
        """Start it again after its `stop` or `kill`; it has registered when this returns."""
        self.broker.restart()
        eventually(lambda: is_known(self.servers, self.broker.name), "the broker has registered again")


@pytest.fixture(scope="session")
def own(home: Callable[[str], Path]) -> Iterator[OwnCluster]:
    with ExitStack() as stack:
        name_server = ours.NameServer(home("own-namesrv"))
        stack.callback(name_server.kill)
        settings = {"flushConsumerOffsetInterval": "200"}  # a kill then soon loses no committed offset
        broker = ours.Broker(home("own-broker"), [name_server.address], settings)
        stack.callback(broker.kill)
        yield OwnCluster(name_server, broker)


def registered(name_server: str, broker: java.Broker) -> None:
    """Wait until the name server knows the broker.

    A Java broker first registers ten seconds after its start: at the start itself it has not yet looked which of its
    name servers can be reached.
    """
    eventually(lambda: is_known(name_server, broker.name), f"{broker.name} is registered with {name_server}")


def is_known(name_server: str, broker_name: str) -> bool:
    return f'"brokerName":"{broker_name}"'.encode() in wire.ask(name_server, wire.GET_CLUSTER_INFO).body


def has_topic_on_all(name_server: str, topic: str) -> bool:
    route = wire.ask(name_server, wire.GET_ROUTE, {"topic": topic})
    return route.code == 0 and all(name.encode() in route.body for name in BROKERS.values())
