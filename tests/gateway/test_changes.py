"""Clients of a gateway while topics go and brokers are away: what they are answered says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

import pyromq
from pyromq.client.errors import Refused, TopicNotFound
from pyromq.client.pop.popped import LeaseState
from pyromq.gateway.server import Gateway
from pyromq.model.codes import ResponseCode
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code
from pyromq.protocol.requests import RequestCode
from tests.client.world import World
from tests.gateway.running import Caller, gateway_before
from tests.proxy.calling import message

LIMIT_S = 60


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path, auto_create_topic_enable=True)
    await made.start_name_server()
    await made.start_broker()
    yield made
    await made.close()


async def delete_topic(world: World, topic: str) -> None:
    (names,) = world.name_servers
    for running in world.brokers.values():
        answer = await world.ask(running.address, RequestCode.DELETE_TOPIC_IN_BROKER, topic=topic)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    answer = await world.ask(names, RequestCode.DELETE_TOPIC_IN_NAMESRV, topic=topic)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


def endpoint(gateway: Gateway) -> str:
    return f"127.0.0.1:{gateway.backend.port}"


async def test_a_send_to_a_topic_that_was_deleted_makes_none(world: World) -> None:
    await world.create_topic("T", 2)
    async with gateway_before(*world.name_servers) as gateway:
        client = Caller(gateway)
        assert (await client.send("T", b"there")).status.code == Code.OK  # the route is known from now on
        await delete_topic(world, "T")
        answer = await client.send("T", b"gone")
        assert answer.status.code == Code.TOPIC_NOT_FOUND, answer.status.message
        batch = v2.SendMessageRequest(messages=[message("T", b"1"), message("T", b"2")])
        assert (await client.ask("SendMessage", batch)).status.code == Code.TOPIC_NOT_FOUND
        asked = await world.ask(world.brokers["broker-a"].address, RequestCode.GET_TOPIC_CONFIG, topic="T")
        assert asked.code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_topic_that_has_fewer_queues_now_takes_every_send(world: World) -> None:
    await world.create_topic("T", 4)
    async with gateway_before(*world.name_servers) as gateway:
        client = Caller(gateway)
        assert (await client.send("T", b"of four")).status.code == Code.OK
        await world.create_topic("T", 1)
        for _ in range(8):
            answer = await client.send("T", b"of one")
            assert answer.status.code == Code.OK, answer.status.message


async def test_an_ack_after_the_topic_was_deleted_names_it(world: World) -> None:
    await world.create_topic("T", 1)
    async with (
        gateway_before(*world.name_servers) as gateway,
        pyromq.connect(endpoints=endpoint(gateway)) as sdk,
        sdk.producer() as producer,
        sdk.simple_consumer("T", group="g", begin="first") as reader,
    ):
        await producer.send("T", b"one")
        (popped,) = await reader.receive()
        await delete_topic(world, "T")
        with pytest.raises(TopicNotFound, match="for the topic: T"):
            await popped.ack()


async def test_while_its_broker_is_away_an_ack_says_so_and_may_be_tried_again(world: World) -> None:
    await world.create_topic("T", 1)
    async with (
        gateway_before(*world.name_servers) as gateway,
        pyromq.connect(endpoints=endpoint(gateway)) as sdk,
        sdk.producer() as producer,
        sdk.simple_consumer("T", group="g", invisible_s=600, begin="first") as reader,
    ):
        await producer.send("T", b"one")
        (popped,) = await reader.receive()
        port = int(world.brokers["broker-a"].address.rpartition(":")[2])
        await world.stop_broker()  # which takes it from the name server's list, too
        for _ in range(2):
            with pytest.raises(Refused, match="broker broker-a is away, try again"):
                await popped.ack()
        with pytest.raises(Refused, match="broker broker-a is away"):
            await reader.receive(wait=0)
        await world.start_broker(port=port)
        async with asyncio.timeout(LIMIT_S):
            while popped.state is not LeaseState.DONE:
                with suppress(Refused):  # until the gateway tries the address again
                    await popped.ack()
