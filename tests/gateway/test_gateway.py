"""The gateway before brokers of our own: what a broker's endpoint does, through a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code, MessageType
from tests.client.world import World
from tests.gateway.running import Caller, consumer, gateway_before, producer


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path, transaction_check_interval=1_000, transaction_time_out=200)
    await made.start_name_server()
    await made.start_broker()
    yield made
    await made.close()


async def test_a_walk_through_two_brokers(world: World) -> None:
    await world.start_broker("broker-b")
    await world.create_topic("T", 1)
    async with gateway_before(*world.name_servers) as gateway:
        client = Caller(gateway)
        asked = v2.Endpoints(scheme=v2.AddressScheme.IPv4, addresses=[v2.Address(host="10.1.1.1", port=1)])
        route = await client.ask("QueryRoute", v2.QueryRouteRequest(topic=v2.Resource(name="T"), endpoints=asked))
        assert sorted(queue.broker.name for queue in route.message_queues) == ["broker-a", "broker-b"]
        address = route.message_queues[0].broker.endpoints.addresses[0]
        assert (address.host, address.port) == ("10.1.1.1", gateway.backend.port)
        for number in range(4):
            assert (await client.send("T", b"%d" % number)).status.code == Code.OK
        assert (await client.say(consumer("g", "T"))).status.code == Code.OK
        received: list[v2.Message] = []
        while len(received) < 4:
            received += await client.receive("T", "g")
        assert sorted(one.body for one in received) == [b"0", b"1", b"2", b"3"]
        for one in received:
            assert await client.ack("g", one) == Code.OK
        unknown = await client.ask("QueryRoute", v2.QueryRouteRequest(topic=v2.Resource(name="Nowhere")))
        assert unknown.status.code == Code.TOPIC_NOT_FOUND
        receipt = received[0].system_properties.receipt_handle.replace("broker-", "broker-x")
        received[0].system_properties.receipt_handle = receipt
        assert await client.ack("g", received[0]) == Code.INVALID_RECEIPT_HANDLE
        await client.close()


async def test_a_receive_that_is_cancelled_gives_back_what_its_pop_brings(world: World) -> None:
    await world.create_topic("T", 1)
    async with gateway_before(*world.name_servers) as gateway:
        client = Caller(gateway)
        await client.say(consumer("g", "T"))
        _, waiting = client.begin("T", "g", invisible_s=600)
        asked = v2.QueryAssignmentRequest(topic=v2.Resource(name="T"), group=v2.Resource(name="g"))
        await client.ask("QueryAssignment", asked)
        for _ in range(20):  # over the broker's loop and ours: the pop is held by then
            await client.ask("QueryRoute", v2.QueryRouteRequest(topic=v2.Resource(name="T")))
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await client.send("T", b"for another")
        received: list[v2.Message] = []
        while not received:
            received = await client.receive("T", "g")
        assert [one.body for one in received] == [b"for another"]
        await client.close()


async def test_a_receive_that_waits_finds_nothing_when_the_gateway_stops(world: World) -> None:
    await world.create_topic("T", 1)
    async with gateway_before(*world.name_servers) as gateway:
        client = Caller(gateway)
        await client.say(consumer("g", "T"))
        call, waiting = client.begin("T", "g")
        asked = v2.QueryAssignmentRequest(topic=v2.Resource(name="T"), group=v2.Resource(name="g"))
        for _ in range(20):  # over the broker's loop and ours: the pop is held by then
            await client.ask("QueryAssignment", asked)
            await asyncio.sleep(0)
    await waiting
    first, last = (v2.ReceiveMessageResponse.FromString(call.answered.get_nowait()) for _ in range(2))
    assert (first.status.code, first.status.message) == (Code.MESSAGE_NOT_FOUND, "no new message")
    assert last.HasField("delivery_timestamp")
    await client.close()


async def test_orphans_reach_a_producer_through_the_gateway(world: World) -> None:
    await world.create_topic("X", 1, attributes="+message.type=TRANSACTION")
    async with gateway_before(*world.name_servers) as gateway:
        client = Caller(gateway)
        assert (await client.say(producer("X"))).status.code == Code.OK
        sent = await client.send("X", b"half", message_type=MessageType.TRANSACTION)
        assert sent.status.code == Code.OK
        command = (await client.heard()).recover_orphaned_transaction_command
        assert (command.message.body, command.message.topic.name) == (b"half", "X")
        end = v2.EndTransactionRequest(
            topic=v2.Resource(name="X"),
            message_id=command.message.system_properties.message_id,
            transaction_id=command.transaction_id,
            resolution=v2.TransactionResolution.COMMIT,
            source=v2.TransactionSource.SOURCE_SERVER_CHECK,
        )
        assert (await client.ask("EndTransaction", end)).status.code == Code.OK
        await client.say(consumer("g", "X"))
        assert [one.body for one in await client.receive("X", "g")] == [b"half"]
        await client.close()


async def test_without_a_name_server_calls_say_so() -> None:
    async with gateway_before("127.0.0.1:1") as gateway:
        answer = await Caller(gateway).ask("QueryRoute", v2.QueryRouteRequest(topic=v2.Resource(name="T")))
        assert answer.status.code == Code.INTERNAL_SERVER_ERROR
        assert "no name server answers" in answer.status.message


async def test_two_gateways_share_a_port(world: World) -> None:
    async with gateway_before(*world.name_servers, shares_its_port=True) as first:
        port = first.backend.port
        async with gateway_before(*world.name_servers, shares_its_port=True, listen_port=port) as second:
            assert second.backend.port == port
