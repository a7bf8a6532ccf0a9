"""Our brokers in a set that Java's controller leads, with a Java 5.5.0 broker: switched by mqadmin, killed and replaced
while messages are sent. Nothing acknowledged is lost, and in the end the set is ours without a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pyromq
from pyromq.errors import PyroError
from pyromq.protocol.requests import RequestCode as Code
from tests.coordination.etcd_peer import EtcdCluster, require_etcd
from tests.mqadmin.conftest import call

from . import wire
from .peers import java, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

CLUSTER, TOPIC, LIMIT_S = "DefaultCluster", "Migrated", 60.0
QUICK = {"enableControllerMode": "true", "syncBrokerMetadataPeriod": "1000", "syncControllerMetadataPeriod": "1000"}


class MixedSet:
    """Brokers of one name, Java's and ours. Numbers are those that the controller gives, in the order of the starts."""

    def __init__(self, name: str, controller: str, name_server: str, home: Callable[[str], Path]) -> None:
        self.name, self.controller, self.name_server = name, controller, name_server
        self._home = home
        self.brokers: dict[int, java.Broker | ours.Broker] = {}

    def _settings(self) -> dict[str, str]:
        return {**QUICK, "controllerAddr": self.controller}

    def start_java(self) -> None:
        extra = {"brokerIP2": "127.0.0.1", "allAckInSyncStateSet": "true"}
        number, settings = len(self.brokers) + 1, self._settings() | extra
        home = self._home(f"{self.name}-{number}")
        self.brokers[number] = java.Broker("5.5.0", home, [self.name_server], settings, name=self.name)

    def start_ours(self) -> None:
        number = len(self.brokers) + 1
        home = self._home(f"{self.name}-{number}")
        self.brokers[number] = ours.Broker(home, [self.name_server], self._settings(), name=self.name)

    def state(self) -> dict[str, Any]:
        """What the controller says of the set (1006)."""
        answer = wire.ask(self.controller, Code.CONTROLLER_GET_SYNC_STATE_DATA.code, body=f'["{self.name}"]'.encode())
        if answer.code != 0:
            return {}
        found: dict[str, Any] = wire.json_with_bare_keys(answer.body)["replicasInfoTable"].get(self.name, {})
        return found

    def is_led_by(self, master: int, *others: int) -> bool:
        found = self.state()
        in_sync = {each["brokerId"] for each in found.get("inSyncReplicas", [])}
        return found.get("masterBrokerId") == master and in_sync == {master, *others}

    def elect(self, replica: int) -> None:
        done = call("electMaster", "-a", self.controller, "-bn", self.name, "-c", CLUSTER, "-b", str(replica))
        assert done.code == 0, done.err

    def epochs(self, replica: int) -> list[tuple[int, int]]:
        """What the log of a replica says of its masters (1007): number and start of each."""
        answer = wire.ask(self.brokers[replica].address, Code.GET_BROKER_EPOCH_CACHE.code)
        return [(one["epoch"], one["startOffset"]) for one in wire.json_with_bare_keys(answer.body)["epochList"]]

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.kill()


@pytest.fixture(scope="module")
def controller(java_peers: None, home: Callable[[str], Path]) -> Iterator[java.Controller]:
    running = java.Controller("5.5.0", home("controller"))
    yield running
    running.kill()


@pytest.fixture
def mixed(controller: java.Controller, name_server: ours.NameServer, home: Callable[[str], Path]) -> Iterator[MixedSet]:
    made = MixedSet("mixed", controller.address, name_server.address, home)
    yield made
    made.close()


class Load:
    """One message after the other, to whoever leads. `acked`: those of which the answer said that they are stored."""

    def __init__(self, producer: pyromq.Producer) -> None:
        self.acked: set[bytes] = set()
        self._producer = producer
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            try:
                await self._producer.send(TOPIC, b"%d" % number)
            except PyroError:
                await asyncio.sleep(0.05)  # its outcome is unknown
            else:
                self.acked.add(b"%d" % number)

    async def more(self, count: int = 50) -> None:
        """Wait until so many more are acknowledged."""
        wanted = len(self.acked) + count
        async with asyncio.timeout(LIMIT_S):
            while len(self.acked) < wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def end(self) -> None:
        self._stop.set()
        await self._task


