"""A peer that does not read, or asks without end: memory stays bounded, others are served, in the end it is closed."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.ambient import SystemClock
from pyromq.errors import CallTimedOut, ConnectionLost
from pyromq.kernel.seam import NOTHING, Fed, FeedConnection
from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode as Code
from pyromq.testing.clock import ManualClock
from pyromq.transport.connection.buffered_bytes import BufferedBytes
from pyromq.transport.connection.connection import Connection
from pyromq.transport.dispatch import Dispatcher, Reply, Request
from pyromq.transport.limits import Limits
from pyromq.transport.memory import MemoryNetwork, pair
from pyromq.transport.server import Server
from tests.transport.support import (
    ADDRESS,
    ECHO,
    MakeClient,
    MakeServer,
    RawPeer,
    command,
    echo,
    frames,
    join,
    raw_peer,
    socket_peer,
    violations,
)

Logs = pytest.LogCaptureFixture
KIB = 1024


class Counting:
    """Answers with a body of a given size and counts."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.served: list[str] = []

    def __call__(self, request: Request) -> Reply:
        self.served.append(request.peer.address)
        return Reply(body=bytes(self.size))


def stop_reading(peer: RawPeer) -> None:
    assert peer.stream is not None
    peer.stream.pause_reading()


async def test_a_peer_that_does_not_read_is_not_served_on(make_server: MakeServer, clock: ManualClock) -> None:
    handler = Counting(10 * KIB)
    server = make_server(handler, Limits(write_high_bytes=100 * KIB))
    deaf, other = raw_peer(server, "deaf:1"), raw_peer(server, "other:1")
    stop_reading(deaf)
    for _ in range(50):  # more and more requests, in small writes
        deaf.write(frames(*(command(opaque=n) for n in range(20))))
        await clock.settle(4)
    assert handler.served.count("deaf:1") <= 20  # 100 KiB of answers, and what one flush brings
    assert server.service.buffered_bytes < 250 * KIB
    other.write(frames(command()))
    await other.answers(1)


async def test_reading_from_it_pauses(make_server: MakeServer, clock: ManualClock) -> None:
    server = make_server(Counting(10 * KIB), Limits(write_high_bytes=50 * KIB, unfinished_requests=10**6))
    near, far = pair("deaf:1", ADDRESS)
    server.attach(far)
    deaf = join(near)
    stop_reading(deaf)
    deaf.write(frames(*(command(opaque=n) for n in range(20))))
    await clock.settle()
    assert not far.is_reading()
    deaf.write(frames(*(command(opaque=n, body=bytes(10 * KIB)) for n in range(100))))
    await clock.settle()
    assert near.get_write_buffer_size() > 1000 * KIB  # it stays with the one who sends


async def test_it_goes_on_when_the_peer_reads_again(make_server: MakeServer, clock: ManualClock) -> None:
    server = make_server(Counting(10 * KIB), Limits(write_high_bytes=50 * KIB, unfinished_requests=8))
    peer = raw_peer(server)
    stop_reading(peer)
    peer.write(frames(*(command(opaque=n) for n in range(500))))
    await clock.advance(30)
    assert peer.stream is not None
    peer.stream.resume_reading()
    answers = await peer.answers(500)
    assert [each.opaque for each in answers] == list(range(500))
    assert server.service.buffered_bytes == 0
    await clock.advance(60)
    assert not peer.is_lost


async def test_a_peer_that_does_not_read_for_long_is_closed(
    make_server: MakeServer, clock: ManualClock, caplog: Logs
) -> None:
    server = make_server(Counting(10 * KIB), Limits(write_high_bytes=50 * KIB))
    deaf = raw_peer(server, "deaf:1")
    stop_reading(deaf)
    deaf.write(frames(*(command(opaque=n) for n in range(20))))
    await clock.advance(59)
    assert server.connections == 1
    await clock.advance(2)
    assert server.connections == 0
    assert violations(caplog) == [{"event": "slow peer", "peer": "deaf:1", "limit": "blocked_s", "value": 60.0}]
    assert server.service.buffered_bytes == 0


async def test_answers_that_were_on_their_way_are_bounded_too(
    make_server: MakeServer, clock: ManualClock, caplog: Logs
) -> None:
    """Handlers that wait all end at once, when the peer has long stopped reading."""

    async def later(request: Request) -> Reply:
        await clock.sleep(5)
        return Reply(body=bytes(100 * KIB))

    server = make_server(Dispatcher({ECHO: later}), Limits(write_high_bytes=50 * KIB, write_max_bytes=1000 * KIB))
    deaf = raw_peer(server, "deaf:1")
    stop_reading(deaf)
    deaf.write(frames(*(command(opaque=n) for n in range(100))))
    await clock.advance(6)
    assert server.connections == 0
    assert violations(caplog) == [
        {"event": "peer does not read", "peer": "deaf:1", "limit": "write_max_bytes", "value": 1000 * KIB}
    ]


