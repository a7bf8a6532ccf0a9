"""Queues and topics that appear while a group exists are read from their first message, and a new group begins once.

On sockets these run on Apache's broker too, which does nothing about it. The scripted broker does not either.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from pyromq import sync
from pyromq.client.client import Client
from pyromq.client.consume.push_consumer import PushConsumer
from pyromq.client.errors import TopicNotFound
from pyromq.client.received import Received
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply
from tests.client.cluster import Cluster, FakeBroker
from tests.client.test_push_consumer import Seen, send
from tests.client.world import Servers, turns_until


async def notice(client: Client, consumer: PushConsumer, queues: int) -> None:
    """The consumer sees the topic's new size now, and not within half a minute."""
    client.session.refresh_routes()
    await turns_until(lambda: len(getattr(client.session.known_route("T"), "readable", ())) == queues)
    await consumer.rebalance()


# --- on sockets: ours, and Apache's by `make test-sdk-java` -----------------------------------------------------------


async def test_a_running_group_reads_added_queues_from_their_first_message(world: Servers) -> None:
    await world.create_topic("T", 2)
    await send(world, 5)
    seen = Seen()
    async with world.client() as client, client.push_consumer("T", seen, group="g") as consumer:
        await world.create_topic("T", 4)
        await send(world, 40, start=5)  # half of it to queues that the consumer does not know
        await notice(client, consumer, 4)
        await seen.count(40)
    assert sorted(map(int, seen.bodies)) == list(range(5, 45))
    assert await world.committed("g") == 45


@pytest.mark.fresh_broker
async def test_it_does_so_after_a_restart_of_the_broker(world: Servers) -> None:
    await world.create_topic("T", 2)
    seen = Seen()
    async with world.client() as client, client.push_consumer("T", seen, group="g") as consumer:
        await world.create_topic("T", 4)
        await send(world, 40)
        await world.restart_broker()
        await notice(client, consumer, 4)
        await seen.count(40)
    assert {int(body) for body in seen.bodies} == set(range(40))


async def test_a_group_that_was_away_when_queues_were_added(world: Servers) -> None:
    await world.create_topic("T", 2)
    seen = Seen()
    async with world.client() as client, client.push_consumer("T", seen, group="g"):
        pass
    await world.create_topic("T", 4)
    await send(world, 40)
    async with world.client() as client, client.push_consumer("T", seen, group="g"):
        await seen.count(40)
    assert sorted(map(int, seen.bodies)) == list(range(40))


async def test_a_member_that_starts_later_reads_its_share_of_them_from_the_first(world: Servers) -> None:
    await world.create_topic("T", 2)
    first, second = Seen(), Seen()
    async with world.client(instance="one") as one, one.push_consumer("T", first, group="g") as running:
        await world.create_topic("T", 4)
        await send(world, 40)
        async with world.client(instance="two") as two, two.push_consumer("T", second, group="g"):
            await notice(one, running, 4)
            await turns_until(lambda: len({*first.bodies, *second.bodies}) == 40)


async def test_a_consumer_that_was_there_before_its_topic(world: Servers) -> None:
    seen = Seen()
    async with world.client() as client, client.push_consumer("T", seen, group="g"):
        await send(world, 20)  # makes the topic
        await seen.count(20)
    assert sorted(map(int, seen.bodies)) == list(range(20))


async def test_a_blocking_consumer_that_was_there_before_its_topic(world: Servers) -> None:
    def job(address: str) -> set[str]:
        got: set[str] = set()
        enough = threading.Event()

        def handle(text: str) -> None:
            got.add(text)
            if len(got) == 20:
                enough.set()

        with sync.connect(address) as client, client.push_consumer("T", handle, group="g"):
            with sync.connect(address) as other, other.producer() as producer:
                for number in range(20):
                    producer.send("T", str(number))
            assert enough.wait(30)
        return got

    got = await asyncio.to_thread(job, next(iter(world.name_servers)))
    assert got == {str(number) for number in range(20)}


@pytest.mark.parametrize("by_queues", [False, True], ids=["subscribe", "assign"])
async def test_a_pull_consumer_that_asked_before_the_topic_was_there(world: Servers, by_queues: bool) -> None:
    async with world.client() as client, client.pull_consumer("g") as consumer:
        with pytest.raises(TopicNotFound):
            await (consumer.queues("T") if by_queues else consumer.subscribe("T"))
        await send(world, 20)
        await (consumer.assign(await consumer.queues("T")) if by_queues else consumer.subscribe("T"))
        got: list[Received] = []
        while len(got) < 20:
            got += await consumer.poll(timeout=1)
    assert sorted(int(msg.body) for msg in got) == list(range(20))


async def test_a_pull_consumer_reads_added_queues_from_their_first_message(world: Servers) -> None:
    await world.create_topic("T", 2)
    async with world.client() as client, client.pull_consumer("g") as consumer:
        await consumer.subscribe("T")
        await world.create_topic("T", 4)
        await send(world, 40)
        client.session.refresh_routes()
        await turns_until(lambda: len(getattr(client.session.known_route("T"), "readable", ())) == 4)
        await consumer.rebalance()
        got: set[bytes] = set()
        while len(got) < 40:
            got |= {msg.body for msg in await consumer.poll(timeout=1)}


