"""The same over real sockets on loopback: what streams in memory cannot show."""

from __future__ import annotations

import random

import pytest

from pyromq.ambient import SystemClock
from pyromq.errors import ConfigError, ConnectionLost
from pyromq.transport.client import Client
from pyromq.transport.dispatch import Dispatcher
from pyromq.transport.server import Server
from tests.transport.support import ECHO, command, echo, frames, socket_peer


async def test_a_call_over_a_socket() -> None:
    server = Server(Dispatcher({ECHO: echo}), clock=SystemClock())
    address = await server.start("127.0.0.1", 0)
    async with Client(clock=SystemClock(), rng=random.Random(7)) as client:
        for size in (0, 1, 100_000, 5_000_000):
            response = await client.call(address, command(body=bytes(size)), timeout_s=30)
            assert len(response.body) == size
        assert server.connections == 1
    await server.stop(grace_s=5)


async def test_ipv6() -> None:
    server = Server(Dispatcher({ECHO: echo}), clock=SystemClock())
    address = await server.start("::1", 0)
    assert address.startswith("[::1]:")
    async with Client(clock=SystemClock(), rng=random.Random(7)) as client:
        assert (await client.call(address, command(n="1"), timeout_s=30)).fields == {"n": "1"}
        assert [peer.address.startswith("[::1]:") for peer in server.peers()] == [True]
    await server.stop(grace_s=5)


async def test_a_port_in_use_is_named() -> None:
    first = Server(Dispatcher({}), clock=SystemClock())
    port = int((await first.start("127.0.0.1", 0)).rpartition(":")[2])
    second = Server(Dispatcher({}), clock=SystemClock())
    with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1 is in use: choose another port"):
        await second.start("127.0.0.1", port)
    await first.stop(grace_s=1)


async def test_a_stopped_server_takes_no_connections() -> None:
    server = Server(Dispatcher({ECHO: echo}), clock=SystemClock())
    address = await server.start("127.0.0.1", 0)
    peer = await socket_peer(address)
    peer.write(frames(command()))
    await peer.answers(1)
    await server.stop(grace_s=5)
    await peer.lost()
    async with Client(clock=SystemClock(), rng=random.Random(7)) as client:
        with pytest.raises(ConnectionLost, match="cannot connect"):
            await client.call(address, command(), timeout_s=30)
