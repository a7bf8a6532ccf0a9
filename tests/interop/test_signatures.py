"""The SDK's signatures at Java's broker 5.5.0 with authentication on: right ones pass, others do not."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from pyromq.client.client import Client, connect
from pyromq.client.errors import Error, Refused
from pyromq.client.produce.sending import SendPolicy
from pyromq.client.received import Received
from pyromq.model.group import ConsumeFromWhere
from tests.interop.peers import cache, java
from tests.support import require

pytestmark = [pytest.mark.interop, pytest.mark.slow]
VERSION = "5.5.0"
USER, SECRET = "rocketmq", "12345678"
PROVIDERS = "org.apache.rocketmq.auth.authentication.provider"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a name server that knows one broker, which wants every request signed."""
    try:
        java.runtime()
        java.jars(VERSION)
    except cache.PeerMissing as reason:
        require(False, str(reason))
    names = java.NameServer(VERSION, tmp_path_factory.mktemp("names"))
    settings = {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{PROVIDERS}.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{PROVIDERS}.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": json.dumps({"username": USER, "password": SECRET}),
        "innerClientAuthenticationCredentials": json.dumps({"accessKey": USER, "secretKey": SECRET}),
    }
    broker = java.Broker(VERSION, tmp_path_factory.mktemp("broker"), [names.address], settings)
    yield names.address
    broker.kill()
    names.kill()


async def until_registered(client: Client) -> None:
    for _ in itertools.count():
        if "TBW102" in await client.session.name_servers.topics():
            return
        await asyncio.sleep(0.05)


async def test_a_signed_client_sends_and_consumes(address: str) -> None:
    came = asyncio.Event()
    bodies: list[bytes] = []

    async def handle(msg: Received) -> None:
        bodies.append(msg.body)
        if len(bodies) == 12:
            came.set()

    async with (
        connect(address, access_key=USER, secret_key=SECRET) as client,
        client.producer(policy=SendPolicy(timeout_s=30)) as producer,
    ):
        await until_registered(client)
        await producer.send("signed", "Größe", tag="ü", props={"Zoll": "5 %"})
        await producer.send_many("signed", [b"%d" % number for number in range(10)])
        async with client.push_consumer("signed", handle, group="g", begin=ConsumeFromWhere.FIRST_OFFSET):
            await producer.send("signed", b"last")
            async with asyncio.timeout(60):
                await came.wait()
    assert sorted(bodies) == sorted(["Größe".encode(), *(b"%d" % number for number in range(10)), b"last"])


@pytest.mark.parametrize("keys", [{}, {"access_key": USER, "secret_key": "guessed!"}], ids=["unsigned", "wrong secret"])
async def test_without_the_secret_the_broker_refuses(address: str, keys: dict[str, Any]) -> None:
    async with (
        connect(address, **keys) as client,
        client.producer(policy=SendPolicy(timeout_s=20, retries=0)) as producer,
    ):
        await until_registered(client)
        with pytest.raises(Error) as refused:
            await producer.send("signed", b"x")
    assert isinstance(refused.value, Refused), refused.value
