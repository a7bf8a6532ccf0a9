"""Users at our gateway: Apache's gRPC clients with credentials through it, and Apache's broker behind it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.ambient import SystemClock, system_random
from pyromq.protocol.command import Command
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code
from pyromq.protocol.requests import RequestCode
from pyromq.transport.client import RemotingClient
from tests.access.matrix import signed
from tests.access.test_users import allow
from tests.gateway.running import Caller, consumer, gateway_before
from tests.gateway.secured import GATE, PASSWORD, SHOP, secured
from tests.gateway.test_users import broker_of, caller
from tests.support import free_ports

from .conftest import needed
from .peers import java
from .peers.grpc_clients import CLIENTS
from .peers.process import ProgramFailed
from .secured import JAVA_SETTINGS

pytestmark = pytest.mark.interop
ADMIN, SECRET = "rocketmq", "12345678"
SETTINGS = JAVA_SETTINGS | {
    "timerWheelEnable": "true",
    "initAuthenticationUser": json.dumps({"username": ADMIN, "password": SECRET}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": ADMIN, "secretKey": SECRET}),
}


@pytest.mark.parametrize("name", ["node", "java-5.2.0"])
async def test_a_client_with_credentials_goes_through_to_a_secured_cluster(
    name: str, tmp_path: Path, home: Callable[[str], Path]
) -> None:
    needed(CLIENTS[name].start)
    (port,) = free_ports(1)
    signing = CLIENTS[name].told(CLIENT_KEY=SHOP, CLIENT_SECRET=PASSWORD)
    async with secured(tmp_path, brokers=2) as cluster:
        await cluster.create_topic("T", 1, attributes="+message.type=NORMAL")
        await cluster.create_topic("Other", 1, attributes="+message.type=NORMAL")
        await cluster.make_user(broker_of(cluster), allow("Topic:T", "Pub", "Sub"), allow("Group:g", "Sub"))
        async with gateway_before(*cluster.name_servers, listen_port=port, **GATE):
            endpoint, bodies = f"127.0.0.1:{port}", [f"body {number}" for number in range(6)]
            await asyncio.to_thread(signing.send, endpoint, "T", "TagA", bodies, home=home("user"))
            received = await asyncio.to_thread(signing.simple, endpoint, "T", "g", "*", 6, home=home("user"))
            assert sorted(one["body"] for one in received) == bodies
            guessing = CLIENTS[name].told(CLIENT_KEY=SHOP, CLIENT_SECRET="guessed")
            for client, topic in ((signing, "Other"), (guessing, "T")):
                with pytest.raises(ProgramFailed):
                    await asyncio.to_thread(client.send, endpoint, topic, "TagA", ["x"], home=home("stranger"))


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Apache's name server and its broker, which asks everybody who he is."""
    needed(java.runtime)
    names = java.NameServer("5.5.0", tmp_path_factory.mktemp("names"))
    broker = java.Broker("5.5.0", tmp_path_factory.mktemp("broker"), [names.address], SETTINGS)
    yield names.address, broker.address
    broker.kill()
    names.kill()


async def administer(broker: str, code: int, body: Any = None, **fields: str) -> None:
    command = Command(code=code, fields=fields, body=b"" if body is None else json.dumps(body).encode())
    async with RemotingClient(clock=SystemClock(), rng=system_random()) as client:
        answer = await client.call(broker, signed(command, ADMIN, SECRET), 20)
    assert answer.code == 0, answer.remark


async def until_answered(client: Caller, body: bytes, code: int) -> None:
    async with asyncio.timeout(60):
        for _ in itertools.count():
            if (await client.send("T", body)).status.code == code:
                return
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_users_of_apaches_broker_are_asked_for(apache: tuple[str, str]) -> None:
    names, broker = apache
    await administer(
        broker,
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        topic="T",
        defaultTopic="TBW102",
        readQueueNums="1",
        writeQueueNums="1",
        perm="6",
        topicFilterType="SINGLE_TAG",
        topicSysFlag="0",
        order="false",
        attributes="+message.type=NORMAL",
    )
    user = {"username": SHOP, "password": PASSWORD, "userType": "Normal", "userStatus": "enable"}
    await administer(broker, RequestCode.AUTH_CREATE_USER, user, username=SHOP)

    async def permit(code: int, *entries: dict[str, Any]) -> None:
        acl = {"subject": f"User:{SHOP}", "policies": [{"policyType": "Custom", "entries": list(entries)}]}
        await administer(broker, code, acl, subject=f"User:{SHOP}")

    await permit(RequestCode.AUTH_CREATE_ACL, allow("Topic:T", "Pub", "Sub"), allow("Group:g", "Sub"))
    gate = GATE | {"inner_client_authentication_credentials": SETTINGS["innerClientAuthenticationCredentials"]}
    async with gateway_before(names, user_cache_refresh_seconds=1, **gate) as gateway:
        client = caller(gateway)
        await until_answered(client, b"first", Code.OK)  # when the topic has a route
        assert (await client.send("Other", b"x")).status.code == Code.UNAUTHORIZED
        assert (await caller(gateway, SHOP, "guessed").send("T", b"x")).status.code == Code.UNAUTHORIZED
        assert (await caller(gateway, "stranger").send("T", b"x")).status.code == Code.UNAUTHORIZED
        assert (await client.say(consumer("g", "T"))).status.code == Code.OK
        received: list[v2.Message] = []
        async with asyncio.timeout(60):
            while not received:
                received = await client.receive("T", "g")
        assert await client.ack("g", *received) == Code.OK
        await permit(RequestCode.AUTH_UPDATE_ACL, allow("Topic:T", "Sub"))
        await until_answered(client, b"late", Code.UNAUTHORIZED)  # when the user is read anew
        await client.close()
