"""The kernel seam: a small kernel that answers some frames itself, parks others, and leaves the rest to Python."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from pyromq.kernel.seam import Fed, FeedConnection, PendingReply, feed_nothing
from pyromq.protocol.command import RESPONSE_FLAG, Command, decode_header
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.requests import RequestCode as Code
from pyromq.testing.clock import ManualClock
from pyromq.transport.dispatch import Dispatcher, Reply, Request
from pyromq.transport.limits import Limits
from pyromq.transport.memory import MemoryStream
from tests.transport.support import MakeServer, RawPeer, command, echo, frames, raw_peer, violations

SEND = int(Code.SEND_MESSAGE_V2)
QUERY = int(Code.GET_MAX_OFFSET)


class SmallKernel:
    """Keeps the contract of kernel/seam.py with a log that is a list.

    A plain send is appended, and answered when its position is readable; QUERY is answered at once; a send with the
    field `odd` is not for us, nor are later sends of that connection to its queue until Python is done.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.calls: list[bytes] = []

    def feed(self, connection: FeedConnection, received: memoryview) -> Fed:
        self.calls.append(bytes(received))
        if connection.unfinished_sends == 0:
            connection.notes = set()
        used, ready, waiting, left = 0, b"", [], []
        while len(received) - used >= 8:
            total, word = struct.unpack_from(">iI", received, used)
            if not 4 <= total <= 1 << 20 or len(received) - used < 4 + total:
                break
            frame = received[used : used + 4 + total]
            request = decode_header(0, frame[8 : 8 + (word & 0xFFFFFF)], 100)
            used += 4 + total
            if request.code == SEND and self._is_mine(connection, request):
                self.log.append(request.fields["n"])
                waiting.append(PendingReply(len(self.log), _reply(request)))
            elif request.code == QUERY:
                ready += _reply(request)
            else:
                left.append(frame)
        return Fed(used, ready, waiting, left)

    def _is_mine(self, connection: FeedConnection, request: Command) -> bool:
        assert isinstance(connection.notes, set)
        if "odd" in request.fields:
            connection.notes.add(request.fields["queue"])
        return request.fields["queue"] not in connection.notes


def _reply(request: Command) -> bytes:
    return encode_frame(Command(code=0, opaque=request.opaque, flag=RESPONSE_FLAG, remark="kernel"))


def send(n: int, queue: str = "0", **fields: Any) -> Command:
    return command(SEND, opaque=n, n=str(n), queue=queue, **fields)


async def test_the_default_handles_nothing(make_server: MakeServer) -> None:
    server = make_server(Dispatcher({QUERY: echo}), feed=feed_nothing)
    peer = raw_peer(server)
    peer.write(frames(command(opaque=5)))
    await peer.answers(1)
    assert peer.opaques == [5]


@pytest.mark.parametrize("chunk_bytes", [1, 5, 100, 1 << 16])
async def test_a_feed_that_took_everything_says_its_answers_alone(make_server: MakeServer, chunk_bytes: int) -> None:
    def short(connection: FeedConnection, received: memoryview) -> Fed | bytes:
        fed = SmallKernel().feed(connection, received)
        return fed.ready if fed.used == len(received) else fed

    server = make_server(Dispatcher({}), feed=short)
    peer = raw_peer(server, chunk_bytes=chunk_bytes)
    for first in (1, 4):
        peer.write(frames(*(command(QUERY, opaque=first + n) for n in range(3))))
        await peer.answers(first + 2)
    assert peer.opaques == [1, 2, 3, 4, 5, 6]
    assert len(list(server.peers())) == 1


@pytest.mark.parametrize("chunk_bytes", [1, 5, 100, 1 << 16])
async def test_kernel_and_python_share_a_connection(
    make_server: MakeServer, clock: ManualClock, chunk_bytes: int
) -> None:
    kernel = SmallKernel()
    server = make_server(Dispatcher({Code.HEART_BEAT: lambda _: Reply(remark="python")}), feed=kernel.feed)
    peer = raw_peer(server, chunk_bytes=chunk_bytes)
    peer.write(frames(send(1), command(Code.HEART_BEAT, opaque=2), command(QUERY, opaque=3), send(4)))
    await peer.answers(2)
    await clock.settle()
    assert sorted((each.opaque, each.remark) for each in peer.received) == [(2, "python"), (3, "kernel")]
    assert kernel.log == ["1", "4"]
    server.service.release(readable=1)
    await peer.answers(3)
    assert peer.opaques[2:] == [1]
    server.service.release(readable=2)
    await peer.answers(4)
    assert peer.opaques[2:] == [1, 4]


