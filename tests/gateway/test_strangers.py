"""A gateway before a secured cluster knows strangers too, though it has to ask the cluster who somebody is."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from pyromq.ambient import SystemClock
from pyromq.errors import ConnectionLost
from pyromq.gateway.server import Gateway
from pyromq.protocol.command import Command
from pyromq.protocol.grpc import v2
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.client import RemotingClient
from pyromq.transport.connection.strangers import Strangers
from tests.access.matrix import is_refused, signed
from tests.access.test_grpc_calls import ask, credentials
from tests.access.test_users import allow
from tests.gateway.running import gateway_before
from tests.gateway.secured import GATE, PASSWORD, SHOP, secured

FEW: dict[str, Any] = {"stranger_refusals": 3}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with secured(tmp_path) as cluster:
        await cluster.create_topic("T", 1)
        await cluster.make_user(cluster.brokers["broker-a"].address, allow("Topic:T", "Pub", "Sub"))
        async with gateway_before(*cluster.name_servers, **(GATE | FEW)) as gateway:
            yield gateway


def strangers_of(gateway: Gateway) -> Strangers:
    found = gateway.servers[0].strangers
    assert found is not None
    assert all(server.strangers is found for server in gateway.servers)
    return found


async def test_by_remoting(gateway: Gateway) -> None:
    strangers, address = strangers_of(gateway), gateway.tunnel.address
    route = {"topic": "T"}
    async with RemotingClient(clock=SystemClock(), rng=random.Random(3)) as client:
        asked = signed(Command(code=Code.GET_ROUTEINFO_BY_TOPIC, fields=route), SHOP, PASSWORD)
        assert (await client.call(address, asked, 20)).code == 0
        assert strangers.connections == 0
    async with RemotingClient(clock=SystemClock(), rng=random.Random(3)) as client:
        for _ in range(2):
            wrong = signed(Command(code=Code.GET_ROUTEINFO_BY_TOPIC, fields=route), SHOP, "guessed")
            assert is_refused(await client.call(address, wrong, 20))
            assert strangers.connections == 1
        wrong = signed(Command(code=Code.GET_ROUTEINFO_BY_TOPIC, fields=route), SHOP, "guessed")
        with pytest.raises(ConnectionLost):
            await client.call(address, wrong, 20)
    assert strangers.refused == {"stranger_refusals": 1}


async def test_by_calls(gateway: Gateway) -> None:
    strangers = strangers_of(gateway)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{gateway.backend.port}") as channel:
        assert await ask(channel, "QueryRoute", []) == v2.Code.UNAUTHORIZED
        assert await ask(channel, "QueryRoute", credentials(SHOP, PASSWORD)) == v2.Code.OK  # who that is is learnt now
        assert await ask(channel, "QueryRoute", credentials(SHOP, PASSWORD)) == v2.Code.OK
        assert strangers.connections == 0
    async with grpc.aio.insecure_channel(f"127.0.0.1:{gateway.backend.port}", [("x", 1)]) as channel:
        for _ in range(2):
            assert await ask(channel, "QueryRoute", credentials(SHOP, "guessed")) == v2.Code.UNAUTHORIZED
        assert await ask(channel, "QueryRoute", credentials(SHOP, "guessed")) == 0  # the session was closed
    assert strangers.refused == {"stranger_refusals": 1}
