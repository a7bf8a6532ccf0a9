"""The life of Java brokers as our name server sees it: they register, keep alive, freeze, die, stop and come back.

Every broker registers with Java's name server too, under the same settings, and after each step both must give the
same routes.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from . import wire
from .conftest import is_known, registered
from .peers import java, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

NAME_SERVER = {"scanNotActiveBrokerInterval": "200", "supportActingMaster": "true", "notifyMinBrokerIdChanged": "true"}
# In this mode a broker sends a light heartbeat and says itself after how long a silence it counts as gone.
SILENCE_S = 5.0
HEARTBEATS = {
    "enableSlaveActingMaster": "true",
    "brokerHeartbeatInterval": "500",
    "brokerNotActiveTimeoutMillis": str(int(SILENCE_S * 1000)),
    "registerNameServerPeriod": "10000",
}


class World:
    """The brokers that this file may harm, and the name servers that watch them."""

    def __init__(self, own: ours.NameServer, other: java.NameServer) -> None:
        self.own, self.other = own, other
        self.brokers: dict[str, java.Broker] = {}

    @property
    def addresses(self) -> list[str]:
        return [self.own.address, self.other.address]

    def start_all(self, home: Callable[[str], Path]) -> None:
        slave = {**HEARTBEATS, "brokerId": "1", "brokerRole": "SLAVE"}
        wanted: list[tuple[str, str, str, dict[str, str]]] = [
            (
                "killed-5.5.0",
                "5.5.0",
                "killed-5.5.0",
                {"enableSplitRegistration": "true", "splitRegistrationSize": "4"},
            ),
            ("killed-5.3.3", "5.3.3", "killed-5.3.3", {"enableSingleTopicRegister": "true"}),
            ("stopped", "5.5.0", "stopped", {}),
            ("master", "5.5.0", "pair", HEARTBEATS),
            ("slave", "5.5.0", "pair", slave),
            ("compressed", "5.5.0", "compressed", {"compressedRegister": "true", "namesrvAddr": self.own.address}),
        ]
        with ThreadPoolExecutor(2) as pool:  # more at once only take the processors from each other
            started = {
                key: pool.submit(java.Broker, version, home(key), self.addresses, settings, name=name)
                for key, version, name, settings in wanted
            }
        self.brokers = {key: future.result() for key, future in started.items()}

    def gone(self, name: str, limit_s: float = 60.0) -> None:
        """Both name servers have forgotten it."""
        eventually(
            lambda: not any(is_known(address, name) for address in self.addresses), f"{name} is forgotten", limit_s
        )

    def routes(self, topic: str) -> list[Any]:
        """The route of a topic from ours and from Java's, as values (None: no route)."""
        return [route_of(address, topic) for address in self.addresses]

    def restart_own(self, after_kill: Callable[[], None]) -> None:
        """Ours dies without warning and comes back on the same port with the same files."""
        self.own.kill()
        after_kill()
        port = int(self.own.address.rsplit(":", 1)[1])
        self.own = ours.NameServer(self.own.home, NAME_SERVER, port=port)

    def pair_becomes(self, expected: dict[str, str], what: str) -> Any:
        """Wait until both give these addresses for the pair; returns the route, which is the same from both."""

        def both_have_it() -> bool:
            return all(broker_addresses(route) == expected for route in self.routes("pair"))

        eventually(both_have_it, what)
        own, other = self.routes("pair")
        assert own == other
        return own

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        self.other.kill()
        self.own.kill()


def route_of(address: str, topic: str) -> Any:
    answer = wire.ask(address, wire.GET_ROUTE, {"topic": topic})
    return json.loads(answer.body) if answer.code == 0 else None


def broker_addresses(route: Any) -> dict[str, str]:
    addresses: dict[str, str] = route["brokerDatas"][0]["brokerAddrs"] if route else {}
    return addresses


@pytest.fixture(scope="module")
def world(java_peers: None, home: Callable[[str], Path]) -> Iterator[World]:
    world = World(
        ours.NameServer(home("ours-life"), NAME_SERVER),
        java.NameServer("5.5.0", home("java-life"), NAME_SERVER),
    )
    try:
        world.start_all(home)
        for key, broker in world.brokers.items():
            for address in world.addresses[:1] if key == "compressed" else world.addresses:
                registered(address, broker)
        yield world
    finally:
        world.close()