async def test_notifications_to_a_deaf_peer_are_bounded(make_server: MakeServer, clock: ManualClock) -> None:
    held: list[Request] = []
    server = make_server(Dispatcher({ECHO: held.append}), Limits(write_high_bytes=50 * KIB, write_max_bytes=200 * KIB))
    deaf = raw_peer(server, "deaf:1")
    deaf.write(frames(command()))
    await clock.settle()
    stop_reading(deaf)
    for _ in range(100):
        held[0].peer.send(command(40, body=bytes(10 * KIB)))
        await clock.settle(2)
    assert not held[0].peer.is_open


async def test_a_peer_that_asks_without_end_is_read_no_further(make_server: MakeServer, clock: ManualClock) -> None:
    waiting: list[asyncio.Future[None]] = []

    async def later(request: Request) -> Reply:
        waiting.append(asyncio.get_running_loop().create_future())
        await waiting[-1]
        return Reply()

    server = make_server(Dispatcher({ECHO: later}), Limits(unfinished_requests=10))
    peer = raw_peer(server, chunk_bytes=100)
    peer.write(frames(*(command(opaque=n) for n in range(200))))
    await clock.settle(400)
    assert len(waiting) == 10
    for _ in range(200):
        await clock.settle(10)
        for each in waiting:
            if not each.done():
                each.set_result(None)
    assert len(await peer.answers(200)) == 200


async def test_a_close_does_not_wait_for_ever_for_a_peer_that_does_not_read(
    make_server: MakeServer, clock: ManualClock
) -> None:
    def answer_and_close(request: Request) -> None:
        request.peer.send(Reply(body=bytes(500 * KIB)).to_command(request.command))
        request.peer.close("enough")

    server = make_server(Dispatcher({ECHO: answer_and_close}))
    deaf, good = raw_peer(server, "deaf:1"), raw_peer(server, "good:1")
    stop_reading(deaf)
    for peer in (deaf, good):
        peer.write(frames(command()))
    await good.lost()
    assert len(good.received[0].body) == 500 * KIB
    await clock.advance(4)
    assert server.connections == 1
    await clock.advance(2)
    assert server.connections == 0


async def test_a_connection_with_much_to_read_lets_the_others_read_too(
    make_server: MakeServer, clock: ManualClock
) -> None:
    server = make_server(Dispatcher({ECHO: echo}))
    near, far = pair("greedy:1", ADDRESS, chunk_bytes=64 * KIB)
    server.attach(far)
    greedy = join(near)
    greedy.write(frames(command(body=bytes(250 * KIB))))
    reads = []
    while not greedy.received:
        left = near.get_write_buffer_size()
        await clock.settle(1)
        if near.get_write_buffer_size() < left:
            reads.append(far.is_reading())
    assert reads == [False, False, False, True]  # a full buffer: not again in the same pass of the loop


async def test_bodies_that_wait_are_bounded_in_bytes(make_server: MakeServer, clock: ManualClock) -> None:
    go: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def later(request: Request) -> Reply:
        await asyncio.shield(go)
        return Reply()

    server = make_server(Dispatcher({ECHO: later}), Limits(unfinished_bytes=500 * KIB))
    peer = raw_peer(server)
    peer.write(frames(*(command(opaque=n, body=bytes(50 * KIB)) for n in range(100))))
    await clock.settle(200)
    assert 500 * KIB <= server.service.buffered_bytes < 700 * KIB
    go.set_result(None)
    await peer.answers(100)
    assert server.service.buffered_bytes == 0


async def test_headers_that_wait_are_bounded_in_bytes_too(make_server: MakeServer, clock: ManualClock) -> None:
    go: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def later(request: Request) -> Reply:
        await asyncio.shield(go)
        return Reply()

    server = make_server(Dispatcher({ECHO: later}), Limits(unfinished_bytes=500 * KIB))
    peer = raw_peer(server)
    peer.write(frames(*(command(opaque=n, body=b"x" * n, text="x" * 50 * KIB) for n in range(100))))
    await clock.settle(200)
    assert 500 * KIB <= server.service.buffered_bytes < 700 * KIB
    go.set_result(None)
    await peer.answers(100)
    assert server.service.buffered_bytes == 0


