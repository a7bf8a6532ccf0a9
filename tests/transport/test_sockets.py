"""The same over real sockets on loopback: what streams in memory cannot show."""

from __future__ import annotations

import asyncio
import random
import socket

import pytest

from pyromq.ambient import SystemClock
from pyromq.errors import ConfigError, ConnectionLost
from pyromq.machine.connection_quota import ConnectionQuota
from pyromq.transport.address import parse_address
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Dispatcher
from pyromq.transport.server import Server
from tests.machine.shortage import seen, shortage, taken_descriptors
from tests.transport.support import ECHO, RawPeer, command, echo, frames, socket_peer


async def test_a_call_over_a_socket() -> None:
    server = Server(Dispatcher({ECHO: echo}), clock=SystemClock())
    address = await server.start("127.0.0.1", 0)
    async with RemotingClient(clock=SystemClock(), rng=random.Random(7)) as client:
        for size in (0, 1, 100_000, 5_000_000):
            response = await client.call(address, command(body=bytes(size)), timeout_s=30)
            assert len(response.body) == size
        assert server.connections == 1
    await server.stop(grace_s=5)


async def test_ipv6() -> None:
    server = Server(Dispatcher({ECHO: echo}), clock=SystemClock())
    address = await server.start("::1", 0)
    assert address.startswith("[::1]:")
    async with RemotingClient(clock=SystemClock(), rng=random.Random(7)) as client:
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


async def test_a_shortage_of_descriptors_makes_a_pause_and_who_waits_is_served_after_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server(Dispatcher({ECHO: echo}), clock=SystemClock())
    address = await server.start("127.0.0.1", 0)
    known = await socket_peer(address)
    late = socket.socket()
    late.setblocking(False)
    with taken_descriptors():
        late.connect_ex(("127.0.0.1", parse_address(address)[1]))
        known.write(frames(command(opaque=1)))
        await known.answers(1)
        assert await seen(lambda: "no connections are taken for a moment" in caplog.text)
        known.write(frames(command(opaque=2)))
        await known.answers(2)
    _, peer = await asyncio.get_running_loop().create_connection(RawPeer, sock=late)
    peer.write(frames(command(opaque=3)))
    await peer.answers(1)
    await server.stop(grace_s=5)


async def test_a_server_takes_no_more_sockets_than_it_has_seats(caplog: pytest.LogCaptureFixture) -> None:
    """All of them wait when the server comes to it: those beyond are closed one by one, never held together."""
    server = Server(Dispatcher({ECHO: echo}), clock=SystemClock(), quota=ConnectionQuota(5))
    port = parse_address(await server.start("127.0.0.1", 0))[1]
    waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
    with shortage(after=10):  # descriptors: five to serve, and one at a time that is closed
        peers = [(await asyncio.get_running_loop().create_connection(RawPeer, sock=one))[1] for one in waiting]
        await asyncio.gather(*(peer.lost() for peer in peers[5:]))
    assert server.connections == 5
    assert "no connections are taken" not in caplog.text
    await server.stop(grace_s=5)


async def test_a_stopped_server_takes_no_connections() -> None:
    server = Server(Dispatcher({ECHO: echo}), clock=SystemClock())
    address = await server.start("127.0.0.1", 0)
    peer = await socket_peer(address)
    peer.write(frames(command()))
    await peer.answers(1)
    await server.stop(grace_s=5)
    await peer.lost()
    async with RemotingClient(clock=SystemClock(), rng=random.Random(7)) as client:
        with pytest.raises(ConnectionLost, match="cannot connect"):
            await client.call(address, command(), timeout_s=30)
