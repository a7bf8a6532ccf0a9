"""Push consumers that pop, over real sockets: retries, dead letters, renewals, order, modes; ours and Java's broker."""

from __future__ import annotations

import asyncio
import json

import pytest

import pyromq
from pyromq.client.client import Client
from pyromq.client.core.retry import Reject, Retry, RetryLater
from pyromq.client.errors import Error
from pyromq.client.received import Received
from pyromq.client.subscription import tag
from pyromq.model import names
from pyromq.protocol.requests import RequestCode
from tests.client.world import Servers, turns_until

LIMIT_S = 60


async def send(client: Client, *bodies: bytes, topic: str = "T", **other: str) -> None:
    async with client.producer() as producer:
        for body in bodies:
            await producer.send(topic, body, **other)  # type: ignore[arg-type]


class Seen:
    """A handler that notes what comes, and does as the test says."""

    def __init__(self, *faults: Exception | None) -> None:
        self.bodies: list[bytes] = []
        self.attempts: list[int] = []
        self._faults = list(faults)
        self._came = asyncio.Event()

    async def __call__(self, msg: Received) -> None:
        self.bodies.append(msg.body)
        self.attempts.append(msg.attempt)
        self._came.set()
        fault = self._faults.pop(0) if self._faults else None
        if fault is not None:
            raise fault

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while len(self.bodies) < count:
                self._came.clear()
                await self._came.wait()


async def test_messages_are_handled_once_by_any_number_of_members(world: Servers) -> None:
    await world.create_topic("T", queues=1)
    mine, yours = Seen(), Seen()
    async with world.client() as one, world.client() as other:
        options = {"group": "g", "mode": "pop", "begin": "first"}
        async with (
            one.push_consumer("T", mine, **options),  # type: ignore[arg-type]
            other.push_consumer("T", yours, **options),  # type: ignore[arg-type]
        ):
            await send(one, *(b"%d" % number for number in range(50)))
            async with asyncio.timeout(LIMIT_S):
                while len(mine.bodies) + len(yours.bodies) < 50:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        assert sorted(mine.bodies + yours.bodies, key=int) == [b"%d" % number for number in range(50)]
        late = Seen()
        async with one.push_consumer("T", late, **options):  # type: ignore[arg-type]
            await send(one, b"end")
            await late.reach(1)
            assert late.bodies == [b"end"]  # everything else was acknowledged


async def test_failures_come_again_and_end_as_dead_letters(world: Servers) -> None:
    await world.create_topic("T")
    seen = Seen(RetryLater(1), RetryLater(1), ValueError("no"))
    async with world.client() as client:
        async with client.push_consumer("T", seen, group="g", mode="pop", retry=Retry(times=2)):
            await send(client, b"x")
            await seen.reach(3)
            assert seen.attempts == [1, 2, 3]
            await send(client, b"y")
            await seen.reach(4)
        rejecting = Seen(Reject("bad"))
        async with client.push_consumer("T", rejecting, group="g", mode="pop"):
            await send(client, b"z")
            await rejecting.reach(1)
        dead = Seen()
        topic = names.dlq_topic("g")
        async with client.push_consumer(topic, dead, group="inspection", begin="first", rebalance_s=1):
            await dead.reach(2)
        assert sorted(dead.bodies) == [b"x", b"z"]


async def test_a_message_is_renewed_while_its_handler_works(world: Servers) -> None:
    await world.create_topic("T")
    attempts: list[int] = []
    done = asyncio.Event()

    async def slow(msg: Received) -> None:
        attempts.append(msg.attempt)
        await asyncio.sleep(8)  # Java brings it again 3 to 6 s after its 2 s
        done.set()

    async with world.client() as client:
        async with client.push_consumer("T", slow, group="g", mode="pop", invisible_s=2):
            await send(client, b"x")
            async with asyncio.timeout(LIMIT_S):
                await done.wait()
        seen = Seen()
        async with client.push_consumer("T", seen, group="g", mode="pop"):
            await send(client, b"end")
            await seen.reach(1)
    assert attempts == [1]
    assert seen.bodies == [b"end"]