@pytest.mark.parametrize("version", ["5.5.0", "5.3.3"])
def test_a_registered_broker_has_the_route_that_java_gives_it(world: World, version: str) -> None:
    own, other = world.routes(f"killed-{version}")  # a broker's name is a topic of its own
    assert own == other
    assert broker_addresses(own) == {"0": world.brokers[f"killed-{version}"].address}


@pytest.mark.parametrize("version", ["5.5.0", "5.3.3"])
def test_topics_registered_in_parts_or_one_by_one_all_arrive(world: World, admin: java.Admin, version: str) -> None:
    """5.5.0 registers four topics at a time here, 5.3.3 sends a new topic alone."""
    broker = world.brokers[f"killed-{version}"]
    topic = f"Later{version.replace('.', '_')}"
    admin.run("updateTopic", "-n", world.own.address, "-b", broker.address, "-t", topic)

    def both_have_it() -> bool:
        return all(world.routes(topic))

    eventually(both_have_it, f"{topic} is known")
    own, other = world.routes(topic)
    assert own == other
    for part in ("BenchmarkTest", "SELF_TEST_TOPIC", "SCHEDULE_TOPIC_XXXX", "TBW102"):
        own, other = world.routes(part)
        assert names_of_queues(own) - {"compressed"} == names_of_queues(other)
        assert broker.name in names_of_queues(own)


def names_of_queues(route: Any) -> set[str]:
    return {one["brokerName"] for one in route["queueDatas"]}


def test_compressed_registrations_are_understood_though_they_are_not_announced(world: World) -> None:
    """A defect of Java's broker: the header says that the body is not compressed. Java's name server refuses it."""
    route = route_of(world.own.address, "compressed")
    assert broker_addresses(route) == {"0": world.brokers["compressed"].address}


def test_a_slave_stands_beside_its_master(world: World) -> None:
    world.pair_becomes({"0": world.brokers["master"].address, "1": world.brokers["slave"].address}, "both are in")
    members = [
        wire.ask(a, wire.BROKER_MEMBERS, {"clusterName": "DefaultCluster", "brokerName": "pair"})
        for a in world.addresses
    ]
    assert wire.json_with_bare_keys(members[0].body) == wire.json_with_bare_keys(members[1].body)


@pytest.mark.parametrize("version", ["5.5.0", "5.3.3"])
def test_a_broker_that_dies_is_forgotten_when_its_connection_ends(world: World, version: str) -> None:
    """kill -9. The silence that counts is two minutes here, so it was the connection."""
    name = f"killed-{version}"
    world.brokers[name].kill()
    world.gone(name)
    assert world.routes(name) == [None, None]


def test_a_broker_that_stops_unregisters(world: World) -> None:
    """SIGTERM: it says good-bye first; its process takes long to end and keeps its connection until then."""
    broker = world.brokers["stopped"]
    broker.program.signal(signal.SIGTERM)
    world.gone("stopped")
    assert broker.program.process.poll() is None, "it had already ended: this shows nothing about unregistering"


def test_heartbeats_keep_a_broker_alive_and_silence_ends_it(world: World) -> None:
    master, slave = world.brokers["master"], world.brokers["slave"]
    began = time.monotonic()
    while time.monotonic() < began + 1.5 * SILENCE_S:
        assert all(broker_addresses(route).get("0") == master.address for route in world.routes("pair"))

    # Frozen, not dead: the connection stays open and only the scan can notice.
    master.program.signal(signal.SIGSTOP)
    route = world.pair_becomes({"0": slave.address}, "the slave acts as master")
    assert route["queueDatas"][0]["perm"] & 2 == 0, "an acting master takes no writes"

    master.program.signal(signal.SIGCONT)
    route = world.pair_becomes({"0": master.address, "1": slave.address}, "the master is back")
    assert route["queueDatas"][0]["perm"] & 2, "the master takes writes again"


def test_brokers_come_back_to_a_name_server_that_was_killed(world: World) -> None:
    route = route_of(world.own.address, "pair")
    kept = {"namespace": "INTEROP", "key": "kept", "value": "through kill -9"}
    assert wire.ask(world.own.address, wire.PUT_KV_CONFIG, kept).code == 0

    def meanwhile() -> None:
        assert route_of(world.other.address, "pair") == route

    world.restart_own(meanwhile)

    eventually(lambda: route_of(world.own.address, "pair") == route, "master and slave registered again")
    assert wire.ask(world.own.address, wire.GET_KV_CONFIG, kept).fields == {"value": "through kill -9"}
