"""Quotas of users and addresses behind a gateway: brokers count each of them, and the refusal reaches who asked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import pyromq
from pyromq.access.rights import Principal, Proof
from pyromq.access.sharing.behalf import counted_caller
from pyromq.ambient import SystemClock
from pyromq.broker.broker import Broker
from pyromq.broker.quotas import gate
from pyromq.broker.quotas.limits import QuotaKind
from pyromq.broker.quotas.refusal import BeyondQuota, beyond
from pyromq.broker.quotas.use import QuotaUse
from pyromq.client.produce.sending import SendPolicy
from pyromq.gateway.server import Gateway
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.grpc import v2
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.client import RemotingClient
from tests.access.matrix import signed
from tests.access.test_users import allow
from tests.client.world import turns_until
from tests.gateway.running import consumer, gateway_before
from tests.gateway.secured import GATE, PASSWORD, SHOP, Secured, secured
from tests.gateway.test_users import asked, caller

OTHER = "other"
BODY = b"x" * 100  # of one byte a second: it is long until the next one may pass
WAYS = pytest.mark.parametrize("way", ["grpc", "remoting"])
OK, BUSY = int(v2.Code.OK), int(v2.Code.TOO_MANY_REQUESTS)
FORGED = {"pyromqCountedUser": f"User:{OTHER}", "pyromqCountedHost": "10.9.9.9", "pyromqCountedConnection": "x:1"}

Send = Callable[[], Awaitable[tuple[int, str]]]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as made:
        await made.create_topic("T", 1)
        for name in (SHOP, OTHER):
            entries = allow("Topic:T", "Pub", "Sub"), allow("Group:g", "Sub")
            await made.make_user(made.brokers["broker-a"].address, *entries, name=name)
        yield made


async def limit(cluster: Secured, whose: str, **limits: int) -> None:
    kind, _, name = whose.partition(":")
    body = {"kind": kind, "name": name, "limits": limits}
    await cluster.administer(cluster.brokers["broker-a"].address, Code.SET_QUOTA, body)


async def unlimit(cluster: Secured, whose: str) -> None:
    kind, _, name = whose.partition(":")
    await cluster.administer(cluster.brokers["broker-a"].address, Code.DELETE_QUOTA, kind=kind, name=name)


def broker_of(cluster: Secured) -> Broker:
    return cluster.brokers["broker-a"].broker


def native_puts(broker: Broker) -> int:
    """How many messages the kernel stored by itself, since the last look."""
    return sum(count[2] for one in broker.verdicts for count in one.kernel.take_counts()[0])


def short(**more: str) -> Command:
    fields = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0"}
    fields |= {"i": "UNIQ_KEY\x01U\x02", "n": "broker-a"} | more
    return Command(code=Code.SEND_MESSAGE_V2, fields=fields, body=BODY)


def sender(gateway: Gateway, way: str, name: str, **more: str) -> Send:
    """Return what sends one message as a user: its answer by gRPC's codes, and the words."""

    async def by_grpc() -> tuple[int, str]:
        status = (await caller(gateway, name).send("T", BODY)).status
        return int(status.code), status.message

    async def by_remoting() -> tuple[int, str]:
        answer = await asked(gateway.tunnel.address, signed(short(**more), name, PASSWORD))
        code = {ResponseCode.SUCCESS: OK, ResponseCode.SYSTEM_BUSY: BUSY}.get(ResponseCode(answer.code), answer.code)
        return code, answer.remark or ""

    return by_grpc if way == "grpc" else by_remoting


@WAYS
async def test_a_user_behind_a_gateway_has_a_quota_of_his_own(cluster: Secured, way: str) -> None:
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SHOP, "")
        shop, other = sender(gateway, way, SHOP, **FORGED), sender(gateway, way, OTHER)
        assert (await shop())[0] == OK
        async with asyncio.timeout(60):  # a busy broker may have taken some by Python
            while way == "grpc" and not native_puts(broker_of(cluster)):  # nobody is named: the kernel knows the fields
                assert (await shop())[0] == OK
        await limit(cluster, f"user:{SHOP}", sendBytes=1)
        assert gateway.users.are_counted()  # when that is answered
        native_puts(broker_of(cluster))
        assert (await shop())[0] == OK
        code, said = await shop()
        assert code == BUSY
        assert f"the quota of user:{SHOP} is 1 bytes sent a second (sendBytes)" in said
        assert "is used: try again in " in said
        assert (await other())[0] == OK  # whom the forged fields named
        assert native_puts(broker_of(cluster)) == 0
        await unlimit(cluster, f"user:{SHOP}")
        assert (await shop())[0] == OK


@WAYS
async def test_what_a_user_reads_through_a_gateway_is_charged_to_him(cluster: Secured, way: str) -> None:
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SHOP, "")
        await limit(cluster, "user:*", readBytes=1)
        assert [(await sender(gateway, way, SHOP)())[0] for _ in range(2)] == [OK] * 2

        async def read(name: str) -> tuple[int, str]:
            if way == "remoting":
                fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1"}
                fields |= {"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*"}
                pull = Command(code=Code.PULL_MESSAGE, fields=fields | {"subVersion": "0", "bname": "broker-a"})
                answer = await asked(gateway.tunnel.address, signed(pull, name, PASSWORD))
                return answer.code, answer.remark or ""
            reader = caller(gateway, name, client_id=f"client of {name}")
            await reader.say(consumer("g", "T"))
            call, task = reader.begin("T", "g")
            await task
            await reader.close()
            first = v2.ReceiveMessageResponse.FromString(call.answered.get_nowait())
            return int(first.status.code), first.status.message

        busy, ok = (BUSY, OK) if way == "grpc" else (int(ResponseCode.SYSTEM_BUSY), int(ResponseCode.SUCCESS))
        assert (await read(SHOP))[0] == ok
        code, said = await read(SHOP)
        assert code == busy, said
        assert f"the quota of user:{SHOP} is 1 bytes read a second (readBytes)" in said
        if way == "remoting":  # of two messages, one is his own and one is left; a pop has taken both
            assert (await read(OTHER))[0] == ok


