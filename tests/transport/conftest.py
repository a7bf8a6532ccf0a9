"""Every asynchronous test of this folder runs on both event loops."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from pyromq.testing.clock import ManualClock
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Handler
from pyromq.transport.limits import Limits
from pyromq.transport.memory import MemoryNetwork
from pyromq.transport.server import Server
from tests.transport.support import ADDRESS, MakeClient, MakeServer


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def network() -> MemoryNetwork:
    return MemoryNetwork()


@pytest.fixture
async def make_server(clock: ManualClock, network: MemoryNetwork) -> AsyncIterator[MakeServer]:
    """Servers that listen on the in-memory network and are stopped after the test."""
    servers: list[Server] = []

    def make(dispatch: Handler, limits: Limits | None = None, address: str = ADDRESS, **options: object) -> Server:
        server = Server(dispatch, clock=clock, limits=limits, **options)  # type: ignore[arg-type]
        servers.append(server)
        network.listen(address, server.attach)
        return server

    yield make
    for server in servers:
        stopping = asyncio.create_task(server.stop(grace_s=1))
        await clock.advance(2)
        await stopping


@pytest.fixture
async def make_client(clock: ManualClock, network: MemoryNetwork) -> AsyncIterator[MakeClient]:
    clients: list[RemotingClient] = []

    def make(**options: object) -> RemotingClient:
        client = RemotingClient(clock=clock, rng=random.Random(7), **({"connect": network.connect} | options))  # type: ignore[arg-type]
        clients.append(client)
        return client

    yield make
    for client in clients:
        closing = asyncio.create_task(client.close())
        await clock.advance(10)
        await closing
