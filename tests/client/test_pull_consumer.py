"""Pull consumers: assign, seek, poll, commit; on our own broker through a restart, and on virtual time."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.client.errors import Closed, Error
from pyromq.client.subscription import tag
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply
from tests.client.cluster import Cluster
from tests.client.world import Servers

FIRST = ConsumeFromWhere.FIRST_OFFSET


async def fill(world: Servers, count: int = 100, topic: str = "T") -> None:
    async with world.client() as client, client.producer() as producer:
        for number in range(count):
            await producer.send(topic, str(number), tag="even" if number % 2 == 0 else "odd")


async def test_poll_returns_everything_once_and_what_was_returned_is_committed_at_the_end(world: Servers) -> None:
    await fill(world)
    async with world.client() as client:
        async with client.pull_consumer("g", begin=FIRST) as consumer:
            queues = await consumer.queues("T")
            await consumer.assign(queues)
            found: list[int] = []
            while len(found) < 100:
                found += [int(message.body) for message in await consumer.poll(10)]
            assert await consumer.poll(0.01) == []
        assert sorted(found) == list(range(100))
        async with client.pull_consumer("g") as consumer:
            await consumer.assign(queues)
            assert sum([await consumer.committed(queue) or 0 for queue in queues]) == 100
            assert await consumer.poll(0.01) == []


@pytest.mark.parametrize("wanted", ["*", "odd"])
async def test_a_poll_that_waits_for_nothing_returns_what_is_there(world: Servers, wanted: str) -> None:
    await fill(world)
    async with world.client() as client, client.pull_consumer("g", filter=tag(wanted), begin=FIRST) as consumer:
        await consumer.assign(await consumer.queues("T"))
        found: list[int] = []
        while batch := await consumer.poll(timeout=0):
            found += [int(message.body) for message in batch]
        assert sorted(found) == list(range(100) if wanted == "*" else range(1, 100, 2))
        assert await consumer.poll(timeout=0.01) == []  # its pulls are suspended now
        await fill(world, 8)
        while batch := await consumer.poll(timeout=0):
            found += [int(message.body) for message in batch]
    assert len(found) == (108 if wanted == "*" else 54)


async def test_it_ends_while_the_broker_is_away(cluster: Cluster) -> None:
    broker = cluster.broker(T=1)
    client = await cluster.client()
    async with client.pull_consumer("g") as consumer:
        await consumer.assign(await consumer.queues("T"))
        cluster.network.unlisten(broker.address)
        broker.cut()
        assert await consumer.poll(timeout=0) == []


async def test_a_batch_that_was_not_dealt_with_comes_again(world: Servers) -> None:
    await fill(world, 5)
    async with world.client() as client:

        async def job() -> None:
            async with client.pull_consumer("g", begin=FIRST) as consumer:
                await consumer.assign(await consumer.queues("T"))
                await consumer.poll(10)
                raise ValueError("in the middle")

        with pytest.raises(ValueError, match="middle"):
            await job()
        async with client.pull_consumer("g", begin=FIRST) as consumer:
            await consumer.assign(await consumer.queues("T"))
            found: set[int] = set()
            while len(found) < 5:
                found |= {int(message.body) for message in await consumer.poll(10)}


async def test_seek_by_offset_to_the_ends_and_by_time(world: Servers) -> None:
    await world.create_topic("T", queues=1)
    await fill(world, 10)
    async with world.client() as client, client.pull_consumer("g") as consumer:
        (queue,) = await consumer.queues("T")
        await consumer.assign([queue])
        assert consumer.position(queue) == 10  # a new group begins at the end
        await consumer.seek(queue, 7)
        first = await consumer.poll(10)
        assert [int(message.body) for message in first] == [7, 8, 9]
        await consumer.seek_to_begin(queue)
        assert (await consumer.poll(10))[0].offset == 0
        await consumer.seek_to_time(queue, first[0].stored_ms)
        assert (await consumer.poll(10))[0].offset <= 7
        await consumer.seek_to_time(queue, first[-1].stored_ms + 60_000)
        assert consumer.position(queue) == 10
        await consumer.seek_to_end(queue)
        assert await consumer.poll(0.01) == []


@pytest.mark.fresh_broker
async def test_a_restart_of_the_broker_in_the_middle(world: Servers) -> None:
    await fill(world, 60)
    async with world.client() as client, client.pull_consumer("g", begin=FIRST, pull_messages=5) as consumer:
        await consumer.assign(await consumer.queues("T"))
        found = [int(message.body) for message in await consumer.poll(10)]
        await world.restart_broker()
        while len(found) < 60:
            found += [int(message.body) for message in await consumer.poll(10)]
    assert sorted(found) == list(range(60))


async def test_tags_are_filtered(world: Servers) -> None:
    await fill(world, 20)
    async with world.client() as client, client.pull_consumer("g", filter=tag("odd"), begin=FIRST) as consumer:
        await consumer.assign(await consumer.queues("T"))
        found: list[int] = []
        while len(found) < 10:
            found += [int(message.body) for message in await consumer.poll(10)]
    assert sorted(found) == list(range(1, 20, 2))


async def test_without_auto_commit_only_commit_commits(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    broker.put("T", 0, b"0", b"1")
    client = await cluster.client()
    async with client.pull_consumer("g", auto_commit=False, begin=FIRST) as consumer:
        (queue,) = await consumer.queues("T")
        await consumer.assign([queue])
        assert len(await consumer.poll()) == 2
        await cluster.clock.advance(60)
        asking = asyncio.create_task(consumer.poll(1))
        await cluster.clock.advance(1)
        assert await asking == []
        assert broker.offsets == {}
        await consumer.commit()
        assert broker.offsets == {("T", 0): 2}


async def test_polls_commit_what_came_before_every_5_s(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    broker.put("T", 0, b"0")
    client = await cluster.client()
    async with client.pull_consumer("g", begin=FIRST) as consumer:
        await consumer.assign(await consumer.queues("T"))
        assert len(await consumer.poll()) == 1
        await cluster.clock.advance(5)
        assert broker.offsets == {}  # nobody said that the message is dealt with
        asking = asyncio.create_task(consumer.poll(1))
        await cluster.clock.advance(1)
        await asking
        assert broker.offsets == {("T", 0): 1}


async def test_an_error_of_the_broker_is_waited_out(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    broker.put("T", 0, b"0")
    broker.script[RequestCode.PULL_MESSAGE] = lambda request: Reply(ResponseCode.SYSTEM_ERROR, "no")
    client = await cluster.client()
    async with client.pull_consumer("g", begin=FIRST) as consumer:
        await consumer.assign(await consumer.queues("T"))
        asking = asyncio.create_task(consumer.poll(10))
        await cluster.clock.advance(2.5)
        assert len(broker.requests(RequestCode.PULL_MESSAGE)) == 3
        del broker.script[RequestCode.PULL_MESSAGE]
        await cluster.clock.advance(1)
        assert [message.body for message in await asking] == [b"0"]


async def test_paused_queues_are_not_pulled(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=2)
    for queue_id in range(2):
        broker.put("T", queue_id, b"x")
    client = await cluster.client()
    async with client.pull_consumer("g", begin=FIRST) as consumer:
        one, two = await consumer.queues("T")
        await consumer.assign([one, two])
        consumer.pause(one)
        assert (await consumer.poll())[0].queue == two
        consumer.pause(two)
        with pytest.raises(Error, match="all are paused"):
            await consumer.poll()
        consumer.resume(one)
        assert (await consumer.poll())[0].queue == one


async def test_misuse_is_named(cluster: Cluster) -> None:
    cluster.broker("a", T=1)
    client = await cluster.client()
    consumer = client.pull_consumer("g")
    with pytest.raises(Closed):
        await consumer.poll()
    async with consumer:
        with pytest.raises(Error, match="no queue is assigned"):
            await consumer.poll()
        with pytest.raises(Error, match="is not assigned"):
            await consumer.seek(MessageQueue(broker_name="a", queue_id=0, topic="T"), 5)
        (queue,) = await consumer.queues("T")
        await consumer.assign([queue])
        with pytest.raises(Error, match="at least 0"):
            await consumer.seek(queue, -1)
        with pytest.raises(Error, match=r"offset 1 of .* lies beyond its end, which is 0. Use seek_to_end"):
            await consumer.seek(queue, 1)
        with pytest.raises(Error, match="the offset is '1', and not a whole number"):
            await consumer.seek(queue, "1")  # type: ignore[arg-type]
        with pytest.raises(Error, match=r"time_ms is 'x', and not a whole number. Give milliseconds since 1970"):
            await consumer.seek_to_time(queue, "x")  # type: ignore[arg-type]
        for wrong in ("T", ["T"], 5):
            with pytest.raises(Error, match=r"assign.*queues\("):
                await consumer.assign(wrong)  # type: ignore[arg-type]
        assert consumer.position(queue) == 0