async def test_messages_that_come_together_do_not_wait_for_handlers_that_are_busy(world: Servers) -> None:
    await world.create_topic("T", queues=1)
    entered, release = 0, asyncio.Event()

    async def stuck(_: Received) -> None:
        nonlocal entered
        entered += 1
        await release.wait()

    async with (
        world.client() as client,
        client.producer() as producer,
        client.push_consumer("T", stuck, group="g", mode="pop", concurrency=20),
        asyncio.timeout(LIMIT_S),
    ):
        for count in (3, 6, 9):
            await producer.send_many("T", [b"%d" % number for number in range(3)])  # one pop brings all three
            await turns_until(lambda count=count: entered == count)  # type: ignore[misc]
        release.set()


async def test_order_is_kept_and_a_failed_message_is_handled_in_its_place(world: Servers) -> None:
    # Names of its own: Apache's broker counts deliveries in order beyond the life of a topic.
    await world.create_topic("Ordered", queues=1)
    await world.create_group("ordered", consumeMessageOrderly=True)
    seen = Seen(None, RetryLater(0.01), None)
    async with world.client() as client:
        await send(client, b"0", b"1", b"2", b"3", topic="Ordered")
        async with client.push_consumer("Ordered", seen, group="ordered", mode="pop", begin="first"):
            await seen.reach(5)
            await send(client, b"4", topic="Ordered")
            await seen.reach(6)
    assert seen.bodies == [b"0", b"1", b"1", b"2", b"3", b"4"]
    assert seen.attempts[:3] == [1, 1, 2]


async def test_brokers_say_whether_a_group_pops(world: Servers) -> None:
    await world.create_topic("T", queues=2)
    await world.create_group("g")
    mode = {"topic": "T", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 0}
    address = world.brokers["broker-a"].address
    answer = await world.ask(address, RequestCode.SET_MESSAGE_REQUEST_MODE, json.dumps(mode).encode())
    assert answer.code == 0, answer.remark
    seen = Seen()
    async with world.client() as client:
        async with client.push_consumer("T", seen, group="g", mode="server", begin="first") as consumer:
            await send(client, b"x")
            await seen.reach(1)
            assert consumer.assigned == {}  # no queue is its own: it pops
        async with client.push_consumer("T", Seen(), group="h", mode="server", begin="first") as consumer:
            assert {queue.topic for queue in consumer.assigned} >= {"T"}


async def test_what_waited_for_a_handler_is_given_back_at_a_stop(world: Servers) -> None:
    await world.create_topic("T", queues=1)
    entered, release = asyncio.Event(), asyncio.Event()

    async def stuck(_: Received) -> None:
        entered.set()
        await release.wait()

    async with world.client() as client:
        await send(client, b"0", b"1", b"2")
        options = {"group": "g", "mode": "pop", "begin": "first", "invisible_s": 600.0, "concurrency": 1}
        consumer = client.push_consumer("T", stuck, **options)  # type: ignore[arg-type]
        async with asyncio.timeout(LIMIT_S):
            await consumer.start()
            await entered.wait()
            stopping = asyncio.create_task(consumer.stop())
            await turns_until(lambda: consumer._service.is_stopping)
            release.set()
            await stopping
        seen = Seen()
        async with client.push_consumer("T", seen, **options):  # type: ignore[arg-type]
            await seen.reach(2)
        assert len(set(seen.bodies)) == 2
        assert set(seen.attempts) == {1}


async def test_batches_filters_and_blocking_handlers(world: Servers) -> None:
    await world.create_topic("T", queues=1)
    batches: list[list[bytes]] = []

    def handle(messages: list[Received]) -> None:
        batches.append([each.body for each in messages])

    async with world.client() as client:
        await send(client, b"0", b"1", b"2", tag="a")
        await send(client, b"x", tag="b")
        options = {"group": "g", "mode": "pop", "begin": "first", "max_batch": 8, "filter": tag("a")}
        async with client.push_consumer("T", handle, **options), asyncio.timeout(LIMIT_S):  # type: ignore[arg-type]
            while sum(map(len, batches)) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert sorted(body for batch in batches for body in batch) == [b"0", b"1", b"2"]


def test_options_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(Error, match="one member each"):
        pyromq.ConsumeOptions(mode="pop", broadcast=True)
    with pytest.raises(Error, match="not at a time"):
        pyromq.ConsumeOptions(mode="pop", begin=pyromq.ConsumeFromWhere.TIMESTAMP, begin_ms=0)
    with pytest.raises(Error, match="no way to consume"):
        pyromq.ConsumeOptions(mode="push")  # type: ignore[arg-type]