@WAYS
async def test_the_sdk_behind_a_gateway_waits_as_it_is_told(
    cluster: Secured, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    def noted(use: QuotaUse, *given: Any, **more: Any) -> BeyondQuota:
        refused.append(str(use.owner))
        return beyond(use, *given, **more)

    monkeypatch.setattr(gate, "beyond", noted)
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SHOP, "")
        await limit(cluster, f"user:{SHOP}", sendMessages=4)
        where: dict[str, Any] = {"endpoints": f"127.0.0.1:{gateway.backend.port}"}
        if way == "remoting":
            where = {"namesrv": gateway.tunnel.address}
        async with (
            pyromq.connect(**where, access_key=SHOP, secret_key=PASSWORD) as client,
            client.producer(policy=SendPolicy(timeout_s=60)) as producer,
        ):
            await asyncio.gather(*(producer.send("T", b"%d" % number) for number in range(10)))
        assert sum(queue.next_offset for queue in broker_of(cluster).store.queues.of_topic("T")) == 10
        assert set(refused) == {f"user:{SHOP}"}


async def test_an_address_behind_a_gateway_has_a_quota_of_its_own(cluster: Secured) -> None:
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SHOP, "")
        await limit(cluster, "address:*", sendBytes=1)
        remotely, locally = sender(gateway, "grpc", SHOP), sender(gateway, "remoting", SHOP)
        assert (await remotely())[0] == OK
        code, said = await remotely()
        assert code == BUSY
        assert "the quota of address:10.0.0.9 is 1 bytes sent a second" in said  # where the call came from
        assert (await locally())[0] == OK
        answer = await asked(gateway.tunnel.address, signed(short(), SHOP, PASSWORD))
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert "the quota of address:127.0.0.1 " in str(answer.remark)
        assert f"try again in {answer.fields['retryAfterMs']} ms" in str(answer.remark)


async def test_connections_at_a_gateway_are_those_of_its_clients(cluster: Secured) -> None:
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SHOP, "")
        await limit(cluster, f"user:{SHOP}", connections=2)
        clock, rng = SystemClock(), random.Random(3)
        async with RemotingClient(clock=clock, rng=rng) as first, RemotingClient(clock=clock, rng=rng) as second:
            for client in (first, second):
                answer = await client.call(gateway.tunnel.address, signed(short(), SHOP, PASSWORD), 20)
                assert answer.code == ResponseCode.SUCCESS, answer.remark
            code, said = await sender(gateway, "grpc", SHOP)()
            assert code == BUSY
            assert f"the quota of user:{SHOP} is 2 connections (connections), 2 is used" in said
        quotas = broker_of(cluster).base.quotas
        use = quotas.use(QuotaKind.USER, SHOP)
        assert use is not None
        async with asyncio.timeout(30):
            await turns_until(lambda: not use.connections)  # the gateway's own ones end with them
        assert (await sender(gateway, "grpc", SHOP)())[0] == OK
        assert list(use.connections) == ["10.0.0.9:40001"]


async def test_only_servers_say_whose_use_it_is(cluster: Secured) -> None:
    await limit(cluster, f"user:{SHOP}", sendBytes=1)
    address = cluster.brokers["broker-a"].address
    for _ in range(2):
        answer = await asked(address, signed(short(**FORGED), SHOP, PASSWORD))
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert f"user:{SHOP}" in str(answer.remark)


def test_a_name_counts_with_the_signature_of_the_servers_user_alone() -> None:
    command = short(**FORGED)
    inner = Principal("inner", is_super=True, proof=Proof.SIGNATURE)
    caller = counted_caller(command, inner, "inner")
    assert caller is not None
    assert (caller.user, caller.host, caller.connection) == (OTHER, "10.9.9.9", "x:1")
    assert counted_caller(short(), inner, "inner") is None
    for other in (Principal(), Principal("shop", proof=Proof.SIGNATURE), Principal("inner", proof=Proof.ADDRESS)):
        assert counted_caller(command, other, "inner") is None
        assert counted_caller(command, other, "") is None


async def test_a_gateway_that_comes_later_hears_of_it_with_its_first_round(cluster: Secured) -> None:
    await limit(cluster, f"user:{SHOP}", sendBytes=1)
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        async with asyncio.timeout(60):
            await turns_until(gateway.users.are_counted)
        await unlimit(cluster, f"user:{SHOP}")
        async with asyncio.timeout(60):
            await turns_until(lambda: not gateway.users.are_counted())


async def test_who_is_out_of_the_loop_s_time_is_refused_behind_a_gateway_too(cluster: Secured) -> None:
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SHOP, "")
        await limit(cluster, f"user:{SHOP}", loopTime=0)
        code, said = await sender(gateway, "remoting", SHOP)()
        assert code == BUSY
        assert f"user:{SHOP} is 0 milliseconds of the event loop" in said
        assert (await sender(gateway, "remoting", OTHER)())[0] == OK
