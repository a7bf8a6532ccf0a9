"""Order keys of a topic that nobody has made, over two brokers: a key has one queue from its first message on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply
from tests.client.cluster import Cluster
from tests.client.world import Servers, World

KEYS = [f"customer-{number}" for number in range(24)]
Places = dict[str, set[tuple[str, int]]]


@pytest.fixture(params=[True, False], ids=["propagates", "as Apache's"])
async def two(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """Brokers that make a topic on one another, or each by the sends that it gets, as Apache's do."""
    world = World(tmp_path, spread_auto_created_topics=request.param)
    await world.start_name_server()
    for name in ("broker-a", "broker-b"):
        await world.start_broker(name)
    yield world
    await world.close()


async def _send(world: Servers, topic: str, times: int) -> Places:
    """Where a producer puts the keys, all at once, each `times` times."""
    places: Places = {}
    async with world.client() as client, client.producer() as producer:

        async def send(key: str) -> None:
            for number in range(times):
                sent = await producer.send(topic, str(number), order_key=key)
                places.setdefault(key, set()).add((sent.queue.broker_name, sent.queue.queue_id))

        await asyncio.gather(*map(send, KEYS))
    return places


async def test_a_key_of_a_topic_that_its_send_makes_lies_in_one_queue(two: World) -> None:
    first = await _send(two, "fresh", 4)
    assert {key: len(queues) for key, queues in first.items()} == dict.fromkeys(KEYS, 1)
    assert {broker for queues in first.values() for broker, _ in queues} == {"broker-a", "broker-b"}
    assert await _send(two, "fresh", 1) == first, "a client that comes later agrees"


async def test_keys_that_come_while_the_topic_is_being_made_stay_where_they_began(two: World) -> None:
    """One after another: the second key may see the topic on the first key's broker alone."""
    for number in range(5):
        places: Places = {}
        async with two.client(route_refresh_s=0.01) as client, client.producer() as producer:
            for key in KEYS * 2:
                sent = await producer.send(f"growing-{number}", key, order_key=key)
                places.setdefault(key, set()).add((sent.queue.broker_name, sent.queue.queue_id))
        assert {key: len(queues) for key, queues in places.items()} == dict.fromkeys(KEYS, 1)


async def test_a_send_without_a_key_that_makes_the_topic_leaves_each_key_in_one_queue(two: World) -> None:
    """The first message makes the topic on its own broker: the keys after it may see it there alone."""
    for number in range(5):
        topic, places = f"unkeyed-{number}", Places()
        async with two.client(route_refresh_s=0.01) as client, client.producer() as producer:
            await producer.send(topic, "first")
            await client.session.route(topic)  # as it is now, which may be the one broker's part
            for key in KEYS * 2:
                sent = await producer.send(topic, key, order_key=key)
                places.setdefault(key, set()).add((sent.queue.broker_name, sent.queue.queue_id))
        assert {key: len(queues) for key, queues in places.items()} == dict.fromkeys(KEYS, 1)
        assert {broker for queues in places.values() for broker, _ in queues} == {"broker-a", "broker-b"}


async def test_where_no_topic_may_be_made_the_send_makes_it(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b"):
        broker = cluster.broker(name, TBW102=8)
        broker.script[RequestCode.GET_TOPIC_CONFIG] = lambda request: Reply(ResponseCode.NO_PERMISSION, "no")
    client = await cluster.client()
    async with client.producer() as producer:
        assert (await producer.send("T", "x", order_key="k")).queue_offset == 0
    assert "a topic for order keys is not made on a broker" in caplog.text


async def test_a_topic_that_a_broker_has_already_stays_as_it_is(cluster: Cluster) -> None:
    """The name server does not know it yet: a broker that has just made it has not registered."""
    for name in ("a", "b"):
        cluster.broker(name, TBW102=8)
    has, lacks = cluster.brokers["a"], cluster.brokers["b"]
    has.script[RequestCode.GET_TOPIC_CONFIG] = lambda request: Reply(body=b'{"topicName":"T"}')
    lacks.script[RequestCode.GET_TOPIC_CONFIG] = lambda request: Reply(ResponseCode.TOPIC_NOT_EXIST)

    def made(request: object) -> Reply:
        cluster.topics["T"] = {"a": 2, "b": 4}
        return Reply()

    lacks.script[RequestCode.UPDATE_AND_CREATE_TOPIC] = made
    client = await cluster.client()
    async with client.producer() as producer:
        await producer.send("T", "x", order_key="k")
    assert has.requests(RequestCode.UPDATE_AND_CREATE_TOPIC) == []
    (create,) = lacks.requests(RequestCode.UPDATE_AND_CREATE_TOPIC)
    assert (create.fields["topic"], create.fields["writeQueueNums"], create.fields["perm"]) == ("T", "4", "6")


async def test_a_new_topic_is_sent_to_as_soon_as_its_brokers_have_a_master(cluster: Cluster) -> None:
    """Replicas of an elected set register before one of them leads: the route of then is not kept for sends."""
    broker = cluster.broker("a", TBW102=8)
    cluster.replicas["a"] = {2: broker.address}
    client = await cluster.client()
    async with client.producer() as producer:
        sending = asyncio.create_task(producer.send("T", "x"))
        await cluster.clock.advance(0.5)
        was_early = sending.done()
        cluster.replicas["a"] = {0: broker.address, 2: "a:10921"}
        await cluster.clock.advance(1.0)
        is_sent = sending.done()
        sending.cancel()
    assert (was_early, is_sent) == (False, True)
