"""Gateways tell each other their consumers by Java's topic: members, settings, farewells, silence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from pyromq.admin import proxies
from pyromq.admin.calls import Calls
from pyromq.client.client import Client
from pyromq.client.config import ClientConfig
from pyromq.client.received import Received
from pyromq.gateway.members import GatewayMembers, connection_of
from pyromq.gateway.server import Gateway
from pyromq.protocol.bodies.connections import ConsumerConnection
from pyromq.protocol.bodies.proxies import REGISTER, UNREGISTER, HeartbeatSyncerData
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code
from pyromq.protocol.requests import RequestCode
from tests.client.world import World
from tests.gateway.running import Caller, consumer, gateway_before

TOPIC = "DefaultHeartBeatSyncerTopic"
FROM_JAVA = {  # as Java's proxy 5.5.0 writes it
    "channelData": json.dumps(
        {
            "extendAttribute": '{\n  "clientType": "SIMPLE_CONSUMER",\n  "subscription": {\n    "group": {\n'
            '      "name": "g"\n    },\n    "longPollingTimeout": "5s"\n  }\n}',
            "remoteProxyIp": "10.0.0.9",
            "remoteAddress": "10.0.0.7:4711",
            "localAddress": "10.0.0.9:8081",
            "type": "GRPC_V2",
        }
    ),
    "clientId": "java-1",
    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
    "consumeType": "CONSUME_ACTIVELY",
    "group": "g",
    "heartbeatType": "REGISTER",
    "language": "JAVA",
    "lastUpdateTimestamp": 1763424000000,
    "localProxyId": "10.0.0.9%8080%8081",
    "messageModel": "CLUSTERING",
    "subscriptionDataSet": [
        {"classFilterMode": False, "codeSet": [], "expressionType": "TAG", "subString": "*", "subVersion": 1}
        | {"tagsSet": [], "topic": "T"}
    ],
    "version": 513,
}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    await made.start_name_server()
    await made.start_broker()
    await made.create_topic("T", 1)
    yield made
    await made.close()


async def members(world: World, gateway: Gateway, group: str = "g") -> list[str]:
    """Who is in a group, as remoting clients of the gateway are told."""
    row = RequestCode.GET_CONSUMER_LIST_BY_GROUP
    answer = await world.ask(gateway.tunnel.address, row, b"", consumerGroup=group)
    return sorted(row.gives.read_body(bytes(answer.body)).consumer_id_list) if answer.code == 0 else []


async def hears(gateway: Gateway) -> None:
    """Wait until the gateway reads the topic."""
    assert gateway.syncer is not None
    await until(lambda: bool(gateway.syncer and gateway.syncer.is_hearing))


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if is_so():
            return
        await asyncio.sleep(0.02)  # over sockets, and a broker between
    raise AssertionError("it did not become so")


async def test_consumers_of_one_gateway_are_known_at_the_other_until_they_leave(world: World) -> None:
    async with gateway_before(*world.name_servers) as one, gateway_before(*world.name_servers) as other:
        await hears(one)
        await hears(other)
        client, there = Caller(one, "client-1"), Caller(other, "client-2")
        assert (await client.say(consumer("g", "T"))).status.code == Code.OK
        assert (await there.say(consumer("g", "T"))).status.code == Code.OK
        await until(lambda: len(other.members.of("g")) == 2 and len(one.members.of("g")) == 2)
        assert await members(world, one) == await members(world, other) == ["client-1", "client-2"]
        row = RequestCode.GET_CONSUMER_CONNECTION_LIST
        shown = await world.ask(other.tunnel.address, row, b"", consumerGroup="g")
        body = row.gives.read_body(bytes(shown.body))
        assert {one.client_id: one.language for one in body.connection_set} == {"client-1": "JAVA", "client-2": "JAVA"}
        assert body.subscription_table["T"].sub_string == "*"
        farewell = v2.NotifyClientTerminationRequest(group=v2.Resource(name="g"))
        assert (await client.ask("NotifyClientTermination", farewell)).status.code == Code.OK
        await until(lambda: list(other.members.of("g")) == ["client-2"])
        await client.close()
        await there.close()


async def test_a_farewell_that_cannot_be_sent_is_said_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    broker = world.brokers["broker-a"].broker
    async with gateway_before(*world.name_servers) as one, gateway_before(*world.name_servers) as other:
        await hears(one)
        await hears(other)
        client = Caller(one, "client-1")
        assert (await client.say(consumer("g", "T"))).status.code == Code.OK
        await until(lambda: list(other.members.of("g")) == ["client-1"])
        broker.live.change("brokerPermission=4")  # it refuses sends
        farewell = v2.NotifyClientTerminationRequest(group=v2.Resource(name="g"))
        with caplog.at_level("DEBUG", "pyromq.gateway"):
            assert (await client.ask("NotifyClientTermination", farewell)).status.code == Code.OK
            await until(lambda: "a client is not announced now" in caplog.text)
        assert list(other.members.of("g")) == ["client-1"]
        broker.live.change("brokerPermission=6")
        await until(lambda: not other.members.of("g"))
        await client.close()


async def test_a_call_may_come_to_another_gateway_than_the_settings(world: World) -> None:
    async with gateway_before(*world.name_servers) as one, gateway_before(*world.name_servers) as other:
        await hears(other)
        client, elsewhere = Caller(one), Caller(other)
        await client.say(consumer("g", "T"))
        await until(lambda: bool(other.members.settings_elsewhere("client-1")))
        await elsewhere.send("T", b"x")
        received: list[v2.Message] = []
        while not received:
            received = await elsewhere.receive("T", "g")
        assert [message.body for message in received] == [b"x"]
        beat = v2.HeartbeatRequest(group=v2.Resource(name="g"), client_type=v2.ClientType.SIMPLE_CONSUMER)
        assert (await elsewhere.ask("Heartbeat", beat)).status.code == Code.OK
        assert "client-1" in other.members.own["g"]
        await client.close()


async def test_tools_show_clients_that_no_broker_knows(world: World) -> None:
    async with gateway_before(*world.name_servers) as gateway:
        await hears(gateway)
        client = Caller(gateway)
        await client.say(consumer("g", "T"))
        async with Client(ClientConfig(name_servers=tuple(world.name_servers))) as tools:
            calls = Calls(tools.session)
            found: dict[str, ConsumerConnection] = {}
            while not found:  # it is announced in the background
                found = await proxies.connections(calls, "g")
            assert gateway.syncer is not None
            (shown,) = found[gateway.syncer.proxy_id].connection_set
            assert (shown.client_id, shown.language) == ("client-1", "JAVA")
            joined = proxies.joined(ConsumerConnection(), found.values())
            assert list(await proxies.all_connections(calls)) == ["g"]
            assert joined.subscription_table["T"].sub_string == "*"
            farewell = v2.NotifyClientTerminationRequest(group=v2.Resource(name="g"))
            await client.ask("NotifyClientTermination", farewell)
            while found:
                found = await proxies.connections(calls, "g")
        await client.close()


async def test_remoting_clients_are_told_too_and_leave_with_their_connection(world: World) -> None:
    async with gateway_before(*world.name_servers) as one, gateway_before(*world.name_servers) as other:
        await hears(other)
        config = ClientConfig(name_servers=(one.tunnel.address,), trouble_pause_s=0.05)

        async def handle(message: Received) -> None: ...

        async with Client(config) as client:
            async with client.push_consumer("T", handle, group="g"):
                await until(lambda: client.session.client_id in other.members.of("g"))
                assert other.members.of("g")[client.session.client_id].settings == ""
                assert await members(world, other) == [client.session.client_id]  # once, though the broker knows it too
            await until(lambda: not other.members.of("g"))


async def test_what_java_s_proxy_says(world: World) -> None:
    async with gateway_before(*world.name_servers) as gateway:
        await hears(gateway)
        async with Client(ClientConfig(name_servers=tuple(world.name_servers))) as client, client.producer() as java:
            for body in (b"no JSON", json.dumps(FROM_JAVA).encode()):
                await java.send(TOPIC, body)
            await until(lambda: bool(gateway.members.of("g")))
            member = gateway.members.of("g")["java-1"]
            assert (member.language, member.address, member.version) == ("JAVA", "10.0.0.7:4711", 513)
            settings = gateway.services.clients.settings_elsewhere("java-1")
            assert settings is not None
            assert settings.subscription.long_polling_timeout.seconds == 5
            gone = FROM_JAVA | {"heartbeatType": "UNREGISTER", "consumeType": None, "subscriptionDataSet": None}
            await java.send(TOPIC, json.dumps(gone).encode())
            await until(lambda: not gateway.members.of("g"))


async def test_a_gateway_that_stops_says_that_its_clients_have_gone(world: World) -> None:
    async with gateway_before(*world.name_servers) as other:
        await hears(other)
        async with gateway_before(*world.name_servers) as one:
            client = Caller(one)
            await client.say(consumer("g", "T"))
            await until(lambda: bool(other.members.of("g")))
            await client.close()
        await until(lambda: not other.members.of("g"))


async def test_without_a_topic_nothing_is_told(world: World) -> None:
    async with gateway_before(*world.name_servers, heartbeat_syncer_topic_name="") as gateway:
        client = Caller(gateway)
        await client.say(consumer("g", "T"))
        assert gateway.syncer is None
        assert await members(world, gateway) == ["client-1"]
        await client.close()


# --- the table of members: no sockets ---------------------------------------------------------------------------------


def told(client: str, proxy: str = "a", kind: str = REGISTER) -> HeartbeatSyncerData:
    return HeartbeatSyncerData(client_id=client, group="g", heartbeat_type=kind, local_proxy_id=proxy)


def test_members_fall_silent() -> None:
    known = GatewayMembers()
    known.take(told("early"), 1.0)
    known.take(told("late"), 5.0)
    known.expire(3.0)
    assert list(known.of("g")) == ["late"]
    known.expire(6.0)
    assert known.others == {}


def test_a_farewell_of_where_a_client_was_before_is_not_its_end() -> None:
    known = GatewayMembers()
    known.take(told("c", "a"), 1.0)
    known.take(told("c", "b"), 2.0)
    known.take(told("c", "a", UNREGISTER), 3.0)
    assert known.of("g")["c"].proxy == "b"
    known.take(told("c", "b", UNREGISTER), 3.0)
    assert known.of("g") == {}


def test_members_stand_beside_those_that_a_broker_shows() -> None:
    known = GatewayMembers()
    known.take(told("c"), 1.0)
    shown = connection_of(known.of("g").values(), None)
    again = connection_of(known.of("g").values(), shown)
    assert [one.client_id for one in again.connection_set] == ["c"]
