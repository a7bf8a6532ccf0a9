"""A stopping server: nothing new, what is in flight is finished, then the end; and an end in any case."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings

import pytest

from pyromq.ambient import SystemClock
from pyromq.model.client_info import Version
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.testing.clock import ManualClock
from pyromq.transport.dispatch import Dispatcher, Reply, Request
from pyromq.transport.limits import Limits
from pyromq.transport.peer import Peer
from pyromq.transport.server import Server
from tests.transport.support import ECHO, MakeServer, command, echo, frames, raw_peer, violations


async def test_what_is_in_flight_is_finished_and_written(make_server: MakeServer, clock: ManualClock) -> None:
    async def slow(request: Request) -> Reply:
        await clock.sleep(5)
        return Reply(body=bytes(500_000))

    server = make_server(Dispatcher({ECHO: slow}))
    peer = raw_peer(server)
    peer.write(frames(command(opaque=1), command(opaque=2)))
    await clock.advance(1)
    stopping = asyncio.create_task(server.stop(grace_s=30))
    await clock.advance(3)
    assert not stopping.done()
    await clock.advance(2)
    await stopping
    await peer.lost()
    assert [(each.opaque, len(each.body)) for each in peer.received] == [(1, 500_000), (2, 500_000)]


async def test_new_requests_are_refused_in_words_that_the_client_knows(
    make_server: MakeServer, clock: ManualClock
) -> None:
    async def slow(request: Request) -> Reply:
        await clock.sleep(5)
        return Reply()

    server = make_server(Dispatcher({ECHO: slow}))
    peer = raw_peer(server)
    peer.write(frames(command(opaque=1)))
    await clock.settle()
    stopping = asyncio.create_task(server.stop(grace_s=30))
    await clock.settle()
    peer.write(frames(Command(code=ECHO, opaque=2, version=Version.V5_5_0)))
    peer.write(frames(Command(code=ECHO, opaque=3, version=Version.V4_9_4)))
    await clock.advance(6)
    await stopping
    assert [(each.opaque, each.code) for each in peer.received] == [
        (2, ResponseCode.GO_AWAY),
        (3, ResponseCode.SERVICE_NOT_AVAILABLE),
        (1, ResponseCode.SUCCESS),
    ]


async def test_a_handler_may_still_ask_its_client_while_the_server_stops(
    make_server: MakeServer, clock: ManualClock
) -> None:
    async def ask(request: Request) -> Reply:
        await clock.sleep(1)
        answer = await request.peer.call(command(40), timeout_s=10)
        return Reply(remark=answer.remark)

    server = make_server(Dispatcher({ECHO: ask}))
    peer = raw_peer(server)
    peer.write(frames(command(opaque=1)))
    await clock.settle()
    stopping = asyncio.create_task(server.stop(grace_s=30))
    await clock.advance(1)
    question = peer.received[0]
    peer.write(frames(Reply(remark="still here").to_command(question)))
    await stopping
    await peer.lost()
    assert peer.received[1].remark == "still here"


async def test_after_the_grace_everything_is_cut_off(
    make_server: MakeServer, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []
    gone: list[Peer] = []

    async def for_ever(request: Request) -> Reply:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("cancelled")
        return Reply()

    server = make_server(Dispatcher({ECHO: for_ever}), on_close=gone.append)
    peer = raw_peer(server)
    peer.write(frames(command(opaque=1)))
    await clock.settle()
    stopping = asyncio.create_task(server.stop(grace_s=10))
    await clock.advance(11)
    await stopping
    await peer.lost()
    assert ended == ["cancelled"]
    assert len(gone) == 1
    assert [each["event"] for each in violations(caplog)] == ["stopped before all requests were finished"]
    assert clock.timers == 0


async def test_a_peer_that_does_not_read_cannot_hold_up_the_end(make_server: MakeServer, clock: ManualClock) -> None:
    server = make_server(Dispatcher({ECHO: lambda _: Reply(body=bytes(10_000))}), Limits(write_high_bytes=20_000))
    deaf = raw_peer(server)
    assert deaf.stream is not None
    deaf.stream.pause_reading()
    deaf.write(frames(*(command(opaque=n) for n in range(50))))
    await clock.settle()
    stopping = asyncio.create_task(server.stop(grace_s=10))
    await clock.advance(11)
    await stopping
    assert server.connections == 0


async def test_an_idle_server_stops_at_once_and_twice(make_server: MakeServer) -> None:
    server = make_server(Dispatcher({ECHO: echo}))
    peer = raw_peer(server)
    peer.write(frames(command()))
    await peer.answers(1)
    await server.stop(grace_s=10)
    await server.stop(grace_s=10)
    await peer.lost()


async def test_a_connection_that_comes_while_it_stops_is_refused(make_server: MakeServer, clock: ManualClock) -> None:
    server = make_server(Dispatcher({ECHO: echo}))
    await server.stop(grace_s=1)
    late = raw_peer(server)
    await late.lost()


@pytest.mark.parametrize("passes", range(6))
async def test_a_connection_that_comes_at_the_last_moment_leaves_no_socket_open(passes: int) -> None:
    """At whichever step of being accepted it is. asyncio forgets one whose listener is closed in between."""
    server = Server(Dispatcher({}), clock=SystemClock())
    host, _, port = (await server.start("127.0.0.1", 0)).rpartition(":")
    with socket.create_connection((host, int(port))), warnings.catch_warnings(record=True) as leaks:
        warnings.simplefilter("always")
        for _ in range(passes):
            await asyncio.sleep(0)
        await server.stop(grace_s=1)
        gc.collect()
    assert [str(each.message) for each in leaks if each.category is ResourceWarning] == []