async def test_a_broadcast_member_reads_added_queues_from_their_first_message(world: Servers, tmp_path: Path) -> None:
    await world.create_topic("T", 2)
    await send(world, 5)
    seen = Seen()
    options: dict[str, Any] = {"broadcast": True, "offsets_folder": tmp_path / "offsets"}
    async with world.client() as client, client.push_consumer("T", seen, group="g", **options) as consumer:
        await world.create_topic("T", 4)
        await send(world, 40, start=5)
        await notice(client, consumer, 4)
        await seen.count(40)
    assert sorted(map(int, seen.bodies)) == list(range(5, 45))


# --- by script: what members of a group see of each other -------------------------------------------------------------


@pytest.fixture
def broker(cluster: Cluster) -> FakeBroker:
    """Four queues of T with five old messages each."""
    made = cluster.broker(T=4)
    for queue_id in range(4):
        made.put("T", queue_id, *(b"old %d" % number for number in range(5)))
    return made


def starts(consumer: PushConsumer) -> dict[int, int]:
    """Where the consumer stands in its queues of T, by number."""
    return {queue.queue_id: each.next_offset for queue, each in consumer.assigned.items() if queue.topic == "T"}


async def passing(cluster: Cluster, running: asyncio.Task[None], seconds: float = 5) -> None:
    """Let virtual time go by until something has ended."""
    for _ in range(round(seconds * 10)):
        if running.done():
            break
        await cluster.clock.advance(0.1)
    await running


async def test_a_new_group_begins_at_the_end_of_all_queues_and_says_so_at_once(
    cluster: Cluster, broker: FakeBroker
) -> None:
    broker.members = ["somebody"]  # has the other half of the queues
    client = await cluster.client()
    consumer = client.push_consumer("T", Seen(), group="g")
    await consumer.start()
    assert len(starts(consumer)) == 2
    assert set(starts(consumer).values()) == {5}
    assert {key: offset for key, offset in broker.offsets.items() if key[0] == "T"} == {("T", n): 5 for n in range(4)}
    await consumer.stop()


async def test_offsets_that_another_member_is_about_to_write_are_waited_for(
    cluster: Cluster, broker: FakeBroker
) -> None:
    broker.offsets["T", 0] = 3  # the other has begun to write; a message came since it began
    client = await cluster.client()
    consumer = client.push_consumer("T", Seen(), group="g")
    starting = asyncio.create_task(consumer.start())
    await cluster.clock.advance(0.5)
    assert not starting.done()
    broker.offsets |= {("T", 1): 3, ("T", 2): 3}
    await passing(cluster, starting)
    assert broker.offsets["T", 3] == 0  # nobody ever wrote it: from the first, and the group has it now
    assert {int(each.fields["queueOffset"]) for each in broker.requests(RequestCode.PULL_MESSAGE)[:4]} <= {3, 0}
    await consumer.stop()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"begin": ConsumeFromWhere.FIRST_OFFSET}, 0),
        ({"begin": ConsumeFromWhere.TIMESTAMP, "begin_ms": 1}, 2),
    ],
    ids=["first", "time"],
)
async def test_first_and_a_time_mean_what_they_say_for_every_queue_without_an_offset(
    cluster: Cluster, broker: FakeBroker, options: dict[str, Any], expected: int
) -> None:
    broker.offsets["T", 0] = 3
    broker.script[RequestCode.SEARCH_OFFSET_BY_TIMESTAMP] = lambda request: Reply(fields={"offset": "2"})
    client = await cluster.client()
    seen = Seen()
    async with client.push_consumer("T", seen, group="g", **options):
        while len(seen.messages) < 2 + 3 * (5 - expected):
            await cluster.clock.advance(0.1)
    assert min(msg.offset for msg in seen.messages if msg.queue.queue_id == 1) == expected
    assert min(msg.offset for msg in seen.messages if msg.queue.queue_id == 0) == 3


async def test_a_pull_consumer_that_commits_by_itself_alone_commits_nothing_here(
    cluster: Cluster, broker: FakeBroker
) -> None:
    client = await cluster.client()
    for auto_commit in (False, True):
        async with client.pull_consumer("g", auto_commit=auto_commit) as consumer:
            queues = await consumer.queues("T")
            await consumer.assign(queues[:1])
            assert consumer.position(queues[0]) == 5
            assert len(broker.offsets) == (4 if auto_commit else 0)


async def test_a_new_group_whose_broker_was_away_at_its_start_begins_at_the_end_of_that_too(cluster: Cluster) -> None:
    one, two = cluster.broker("a", T=1), cluster.broker("b", T=1)
    for each in (one, two):
        each.put("T", 0, b"old")
    for code in (RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.GET_MAX_OFFSET):
        two.script[code] = lambda request: Reply(ResponseCode.SYSTEM_ERROR, "away")
    client = await cluster.client()
    consumer = client.push_consumer("T", Seen(), group="g")
    await consumer.start()
    two.script.clear()
    await cluster.clock.advance(4)
    assert {queue.broker_name: each.next_offset for queue, each in consumer.assigned.items() if queue.topic == "T"} == {
        "a": 1,
        "b": 1,
    }
    await consumer.stop()
