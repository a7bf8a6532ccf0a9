"""Our broker as a process of its own: consumers that pop live through a stop and kill -9, over real sockets."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.ambient import SystemClock
from pyromq.transport.client import RemotingClient
from tests.broker.pop.popping import Popped, ack, ack_batch, pop
from tests.broker.running import Running

from .peers.ours import Broker, NameServer

pytestmark = pytest.mark.interop

MESSAGES = 60


class Remote(Running):
    """A connection to a broker in another process."""

    def __init__(self, broker: Broker) -> None:
        self.address, self.received = broker.address, []
        self.client = RemotingClient(clock=SystemClock(), rng=random.Random(3))


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    name_server = NameServer(tmp_path)
    broker = Broker(tmp_path, [name_server.address], name="broker-a")
    try:
        yield broker
    finally:
        broker.kill()
        name_server.kill()


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_nothing_is_lost_and_nothing_given_twice_within_its_time(broker: Broker, end: str) -> None:
    remote = Remote(broker)
    for number in range(MESSAGES):
        assert (await remote.send("T", b"%d" % number, number % 4, {"UNIQ_KEY": f"K{number}"})).code == 0
    held: list[Popped] = []
    acked: set[str] = set()
    given: Counter[str] = Counter()
    for round_ in range(3):
        messages = await pop(remote, maxMsgNums=15, invisibleTime=300_000)
        given.update(one.body for one in messages)
        for one in messages[:5]:
            assert (await ack(remote, one)).code == 0
        assert (await ack_batch(remote, messages[5:9])).code == 0
        acked |= {one.body for one in messages[:9]}
        held += messages[9:]
        if round_ == 1:
            await asyncio.to_thread(broker.stop if end == "stop" else broker.kill)
            await asyncio.to_thread(broker.restart)
            remote = Remote(broker)
    rest = await pop(remote, invisibleTime=300_000)
    given.update(one.body for one in rest)
    assert given == Counter(str(number) for number in range(MESSAGES))  # each once: all are within their time
    assert await pop(remote) == []
    for one in (*held, *rest):
        assert (await ack(remote, one)).code == 0  # receipts from before the end count
    await remote.client.close()


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_what_was_in_flight_comes_again_after_its_time(broker: Broker, end: str) -> None:
    remote = Remote(broker)
    for number in range(6):
        assert (await remote.send("T", b"%d" % number, 0, {"UNIQ_KEY": f"K{number}"})).code == 0
    first, *_ = await pop(remote, invisibleTime=2_000)
    assert (await ack(remote, first)).code == 0
    await remote.client.close()
    await asyncio.to_thread(broker.stop if end == "stop" else broker.kill)
    await asyncio.to_thread(broker.restart)
    remote = Remote(broker)
    found: list[str] = []
    async with asyncio.timeout(30):
        while len(found) < 5:
            found += [one.body for one in await pop(remote, pollTime=5_000, invisibleTime=300_000)]
    assert sorted(found) == ["1", "2", "3", "4", "5"]
    await remote.client.close()
