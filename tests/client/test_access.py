"""What stands around every request: signatures, namespaces, the VIP channel."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from typing import Any

import pytest

from pyromq.access.signatures import Signer
from pyromq.client.client import connect
from pyromq.client.config import ClientConfig, with_namespace, without_namespace
from pyromq.client.received import Received
from pyromq.errors import ConfigError
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.bodies.body import decode_body
from pyromq.protocol.bodies.heartbeat import HeartbeatData
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from tests.client.cluster import Cluster
from tests.client.conftest import NewWorld
from tests.client.world import Servers

# --- signatures -----------------------------------------------------------------------------------------------------


def test_a_known_signature() -> None:
    """By hand: openssl dgst -sha1 -hmac secret over the values in the order of their names, and the body."""
    request = Command(code=10, fields={"topic": "T", "b": "2", "a": "1"}, body=b"body")
    Signer("user", "secret").sign(request)
    by_hand = hmac.new(b"secret", b"user" + b"1" + b"2" + b"T" + b"body", hashlib.sha1).digest()
    assert request.fields == {
        "topic": "T",
        "b": "2",
        "a": "1",
        "AccessKey": "user",
        "Signature": base64.b64encode(by_hand).decode(),
    }
    assert request.fields["Signature"] == "gC/9ziw8nKIbqU4lLxyKqbRp9SQ="


def test_a_request_that_is_signed_again_gets_the_same_signature_and_a_token_is_signed_too() -> None:
    request, other = Command(code=10, fields={"a": "1"}), Command(code=10, fields={"a": "1"})
    Signer("user", "secret").sign(request)
    once = dict(request.fields)
    Signer("user", "secret").sign(request)
    assert request.fields == once
    Signer("user", "secret", "token").sign(other)
    assert other.fields["SecurityToken"] == "token"
    assert other.fields["Signature"] != once["Signature"]


def is_signed(command: Command, secret: str = "secret") -> bool:
    fields = dict(command.fields)
    signature = fields.pop("Signature", "")
    content = "".join(fields[name] for name in sorted(fields)).encode() + bytes(command.body)
    digest = hmac.new(secret.encode(), content, hashlib.sha1).digest()
    return fields.get("AccessKey") == "user" and signature == base64.b64encode(digest).decode()


async def test_every_request_is_signed_to_name_servers_and_brokers_alike(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    cluster.topics["%RETRY%g"] = {"a": 1}
    client = await cluster.client(access_key="user", secret_key="secret")
    handled = asyncio.Event()

    async def handle(msg: Received) -> None:
        handled.set()

    consumer = client.push_consumer("T", handle, group="g", begin=ConsumeFromWhere.FIRST_OFFSET)
    async with client.producer() as producer, consumer:
        await producer.send("T", b"x")
        await producer.send_oneway("T", b"y")
        await cluster.clock.advance(6)
    assert handled.is_set()
    codes = {each.code for each in broker.seen}
    assert codes >= {
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.HEART_BEAT,
        RequestCode.PULL_MESSAGE,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.UNREGISTER_CLIENT,
    }
    assert cluster.asked
    assert [each.code for each in broker.seen + cluster.asked if not is_signed(each)] == []


def test_keys_come_in_pairs_and_the_secret_is_not_shown() -> None:
    with pytest.raises(ConfigError, match="belong together"):
        ClientConfig(name_servers=("a:1",), access_key="user")
    config = ClientConfig(name_servers=("a:1",), access_key="user", secret_key="geheim", security_token="auch")
    assert "geheim" not in repr(config)
    assert "auch" not in repr(config)


def test_the_environment_has_keys_for_who_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROMQ_ACCESS_KEY", "user")
    monkeypatch.setenv("PYROMQ_SECRET_KEY", "secret")
    assert connect("127.0.0.1:1").session.config.access_key == "user"
    assert connect("127.0.0.1:1", access_key="me", secret_key="mine").session.config.access_key == "me"
    assert connect("127.0.0.1:1", access_key="", secret_key="").session.signer is None
    monkeypatch.delenv("PYROMQ_SECRET_KEY")
    with pytest.raises(ConfigError, match="belong together"):
        connect("127.0.0.1:1")


# --- namespaces -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("orders", "shop%orders"),
        ("shop%orders", "shop%orders"),
        ("other%orders", "shop%other%orders"),
        ("%RETRY%billing", "%RETRY%shop%billing"),
        ("%DLQ%billing", "%DLQ%shop%billing"),
        ("%RETRY%shop%billing", "%RETRY%shop%billing"),
        ("TBW102", "TBW102"),
        ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
        ("", ""),
    ],
)
def test_names_are_wrapped_as_java_wraps_them(name: str, wire: str) -> None:
    assert with_namespace("shop", name) == wire
    assert with_namespace("", name) == name


@pytest.mark.parametrize(
    ("wire", "name"),
    [
        ("shop%orders", "orders"),
        ("%RETRY%shop%billing", "%RETRY%billing"),
        ("other%orders", "other%orders"),
        ("orders", "orders"),
    ],
)
def test_and_unwrapped(wire: str, name: str) -> None:
    assert without_namespace("shop", wire) == name
    assert without_namespace("", wire) == wire


async def test_two_namespaces_share_a_broker_and_never_meet(world: Servers) -> None:
    for namespace in ("red", "blue"):
        await world.create_topic(f"{namespace}%orders", 1)
    got: dict[str, list[tuple[str, bytes]]] = {"red": [], "blue": []}
    all_came = asyncio.Event()

    async def work(namespace: str) -> None:
        async def handle(msg: Received) -> None:
            got[namespace].append((msg.topic, msg.body))
            if all(got.values()):
                all_came.set()

        begin = ConsumeFromWhere.FIRST_OFFSET
        async with world.client(namespace=namespace) as client, client.producer() as producer:
            await producer.send("orders", namespace.encode())
            async with client.push_consumer("orders", handle, group="billing", begin=begin):
                await all_came.wait()

    await asyncio.gather(work("red"), work("blue"))
    assert got == {"red": [("orders", b"red")], "blue": [("orders", b"blue")]}
    async with world.client(namespace="red") as client, client.pull_consumer("billing") as consumer:
        (queue,) = await consumer.queues("orders")
        assert (queue.topic, await consumer.committed(queue)) == ("red%orders", 1)


async def test_groups_and_retry_topics_are_in_the_namespace_too(cluster: Cluster) -> None:
    broker = cluster.broker("a", **{"ns%T": 1})
    cluster.topics["%RETRY%ns%g"] = {"a": 1}
    client = await cluster.client(namespace="ns")

    async def handle(msg: Received) -> None: ...

    consumer = client.push_consumer("T", handle, group="g")
    await consumer.start()
    beat = decode_body(HeartbeatData, broker.requests(RequestCode.HEART_BEAT)[-1].body)
    (described,) = beat.consumer_data_set
    assert described.group_name == "ns%g"
    assert sorted(each.topic for each in described.subscription_data_set) == ["%RETRY%ns%g", "ns%T"]


async def test_transactions_are_asked_about_by_the_name_that_the_user_knows(world_with: NewWorld) -> None:
    world = await world_with(transaction_check_interval=50, transaction_time_out=50)
    await world.create_topic("ns%paid", 1)
    came = asyncio.Event()
    asked: list[str] = []

    async def handle(msg: Received) -> None:
        came.set()

    async with (
        world.client(namespace="ns", access_key="user", secret_key="secret") as client,
        client.producer("shop") as producer,
        client.push_consumer("paid", handle, group="g", begin=ConsumeFromWhere.FIRST_OFFSET),
    ):

        @producer.transaction_check("paid")
        async def check(msg: Received) -> bool:
            asked.append(msg.topic)
            return True

        async with producer.transaction("paid", b"x") as transaction:
            transaction.leave_open()
        await came.wait()
    assert asked == ["paid"]


# --- the VIP channel ------------------------------------------------------------------------------------------------


async def test_with_the_vip_channel_producers_send_two_ports_below(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    dialled: list[str] = []
    connect = cluster.network.connect

    async def noted(address: str, protocol: Any) -> None:
        dialled.append(address)
        await connect(address, protocol)

    cluster.network.connect = noted  # type: ignore[method-assign]
    cluster.network.listen("a:10909", broker.server.attach)
    for vip, expected in ((True, {"names:9876", "a:10909", "a:10911"}), (False, {"names:9876", "a:10911"})):
        dialled.clear()
        client = await cluster.client(vip_channel=vip)
        async with client.producer() as producer:
            await producer.send("T", b"x")
            await producer.send_oneway("T", b"x")
        assert set(dialled) == expected