async def missing(client: pyromq.Client, acked: set[bytes]) -> set[bytes]:
    """Return what was acknowledged, and cannot be read from the present master."""
    left = set(acked)
    async with client.pull_consumer("reader", begin="first") as consumer:
        await consumer.assign(await consumer.queues(TOPIC))
        while left:
            came = await consumer.poll(timeout=5)
            if not came:
                break
            left -= {message.body for message in came}
    return left


def so(ask: Callable[[], bool], what: str) -> Any:
    return asyncio.to_thread(eventually, ask, what)


async def migrate(mixed: MixedSet) -> None:
    await asyncio.to_thread(mixed.start_java)
    await so(lambda: mixed.is_led_by(1), "Java's broker is master")
    await asyncio.to_thread(mixed.start_ours)
    await so(lambda: mixed.is_led_by(1, 2), "ours is in sync")
    async with pyromq.connect(mixed.name_server) as client, client.producer() as producer:
        load = Load(producer)
        await load.more()
        await asyncio.to_thread(mixed.elect, 2)
        await load.more()
        await so(lambda: mixed.is_led_by(2, 1), "Java's broker follows ours, and is in sync")
        await load.more()
        await asyncio.to_thread(mixed.elect, 1)
        await load.more()
        await so(lambda: mixed.is_led_by(1, 2), "ours follows Java's broker again")
        await load.more()
        await asyncio.to_thread(mixed.brokers[1].kill)  # for good
        await load.more()
        await asyncio.to_thread(mixed.start_ours)
        await so(lambda: mixed.is_led_by(2, 3), "the second one of ours is in sync")
        await load.more()
        await asyncio.to_thread(mixed.elect, 3)
        await load.more()
        await load.end()
        assert mixed.state()["masterBrokerId"] == 3
        assert await missing(client, load.acked) == set()
    await so(lambda: mixed.is_led_by(3, 2), "both of ours are in sync")
    newest = mixed.state()["masterEpoch"]
    assert mixed.epochs(2) == mixed.epochs(3)
    assert mixed.epochs(3)[-1][0] == newest


def test_a_set_moves_from_java_to_ours_under_load_and_nothing_acknowledged_is_lost(mixed: MixedSet) -> None:
    asyncio.run(migrate(mixed))


def test_mqadmin_shows_replicas_of_ours(mixed: MixedSet, admin: java.Admin) -> None:
    mixed.name = "shown"
    mixed.start_ours()
    eventually(lambda: mixed.is_led_by(1), "the first one of ours is master")
    mixed.start_ours()
    eventually(lambda: mixed.is_led_by(1, 2), "both are in sync")
    at, name_server = mixed.controller, mixed.name_server
    for words in (
        ["getSyncStateSet", "-a", at, "-b", mixed.name],
        ["getBrokerEpoch", "-n", name_server, "-b", mixed.name],
        ["haStatus", "-n", name_server, "-b", mixed.brokers[1].address],
        ["haStatus", "-n", name_server, "-b", mixed.brokers[2].address],
    ):
        shown, javas = call(*words), admin.run(*words)
        assert shown.code == 0, shown.err
        assert sorted(shown.out.split()) == sorted(javas.split()), words
    mixed.elect(2)  # Java's mqadmin asks the same, and cannot read the answer of Java's controller
    eventually(lambda: mixed.is_led_by(2, 1), "the other one leads")


def test_our_own_controller_leads_our_brokers(
    tmp_path: Path, name_server: ours.NameServer, home: Callable[[str], Path]
) -> None:
    require_etcd()
    with EtcdCluster(tmp_path / "etcd") as etcd:
        controller = ours.Controller(home("our-controller"), etcd.endpoints, {})
        led = MixedSet("led-by-ours", controller.address, name_server.address, home)
        try:
            led.start_ours()
            eventually(lambda: led.is_led_by(1), "the first one is master")
            led.start_ours()
            eventually(lambda: led.is_led_by(1, 2), "both are in sync")
            led.brokers[1].kill()
            eventually(lambda: led.state().get("masterBrokerId") == 2, "the other one leads")
            restarted = led.brokers[1]
            assert isinstance(restarted, ours.Broker)
            restarted.restart()
            eventually(lambda: led.is_led_by(2, 1), "the old one follows, with its number")
        finally:
            led.close()
            controller.kill()