async def test_all_peers_together_are_bounded(make_server: MakeServer, clock: ManualClock, caplog: Logs) -> None:
    """Each holds little, a frame that never ends; together they may not hold more than held_bytes."""
    server = make_server(Dispatcher({ECHO: echo}), Limits(held_bytes=1000 * KIB))
    wire = frames(command(body=bytes(500 * KIB)))
    peers = [raw_peer(server, f"slow{n}:1") for n in range(20)]
    for peer in peers:
        peer.write(wire[: 100 * KIB])
    await clock.settle()
    assert 0 < server.service.buffered_bytes <= 1000 * KIB
    assert sum(not peer.is_lost for peer in peers) == 10
    line = violations(caplog)[0]
    assert (line["event"], line["limit"], line["value"]) == ("too much held for peers", "held_bytes", 1000 * KIB)
    for peer in peers:
        assert peer.stream is not None
        peer.stream.abort()
    await clock.settle()
    assert server.service.buffered_bytes == 0


async def test_a_peer_whose_frames_end_goes_on_while_others_fill_what_may_be_held(
    make_server: MakeServer, clock: ManualClock
) -> None:
    """Over both listeners of a daemon. Who has stalled longest goes, not who happens to send when it is full."""
    held = BufferedBytes(1000 * KIB)
    main = make_server(Dispatcher({ECHO: echo}), buffered=held)
    fast = make_server(Dispatcher({ECHO: echo}), buffered=held, address="server:2")
    wire = frames(command(body=bytes(200 * KIB)))
    stalled = [raw_peer(server, f"stalled{n}:1") for n in range(5) for server in (main, fast)]
    for peer in stalled:
        peer.write(wire[: 99 * KIB])
        await clock.advance(1)
    honest = raw_peer(main, "honest:1")
    for number in range(20):
        honest.write(wire[: 150 * KIB])
        await clock.settle()
        assert held.total <= 1000 * KIB
        honest.write(wire[150 * KIB :])
        await honest.answers(number + 1)
    lost = [peer.is_lost for peer in stalled]
    assert lost == sorted(lost, reverse=True)  # as many as were needed, the first ones
    assert 3 <= sum(lost) <= 5


async def test_peers_are_cut_off_in_shares_so_that_the_loop_goes_on() -> None:
    class Small:
        buffered, is_open = 0, True

        def __init__(self, since: float) -> None:
            self.since = since

        def stalled_since(self) -> float:
            return self.since

        def violation(self, event: str, **fields: object) -> None:
            self.is_open = False

    held = BufferedBytes(10_000)
    holders = [Small(1.0) for _ in range(1000)]
    for holder in holders:
        held.change(holder, 10)
    for expected in (64, 128):
        held.change(Small(2.0), 5_000)
        assert sum(not holder.is_open for holder in holders) == expected


async def test_many_peers_may_leave_less_unread_each() -> None:
    held = BufferedBytes(64 << 20)
    marks = [held.add_stream(1 << 20) for _ in range(1000)]
    assert (marks[0], marks[-1]) == (1 << 20, 64 * KIB)
    assert sum(marks) < 192 << 20
    for _ in range(1000):
        held.remove_stream()
    assert held.add_stream(1 << 20) == 1 << 20


async def test_without_memory_for_what_came_the_connection_ends_and_who_has_stalled_goes_too(
    make_server: MakeServer, clock: ManualClock, caplog: Logs
) -> None:
    def feed(connection: FeedConnection, data: memoryview) -> Fed:
        if bytes(data[-4:]) == b"LAST":
            raise MemoryError
        return NOTHING

    server = make_server(Dispatcher({ECHO: echo}), feed=feed)
    stalled = raw_peer(server, "stalled:1")
    stalled.write(frames(command(body=bytes(500 * KIB)))[: 400 * KIB])
    await clock.advance(1)
    unlucky, other = raw_peer(server, "unlucky:1"), raw_peer(server, "other:1")
    unlucky.write(frames(command(body=b"LAST")))
    await unlucky.lost()
    await stalled.lost()
    other.write(frames(command()))
    await other.answers(1)
    assert [line["event"] for line in violations(caplog)] == [
        "no memory for a peer",
        "no memory: too much is held for peers",
    ]
    assert server.service.buffered_bytes == 0


async def test_a_feed_that_has_its_own_peer_cut_off_leaves_nothing_counted(
    make_server: MakeServer, clock: ManualClock
) -> None:
    def feed(connection: FeedConnection, data: memoryview) -> Fed:
        if b"LAST" in bytes(data):
            assert isinstance(connection, Connection)
            connection.abort("too much held for peers")
        return NOTHING

    server = make_server(Dispatcher({ECHO: echo}), feed=feed)
    for first, rest in ((0, 3), (100, 0), (100, 3)):  # bytes of a frame before the last, and of one behind it
        peer = raw_peer(server, f"peer:{first + rest}")
        wire = frames(command(), command(body=b"LAST" * 100), command())
        last = len(frames(command()))
        peer.write(wire[: last + first])
        await clock.settle()
        peer.write(wire[last + first : len(wire) - last + rest])
        await peer.lost()
        assert server.service.buffered_bytes == 0