async def test_waiting_replies_leave_when_readable_passes_their_position(
    make_server: MakeServer, clock: ManualClock
) -> None:
    kernel = SmallKernel()
    server = make_server(Dispatcher({}), feed=kernel.feed)
    one, two = raw_peer(server, "one:1"), raw_peer(server, "two:1")
    one.write(frames(send(1), send(2)))
    await clock.settle()
    two.write(frames(send(3)))
    await clock.settle()
    assert (one.opaques, two.opaques) == ([], [])
    server.service.release(readable=1)
    await clock.settle()
    assert (one.opaques, two.opaques) == ([1], [])
    server.service.release(readable=3)
    await clock.settle()
    assert (one.opaques, two.opaques) == ([1, 2], [3])


async def test_the_unfinished_end_comes_again_in_front_of_what_follows(
    make_server: MakeServer, clock: ManualClock
) -> None:
    kernel = SmallKernel()
    server = make_server(Dispatcher({}), feed=kernel.feed)
    peer = raw_peer(server)
    wire = frames(send(1), send(2))
    cut = len(frames(send(1))) + 10
    peer.write(wire[:cut])
    await clock.settle()
    peer.write(wire[cut:])
    await clock.settle()
    assert kernel.calls == [wire[:cut], wire[len(frames(send(1))) :]]
    assert kernel.log == ["1", "2"]


async def test_a_large_frame_in_small_pieces_is_shown_once_it_may_be_complete(
    make_server: MakeServer, clock: ManualClock
) -> None:
    kernel = SmallKernel()
    server = make_server(Dispatcher({Code.HEART_BEAT: lambda _: Reply()}), feed=kernel.feed)
    peer = raw_peer(server, chunk_bytes=100)
    peer.write(frames(command(Code.HEART_BEAT, body=bytes(10_000))))
    await peer.answers(1)
    assert [len(each) for each in kernel.calls] == [100, len(frames(command(Code.HEART_BEAT, body=bytes(10_000))))]


async def test_order_per_queue_holds_between_python_and_the_kernel(make_server: MakeServer, clock: ManualClock) -> None:
    kernel = SmallKernel()
    may_go_on: list[Request] = []

    async def slow_send(request: Request) -> Reply:
        may_go_on.append(request)
        await clock.sleep(5)
        kernel.log.append(request.command.fields["n"])
        return Reply(remark="python")

    server = make_server(Dispatcher({SEND: slow_send}), feed=kernel.feed)
    peer = raw_peer(server)
    peer.write(frames(send(1), send(2, odd="x"), send(3), send(4, queue="7")))
    await clock.settle()
    peer.write(frames(send(5), send(6, queue="7")))  # another read: 2 and 3 are still with Python
    await clock.settle()
    assert kernel.log == ["1", "4", "6"]
    assert [request.command.fields["n"] for request in may_go_on] == ["2", "3", "5"]
    await clock.advance(5)
    assert kernel.log == ["1", "4", "6", "2", "3", "5"]
    peer.write(frames(send(8)))  # all is finished, the kernel takes the queue again
    await clock.settle()
    assert kernel.log[-1] == "8"
    assert len(may_go_on) == 3


async def test_a_kernel_may_stop_in_front_of_any_frame(make_server: MakeServer) -> None:
    def first_only(connection: FeedConnection, received: memoryview) -> Fed:
        size = 4 + int.from_bytes(received[:4])
        return Fed(size, _reply(Command(code=0, opaque=100))) if received[8:].tobytes().find(b"mine") > 0 else Fed()

    server = make_server(Dispatcher({QUERY: echo}), feed=first_only)
    peer = raw_peer(server)
    peer.write(frames(command(opaque=1, mine="1"), command(opaque=2), command(opaque=3)))
    await peer.answers(3)
    assert sorted(peer.opaques) == [2, 3, 100]


