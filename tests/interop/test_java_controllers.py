"""Our brokers in a set that a group of three Java controllers leads: the leading controller is killed under load, then
the master, then that controller comes back. Nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pyromq
from pyromq.errors import PyroError
from pyromq.protocol.requests import RequestCode as Code

from . import wire
from .peers import java, ours
from .test_java_set import Load, MixedSet, missing, so

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java controllers: make interop


class Group:
    """Three controllers. `leader` is the place of the one that leads."""

    def __init__(self, home: Callable[[str], Path]) -> None:
        self._home = home
        self.addresses = [f"127.0.0.1:{java.free_broker_port()}" for _ in range(3)]
        with ThreadPoolExecutor(3) as pool:
            self.controllers = list(pool.map(self._start, range(3)))

    def _start(self, number: int) -> java.Controller:
        return java.Controller("5.5.0", self._home(f"controller-{number}"), group=self.addresses, number=number)

    def leader(self) -> int | None:
        for number, controller in enumerate(self.controllers):
            if controller.program.process.poll() is not None:
                continue
            try:
                found = wire.ask(self.addresses[number], Code.CONTROLLER_GET_METADATA_INFO.code)
            except (OSError, PyroError):
                continue
            if found.fields.get("isLeader") == "true":
                return number
        return None

    def kill_leader(self) -> int:
        leader = self.leader()
        assert leader is not None
        self.controllers[leader].kill()
        return leader

    def restart(self, number: int) -> None:
        self.controllers[number] = self._start(number)

    def close(self) -> None:
        for controller in self.controllers:
            controller.kill()


class LedSet(MixedSet):
    """Asks whichever controller leads now."""

    def __init__(self, group: Group, name_server: str, home: Callable[[str], Path]) -> None:
        super().__init__("grouped", ";".join(group.addresses), name_server, home)
        self._group = group

    def state(self) -> dict[str, object]:
        leader = self._group.leader()
        if leader is None:
            return {}
        asked = MixedSet(self.name, self._group.addresses[leader], self.name_server, self._home)
        return asked.state()


@pytest.fixture
def group(java_peers: None, home: Callable[[str], Path]) -> Iterator[Group]:
    made = Group(home)
    yield made
    made.close()


async def lose_one_after_the_other(led: LedSet, group: Group) -> None:
    await so(lambda: group.leader() is not None, "a controller leads")
    await asyncio.to_thread(led.start_ours)
    await so(lambda: led.is_led_by(1), "the first one of ours is master")
    await asyncio.to_thread(led.start_ours)
    await so(lambda: led.is_led_by(1, 2), "the second one is in sync")
    async with pyromq.connect(led.name_server) as client, client.producer() as producer:
        load = Load(producer)
        await load.more()
        gone = await asyncio.to_thread(group.kill_leader)
        await load.more()  # nothing has to be decided: the set is whole
        await so(lambda: group.leader() not in (None, gone), "another controller leads")
        await so(lambda: led.is_led_by(1, 2), "it knows the set")
        await asyncio.to_thread(led.brokers[1].kill)
        await load.more()
        await so(lambda: led.state().get("masterBrokerId") == 2, "the other broker leads")
        await asyncio.to_thread(group.restart, gone)
        restarted = led.brokers[1]
        assert isinstance(restarted, ours.Broker)
        await asyncio.to_thread(restarted.restart)
        await so(lambda: led.is_led_by(2, 1), "the old master follows")
        await load.more()
        await load.end()
        assert await missing(client, load.acked) == set()


def test_the_leading_controller_and_the_master_are_lost_and_come_back(
    group: Group, name_server: ours.NameServer, home: Callable[[str], Path]
) -> None:
    led = LedSet(group, name_server.address, home)
    try:
        asyncio.run(lose_one_after_the_other(led, group))
    finally:
        led.close()
