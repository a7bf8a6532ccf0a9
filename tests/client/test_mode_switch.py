"""Groups whose brokers say whether they pull or pop, switched under load while members come, go and lag behind."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from pyromq.client.client import Client
from pyromq.client.received import Received
from pyromq.model.pop_names import retry_topic_v1
from pyromq.protocol.requests import RequestCode
from tests.client.world import Servers

LIMIT_S = 120

pytestmark = pytest.mark.own_broker("Java's broker repeats what a member had when its queue changed hands")


async def set_mode(world: Servers, mode: str, group: str = "g") -> None:
    body = {"topic": "T", "consumerGroup": group, "mode": mode, "popShareQueueNum": 0}
    address = world.brokers["broker-a"].address
    answer = await world.ask(address, RequestCode.SET_MESSAGE_REQUEST_MODE, json.dumps(body).encode())
    assert answer.code == 0, answer.remark


class Seen:
    """Handlers of all members: what came, how often, from where, and in which way of consuming."""

    def __init__(self) -> None:
        self.times: Counter[bytes] = Counter()
        self.from_topics: Counter[str] = Counter()
        self._came = asyncio.Event()

    async def __call__(self, msg: Received) -> None:
        assert msg.topic == "T"
        self.times[msg.body] += 1
        self.from_topics[msg.queue.topic] += 1
        self._came.set()
        await asyncio.sleep(0.005)

    async def reach(self, messages: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while len(self.times) < messages:
                self._came.clear()
                await self._came.wait()

    @property
    def repeated(self) -> dict[bytes, int]:
        return {body: times for body, times in self.times.items() if times > 1}


class Load:
    """Sends without a pause until it is ended."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.sent = 0
        self._is_over = False

    async def run(self) -> None:
        async with self._client.producer() as producer:
            while not self._is_over:
                await producer.send("T", b"%d" % self.sent)
                self.sent += 1
                await asyncio.sleep(0.002)

    def end(self) -> None:
        self._is_over = True


async def join(stack: AsyncExitStack, world: Servers, seen: Seen, rebalance_s: float) -> None:
    client = await stack.enter_async_context(world.client(instance=f"member-{rebalance_s}"))
    options = {"group": "g", "mode": "server", "begin": "first", "rebalance_s": rebalance_s, "concurrency": 4}
    await stack.enter_async_context(client.push_consumer("T", seen, **options))  # type: ignore[arg-type]


async def test_members_that_change_their_ways_one_after_another_repeat_and_lose_nothing(world: Servers) -> None:
    await world.create_topic("T", queues=4)
    await world.create_group("g")
    await set_mode(world, "PULL")
    seen = Seen()
    async with AsyncExitStack() as stack:
        for rebalance_s in (0.2, 0.7, 1.3):  # so they are in both ways of consuming for a second after each switch
            await join(stack, world, seen, rebalance_s)
        load = Load(await stack.enter_async_context(world.client()))
        sending = asyncio.create_task(load.run())
        for mode in ("POP", "PULL", "POP", "PULL"):
            await seen.reach(load.sent + 100)
            await set_mode(world, mode)
            await seen.reach(load.sent + 300)  # while members are of both kinds
        await seen.reach(load.sent + 100)
        load.end()
        await sending
        await seen.reach(load.sent)
        assert seen.times.keys() == {b"%d" % number for number in range(load.sent)}
        assert seen.repeated == {}


async def test_a_group_that_pulls_again_reads_what_it_popped_and_did_not_acknowledge(world: Servers) -> None:
    await world.create_topic("T", queues=2)
    await world.create_group("g")
    async with world.client() as client, client.producer() as producer:
        await producer.send("T", b"popped")
        async with client.simple_consumer("T", group="g", begin="first") as simple:
            assert len(await simple.receive(1, wait=LIMIT_S)) == 1  # and it ends without an ack
        await set_mode(world, "PULL")
        seen = Seen()
        options = {"group": "g", "mode": "server", "begin": "first", "rebalance_s": 0.2}
        async with client.push_consumer("T", seen, **options):  # type: ignore[arg-type]
            await producer.send("T", b"pulled")
            await seen.reach(2)
        assert seen.times == {b"popped": 1, b"pulled": 1}
        assert seen.from_topics[retry_topic_v1("T", "g")] == 1
