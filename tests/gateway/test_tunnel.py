"""Remoting clients through the gateway: our SDK with the gateway as its name server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.client.client import Client
from pyromq.client.config import ClientConfig
from pyromq.client.received import Received
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.requests import RequestCode
from tests.client.world import World
from tests.gateway.running import gateway_before


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    await made.start_name_server()
    await made.start_broker()
    await made.start_broker("broker-b")
    await made.create_topic("T", 1)
    yield made
    await made.close()


async def test_messages_go_through_to_every_broker_and_back(world: World) -> None:
    async with gateway_before(*world.name_servers) as gateway:
        config = ClientConfig(name_servers=(gateway.tunnel.address,), trouble_pause_s=0.05)
        async with Client(config, rng=random.Random(3)) as client:
            route = await client.session.route("T")
            assert {each for replicas in route.addresses.values() for each in replicas.values()} == {
                gateway.tunnel.address
            }
            async with client.producer() as produced:
                sent = [await produced.send("T", b"%d" % number) for number in range(4)]
            assert {one.queue.broker_name for one in sent} == {"broker-a", "broker-b"}
            seen: list[bytes] = []
            everything = asyncio.Event()

            async def handle(message: Received) -> None:
                seen.append(message.body)
                if len(seen) == 4:
                    everything.set()

            async with client.push_consumer("T", handle, group="g", begin=ConsumeFromWhere.FIRST_OFFSET):
                async with asyncio.timeout(30):
                    await everything.wait()
                broker = world.brokers["broker-b"].address
                row = RequestCode.GET_CONSUMER_CONNECTION_LIST
                shown = await world.ask(broker, row, b"", consumerGroup="g")
                assert client.session.client_id in bytes(shown.body).decode()
            assert sorted(seen) == [b"0", b"1", b"2", b"3"]


async def test_a_topic_that_is_nowhere(world: World) -> None:
    async with gateway_before(*world.name_servers) as gateway:
        answer = await world.ask(gateway.tunnel.address, RequestCode.GET_ROUTEINFO_BY_TOPIC, b"", topic="Nowhere")
        assert answer.code == 17
        other = await world.ask(gateway.tunnel.address, RequestCode.GET_BROKER_RUNTIME_INFO)
        assert (other.code, other.remark) == (3, " request type 28 not supported")


# What Java's proxy 5.5.0 registers for its remoting port.
JAVA_CODES = {10, 310, 320, 36, 37, 370, 34, 35, 46, 11, 361, 200050, 15, 200051, 200053, 203, 38, 30, 31, 14, 29, 41}
JAVA_CODES |= {42, 105}


async def test_every_request_of_java_s_port_is_taken(world: World) -> None:
    async with gateway_before(*world.name_servers) as gateway:
        assert gateway.tunnel.handlers().keys() >= JAVA_CODES
        answer = await world.ask(gateway.tunnel.address, RequestCode.GET_MAX_OFFSET, b"", topic="T", queueId="0")
        assert (answer.fields["offset"], answer.fields["TRACE_ON"], answer.fields["MSG_REGION"]) == ("0", "false", "")
