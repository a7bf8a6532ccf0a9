"""Gateways while brokers and gateways die and come: whatever was acknowledged is there, and others go on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyromq.client.client import connect
from pyromq.model.group import ConsumeFromWhere
from tests.gateway.processes import GatewayProcess, load
from tests.interop import wire
from tests.interop.peers import ours
from tests.interop.waiting import eventually

TOPIC = "Loaded"


@pytest.fixture
def names(tmp_path: Path) -> Iterator[str]:
    server = ours.NameServer(tmp_path / "names")
    yield server.address
    server.kill()


@pytest.fixture
def broker(tmp_path: Path, names: str) -> Iterator[Callable[[str], ours.Broker]]:
    made: list[ours.Broker] = []

    def start(name: str) -> ours.Broker:
        one = ours.Broker(tmp_path / name, [names], name=name)
        made.append(one)
        wire.create_topic(one.address, TOPIC, 2, "+message.type=NORMAL")
        return one

    yield start
    for one in made:
        one.kill()


@pytest.fixture
def gateway(tmp_path: Path, names: str) -> Iterator[Callable[..., GatewayProcess]]:
    made: list[GatewayProcess] = []

    def start(*words: str, port: int = 0) -> GatewayProcess:
        made.append(GatewayProcess(tmp_path / f"gateway-{len(made)}", names, *words, port=port))
        return made[-1]

    yield start
    for one in made:
        one.kill()


async def stored(names: str) -> set[bytes]:
    """All bodies of the topic."""
    found: set[bytes] = set()
    async with (
        connect(names) as client,
        client.pull_consumer("reader", begin=ConsumeFromWhere.FIRST_OFFSET) as reader,
    ):
        await reader.assign(await reader.queues(TOPIC))
        while batch := await reader.poll(timeout=2):
            found.update(one.body for one in batch)
    return found


def routed(names: str, brokers: int) -> None:
    def has_all() -> bool:
        answer = wire.ask(names, wire.GET_ROUTE, {"topic": TOPIC})
        return answer.code == 0 and answer.body.count(b'"brokerAddrs"') == brokers

    eventually(has_all, f"{brokers} brokers in the route")


async def test_a_broker_is_killed_under_load_and_comes_back(
    names: str, broker: Callable[[str], ours.Broker], gateway: Callable[..., GatewayProcess]
) -> None:
    only = broker("broker-a")
    routed(names, 1)
    async with load(gateway().endpoint, TOPIC) as seen:
        for _ in range(2):
            await seen.more(100)
            await asyncio.to_thread(only.kill)
            await asyncio.to_thread(only.restart)
        await seen.more(100)
    assert not seen.acked - await stored(names)


@pytest.mark.parametrize("how", ["killed", "hung"])
async def test_one_of_two_brokers_is_away_and_the_other_serves(
    how: str, names: str, broker: Callable[[str], ours.Broker], gateway: Callable[..., GatewayProcess]
) -> None:
    one, _ = broker("broker-a"), broker("broker-b")
    routed(names, 2)
    async with load(gateway().endpoint, TOPIC) as seen:
        await seen.more(100)
        if how == "killed":
            await asyncio.to_thread(one.kill)
        else:
            one.program.signal(signal.SIGSTOP)
        before = len(seen.acked)
        await seen.more(2_000)
        failed = len(seen.faults)
        assert failed < (len(seen.acked) - before) / 20, seen.faults[-3:]  # it is tried now and then, not every time
        if how == "killed":
            await asyncio.to_thread(one.restart)
        else:
            one.program.signal(signal.SIGCONT)
        await seen.more(100)
    assert not seen.acked - await stored(names)


def two_on_a_port(gateway: Callable[..., GatewayProcess]) -> tuple[GatewayProcess, GatewayProcess, int]:
    first = gateway("--shares-its-port")
    port = int(first.endpoint.rpartition(":")[2])
    return first, gateway("--shares-its-port", port=port), port


async def test_one_of_two_gateways_on_a_port_is_killed(
    names: str, broker: Callable[[str], ours.Broker], gateway: Callable[..., GatewayProcess]
) -> None:
    broker("broker-a")
    routed(names, 1)
    first, second, port = two_on_a_port(gateway)
    async with load(first.endpoint, TOPIC, senders=8) as seen:
        await seen.more(200)
        await asyncio.to_thread(first.kill)
        await seen.more(200)
        await asyncio.to_thread(gateway, "--shares-its-port", port=port)
        await asyncio.to_thread(second.kill)
        await seen.more(200)
    assert len(seen.faults) <= 4 * 8, seen.faults  # a call under way at each kill, and tries to reach who has gone
    assert not seen.acked - await stored(names)


async def test_a_gateway_that_stops_fails_no_call(
    names: str, broker: Callable[[str], ours.Broker], gateway: Callable[..., GatewayProcess]
) -> None:
    broker("broker-a")
    routed(names, 1)
    first, second, port = two_on_a_port(gateway)
    async with load(first.endpoint, TOPIC, senders=8) as seen:
        await seen.more(200)
        assert await asyncio.to_thread(first.stop) == 0
        await seen.more(200)
        await asyncio.to_thread(gateway, "--shares-its-port", port=port)
        assert await asyncio.to_thread(second.stop) == 0
        await seen.more(200)
    assert seen.faults == []
    assert not seen.acked - await stored(names)
