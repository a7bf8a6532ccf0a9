"""Rights that are taken back while a gateway looks for the way of a request: that counts before it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from pyromq.protocol.command import Command
from pyromq.protocol.grpc import v2
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.client import RemotingClient
from tests.access.matrix import signed
from tests.gateway.running import consumer, gateway_before
from tests.gateway.secured import GATE, PASSWORD, SHOP, Secured, secured
from tests.gateway.test_users import ALL, UNAUTHORIZED, asked, broker_of, caller


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as made:
        await made.create_topic("T", 1)
        await made.make_user(broker_of(made), *ALL)
        yield made


async def test_a_send_goes_nowhere_once_its_user_is_gone_while_its_way_is_looked_for(
    cluster: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"producerGroup": "P", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
    fields |= {"queueId": "0", "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": ""}
    fields |= {"bname": "broker-a"}
    log = cluster.brokers["broker-a"].broker.store.commit_log
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SHOP)
        view, directory = gateway.view, gateway.users.table.directory
        address_of, open_one = view.address, RemotingClient.connect

        async def gone_meanwhile(broker: str) -> str:
            directory.delete(SHOP)
            return await address_of(broker)

        async def gone_while_connecting(self: RemotingClient, address: str) -> Any:
            found = await open_one(self, address)
            if self in gateway.tunnel._upstream.values():
                directory.delete(SHOP)
            return found

        for of, name, slow in (
            (view, "address", gone_meanwhile),
            (RemotingClient, "connect", gone_while_connecting),
        ):
            send = signed(Command(code=Code.SEND_MESSAGE, fields=dict(fields), body=b"x"), SHOP, PASSWORD)
            user, policies = directory.find(SHOP), directory.policies[SHOP]
            with monkeypatch.context() as patched:
                patched.setattr(of, name, slow)
                end = log.end
                answer = await asked(gateway.tunnel.address, send)
            assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, f"User:{SHOP} is not found.")
            assert log.end == end
            directory.cache(SHOP, user, policies)


async def test_a_heartbeat_counts_nowhere_once_its_user_is_gone_meanwhile(
    cluster: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat = HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name="p")], consumer_data_set=[])
    command = Command(code=Code.HEART_BEAT, body=Code.HEART_BEAT.takes.write_body(beat))
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SHOP)
        masters_of = gateway.view.masters

        async def gone_meanwhile() -> dict[str, str]:
            gateway.users.table.directory.delete(SHOP)
            return await masters_of()

        monkeypatch.setattr(gateway.view, "masters", gone_meanwhile)
        answer = await asked(gateway.tunnel.address, signed(command, SHOP, PASSWORD))
        assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, f"User:{SHOP} is not found.")
        assert not await cluster.has_producer("p")


async def test_who_was_forgotten_meanwhile_is_learnt_before_he_is_judged_again(
    cluster: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one who is pushed out of what is kept of users, while his pull waits."""
    limits = Command(code=Code.GET_MAX_OFFSET, fields={"topic": "T", "queueId": "0", "bname": "broker-a"})
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SHOP)
        directory, users = gateway.users.table.directory, gateway.users
        user, policies = directory.find(SHOP), directory.policies[SHOP]
        call = RemotingClient.call

        async def forgotten_meanwhile(
            self: RemotingClient, address: str, request: Command, timeout_s: float
        ) -> Command:
            answer = await call(self, address, request, timeout_s)
            if self in gateway.tunnel._upstream.values():
                directory.cache(SHOP, None, ())
            return answer

        async def learn(name: str, address: str) -> None:
            directory.cache(name, user, policies)

        monkeypatch.setattr(RemotingClient, "call", forgotten_meanwhile)
        monkeypatch.setattr(users, "is_known", lambda name: directory.find(name) is not None)
        monkeypatch.setattr(users, "learn", learn)
        answer = await asked(gateway.tunnel.address, signed(limits, SHOP, PASSWORD))
        assert answer.code == ResponseCode.SUCCESS, answer.remark


async def test_a_receive_finds_nothing_if_its_user_changes_before_it_waits(
    cluster: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster.client() as sdk, sdk.producer() as producer:
        await producer.send("T", b"not for him")
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        client = caller(gateway)
        assert (await client.say(consumer("g", "T"))).status.code == v2.Code.OK
        directory, group_of = gateway.users.table.directory, gateway.backend.group

        async def gone_meanwhile(name: str) -> Any:
            if SHOP in directory.policies:
                directory.remove(SHOP)
            return await group_of(name)

        monkeypatch.setattr(gateway.backend, "group", gone_meanwhile)
        assert await client.receive("T", "g") == []
        call, refused = client.begin("T", "g")
        await refused
        assert v2.ReceiveMessageResponse.FromString(call.answered.get_nowait()).status.code == UNAUTHORIZED
        await client.close()


async def test_a_receive_whose_answer_comes_as_its_user_changes_brings_nothing(cluster: Secured) -> None:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        client, transport = caller(gateway), gateway.session.transport
        assert (await client.say(consumer("g", "T"))).status.code == v2.Code.OK
        ask = transport.call

        async def answered(address: str, request: Command, timeout_s: float) -> Command:
            answer = await ask(address, request, timeout_s)
            if request.code == Code.POP_MESSAGE and answer.code == ResponseCode.SUCCESS:
                asyncio.get_running_loop().call_soon(gateway.backend.rights_changed, SHOP)  # this task is done then
            return answer

        transport.call = answered  # type: ignore[method-assign]
        async with cluster.client() as sdk, sdk.producer() as producer:
            await producer.send("T", b"one")
        assert await client.receive("T", "g") == []
        transport.call = ask  # type: ignore[method-assign]
        found: list[v2.Message] = []
        while not found:  # it was given back
            found = await client.receive("T", "g")
        assert [one.body for one in found] == [b"one"]
        await client.close()
    assert not faults