async def test_a_handler_without_memory_refuses_its_request(make_server: MakeServer, caplog: Logs) -> None:
    def greedy(request: Request) -> Reply:
        raise MemoryError

    peer = raw_peer(make_server(Dispatcher({ECHO: greedy})))
    peer.write(frames(command()))
    (answer,) = await peer.answers(1)
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert "no memory for this request" in (answer.remark or "")
    assert [line["event"] for line in violations(caplog)] == ["request refused: no memory for it"]


async def test_our_own_calls_wait_for_a_server_that_does_not_read(
    make_server: MakeServer, make_client: MakeClient, clock: ManualClock
) -> None:
    class Deaf(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.pause_reading()  # type: ignore[attr-defined]

    def attach(stream: asyncio.Transport) -> None:
        protocol = Deaf()
        stream.set_protocol(protocol)
        protocol.connection_made(stream)

    network = MemoryNetwork()
    network.listen(ADDRESS, attach)
    client = make_client(connect=network.connect, limits=Limits(write_high_bytes=100 * KIB))
    calls = [asyncio.create_task(client.call(ADDRESS, command(body=bytes(10 * KIB)), timeout_s=5)) for _ in range(100)]
    oneway = asyncio.create_task(client.send(ADDRESS, command()))
    await clock.advance(1)
    peer = await client.connect(ADDRESS)
    buffered = peer._stream.get_write_buffer_size()  # type: ignore[union-attr]
    assert buffered < 300 * KIB  # of a megabyte
    late = [asyncio.create_task(client.call(ADDRESS, command(body=bytes(10 * KIB)), timeout_s=3)) for _ in range(100)]
    await clock.advance(1)
    assert buffered == peer._stream.get_write_buffer_size()  # type: ignore[union-attr]
    await clock.advance(5)
    for call in (*calls, *late):
        with pytest.raises(CallTimedOut):
            await call
    await clock.advance(60)
    with pytest.raises(ConnectionLost, match="slow peer"):
        await oneway


async def test_a_real_socket_that_is_not_read_does_not_make_memory_grow() -> None:
    handler = Counting(64 * KIB)
    server = Server(handler, clock=SystemClock(), limits=Limits(write_high_bytes=256 * KIB))
    address = await server.start("127.0.0.1", 0)
    deaf, other = await socket_peer(address), await socket_peer(address)
    stop_reading(deaf)
    requests = frames(*(command(Code.PULL_MESSAGE, opaque=n) for n in range(100)))
    for _ in range(20):
        deaf.write(requests)
        other.write(frames(command()))
        await other.answers(len(other.received) + 1)
    await other.until(lambda: len(other.received) == 20)
    # What the two kernels buffer for a socket, a few megabytes, may have been served; 2000 answers are 128 MB.
    assert server.service.buffered_bytes < 2 * 256 * KIB
    assert len(handler.served) < 500
    deaf.stream.abort()  # type: ignore[union-attr]
    await server.stop(grace_s=10)


async def test_a_real_socket_is_cut_off_when_its_write_buffer_is_full(caplog: Logs) -> None:
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    go, all_there, asked = asyncio.Event(), asyncio.Event(), []

    async def later(request: Request) -> Reply:
        asked.append(request)
        if len(asked) == 100:
            all_there.set()
        await go.wait()
        return Reply(body=bytes(1 << 20))

    limits = Limits(write_high_bytes=256 * KIB, write_max_bytes=8 << 20)
    server = Server(later, clock=SystemClock(), limits=limits, on_close=lambda _: gone.set_result(None))
    deaf = await socket_peer(await server.start("127.0.0.1", 0))
    stop_reading(deaf)
    deaf.write(frames(*(command(opaque=n) for n in range(100))))
    await all_there.wait()
    go.set()
    await gone
    assert [(each["event"], each["limit"]) for each in violations(caplog)] == [
        ("peer does not read", "write_max_bytes")
    ]
    assert server.service.buffered_bytes == 0
    deaf.stream.abort()  # type: ignore[union-attr]
    await server.stop(grace_s=10)


async def test_who_has_not_spoken_is_no_peer_yet(make_server: MakeServer, clock: ManualClock) -> None:
    """Nothing is sent to it: whether it wants TLS is known by its first byte."""
    server = make_server(Dispatcher({ECHO: echo}))
    silent, speaking = raw_peer(server, "silent:1"), raw_peer(server, "speaking:1")
    speaking.write(frames(command()))
    await speaking.answers(1)
    assert server.connections == 2
    assert [peer.address for peer in server.peers()] == ["speaking:1"]
    assert not silent.is_lost