async def test_a_kernel_that_fails_ends_the_connection_and_nothing_else(
    make_server: MakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(connection: FeedConnection, received: memoryview) -> Fed:
        if connection.address == "bad:1":
            raise RuntimeError("a fault of the kernel")
        return Fed()

    server = make_server(Dispatcher({QUERY: echo}), feed=broken)
    bad, good = raw_peer(server, "bad:1"), raw_peer(server, "good:1")
    bad.write(frames(command()))
    await bad.lost()
    good.write(frames(command()))
    await good.answers(1)
    assert [each["event"] for each in violations(caplog)] == ["receiving failed"]


async def test_replies_for_a_connection_that_is_gone_are_dropped(make_server: MakeServer, clock: ManualClock) -> None:
    kernel = SmallKernel()
    server = make_server(Dispatcher({}), feed=kernel.feed)
    gone, here = raw_peer(server, "gone:1"), raw_peer(server, "here:1")
    for peer in (gone, here):
        peer.write(frames(send(1)))
    await clock.settle()
    assert gone.stream is not None
    gone.stream.abort()
    await clock.settle()
    server.service.release(readable=2)
    await here.answers(1)


async def test_a_stopping_server_waits_for_parked_replies_and_leaves_the_kernel_alone(
    make_server: MakeServer, clock: ManualClock
) -> None:
    kernel = SmallKernel()
    server = make_server(Dispatcher({}), feed=kernel.feed)
    peer = raw_peer(server)
    peer.write(frames(send(1)))
    await clock.settle()
    stopping = asyncio.create_task(server.stop(grace_s=30))
    await clock.settle()
    peer.write(frames(send(2)))
    refused = (await peer.answers(1))[0]
    assert (refused.opaque, refused.remark) == (2, "this server is stopping: use another one, or try again later")
    assert kernel.log == ["1"]
    server.service.release(readable=1)
    await stopping
    await peer.lost()
    assert peer.opaques == [2, 1]


async def test_the_length_words_are_checked_behind_the_kernel(
    make_server: MakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = SmallKernel()
    server = make_server(Dispatcher({}), Limits(), feed=kernel.feed)
    peer: RawPeer = raw_peer(server)
    peer.write(frames(send(1)) + struct.pack(">iI", 1 << 30, 10))
    await peer.lost()
    assert kernel.log == ["1"]
    assert "frame length 1073741824 is outside" in str(violations(caplog)[0]["fault"])


async def test_a_log_that_does_not_become_readable_holds_up_its_writers(
    make_server: MakeServer, clock: ManualClock
) -> None:
    """The disk stands still: parked replies stay bounded, since their peer is read no further."""
    kernel = SmallKernel()
    server = make_server(Dispatcher({}), Limits(write_high_bytes=2000), feed=kernel.feed)
    peer = raw_peer(server, chunk_bytes=500)
    peer.write(frames(*(send(n) for n in range(300))))
    await clock.settle(300)
    taken = len(kernel.log)
    assert 2000 < server.service.buffered_bytes < 4000
    assert taken < 50
    for _ in range(100):
        server.service.release(readable=len(kernel.log))
        await clock.settle()
    assert peer.opaques == list(range(300))
    assert server.service.buffered_bytes == 0


async def test_all_answers_to_a_buffer_leave_in_one_write(
    make_server: MakeServer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = SmallKernel()
    server = make_server(Dispatcher({Code.HEART_BEAT: lambda _: Reply(remark="python")}), feed=kernel.feed)
    peer = raw_peer(server)
    written: list[bytes] = []
    write: Callable[..., None] = MemoryStream.write

    def counted(stream: MemoryStream, data: bytes) -> None:
        written.append(bytes(data))
        write(stream, data)

    monkeypatch.setattr(MemoryStream, "write", counted)
    of_the_kernel = [command(QUERY, opaque=n) for n in range(50)]
    of_python = [command(Code.HEART_BEAT, opaque=n) for n in range(20)]
    # Of both: the kernel's need not wait for Python's turn.
    for buffer, writes in ((of_the_kernel, 1), (of_python, 1), ([*of_the_kernel, *of_python], 2)):
        peer.received.clear()
        peer.write(frames(*buffer))
        written.clear()
        await peer.answers(len(buffer))
        assert len(written) == writes
    for n in range(20):
        peer.write(frames(send(n)))
        await clock.settle()
    written.clear()
    server.service.release(readable=20)  # a sync serves all that wait
    await clock.settle()
    assert len(written) == 1
