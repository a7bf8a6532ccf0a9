"""A real gRPC client against our server over sockets: unary calls, streams, deadlines, cancels, sizes, gzip."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import grpc
import pytest

from pyromq.transport.http2.calls import Method
from tests.transport.http2.support import METHODS, SERVICE, GrpcClient, Heard, Held, failure, serving


async def test_unary_calls_are_answered() -> None:
    async with serving() as (_, address), GrpcClient(address) as client:
        assert await client.call("Upper", b"abc") == b"ABC"
        assert await client.call("Late", b"abc") == b"cba"
        assert await client.call("Upper", b"") == b""


async def test_many_calls_run_at_once_on_one_connection() -> None:
    async with serving() as (server, address), GrpcClient(address) as client:
        answers = [client.begin("Late", b"%d" % number, timeout=30) for number in range(500)]
        found = await asyncio.to_thread(lambda: [answer.result() for answer in answers])
        assert found == [(b"%d" % number)[::-1] for number in range(500)]
        assert server.connections == 1


async def test_handlers_see_who_calls() -> None:
    async with serving() as (_, address), GrpcClient(address) as client:
        metadata = (("x-mq-client-id", "me"), ("x-twice", "a"), ("x-twice", "b"))
        lines = (await client.call("Describe", b"", metadata=metadata, timeout=5)).decode().split("\n")
        assert lines[0] == SERVICE + "Describe"
        assert lines[1].startswith("127.0.0.1:")
        assert lines[2] == address
        assert "x-mq-client-id=me" in lines
        assert "x-twice=a,b" in lines
        assert lines[-1] == "deadline"
        assert (await client.call("Describe", b"", timeout=None)).decode().endswith("no deadline")


@pytest.mark.parametrize(
    ("name", "status", "text"),
    [
        ("Refuse", grpc.StatusCode.FAILED_PRECONDITION, "no: abc ü %"),
        ("Break", grpc.StatusCode.INTERNAL, "internal error, see the server's log"),
        ("Nothing", grpc.StatusCode.UNIMPLEMENTED, "Method not found: test.Service/Nothing"),
        (
            "/apache.rocketmq.v2.MessagingService/PullMessage",
            grpc.StatusCode.UNIMPLEMENTED,
            "Method apache.rocketmq.v2.MessagingService/PullMessage is unimplemented",
        ),
    ],
)
async def test_failures_have_status_and_text(name: str, status: grpc.StatusCode, text: str) -> None:
    async with serving() as (_, address), GrpcClient(address) as client:
        assert await failure(lambda: client.call(name, b"abc")) == (status, text)
        assert await client.call("Upper", b"after") == b"AFTER"


@pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 65_530, 65_536, 1 << 20, 5 << 20])
async def test_messages_of_any_size_pass_both_ways(size: int) -> None:
    message = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    async with serving() as (_, address), GrpcClient(address) as client:
        assert await client.call("Upper", message) == message.upper()


async def test_a_message_over_the_limit_of_its_method_is_refused() -> None:
    async with serving() as (_, address), GrpcClient(address) as client:
        found = await failure(lambda: client.call("Late", bytes((64 << 10) + 1)))
        assert found == (grpc.StatusCode.RESOURCE_EXHAUSTED, "gRPC message exceeds maximum size 65536: 65537")
        assert await client.call("Late", bytes(64 << 10)) == bytes(64 << 10)


async def test_gzip_is_understood() -> None:
    async with serving() as (_, address), GrpcClient(address) as client:
        assert await client.call("Upper", b"abc" * 10_000, compression=grpc.Compression.Gzip) == b"ABC" * 10_000
        found = await failure(lambda: client.call("Late", bytes(100_000), compression=grpc.Compression.Gzip))
        assert found[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        found = await failure(lambda: client.call("Upper", b"abc" * 100, compression=grpc.Compression.Deflate))
        assert found == (grpc.StatusCode.UNIMPLEMENTED, "Can't find decompressor for deflate")


async def test_streams_pass_both_ways() -> None:
    messages = [b"%d" % number * 100 for number in range(300)]
    async with serving() as (_, address), GrpcClient(address) as client:
        assert await client.stream("Echo", messages) == messages
        assert await client.stream("Echo", []) == []
        found = await client.stream("Count", [b"40 100000"])
        assert [int.from_bytes(each[:4], "big") for each in found] == list(range(40))


async def test_a_slow_reader_of_one_stream_holds_up_nobody_else() -> None:
    read_on = threading.Event()

    async with serving() as (_, address), GrpcClient(address) as client:
        answers: Iterator[bytes] = client.channel.stream_stream(SERVICE + "Count")(iter([b"200 60000"]), timeout=60)

        def read_slowly() -> int:
            first = len(next(answers))
            read_on.wait()
            return first + sum(map(len, answers))

        reading = asyncio.create_task(asyncio.to_thread(read_slowly))
        for number in range(20):
            assert await client.call("Upper", b"n%d" % number) == b"N%d" % number
        read_on.set()
        assert await reading == 200 * 60_004


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_deadline_ends_the_call_and_its_work(is_stream: bool) -> None:
    held = Held()
    method = Method(stream=held.stream) if is_stream else Method(unary=held.unary)
    async with serving({SERVICE + "Hold": method}) as (server, address), GrpcClient(address) as client:
        status, _ = await failure(lambda: client.call("Hold", b"", timeout=0.2))
        assert status is grpc.StatusCode.DEADLINE_EXCEEDED
        await held.ended.wait()
        assert held.was_cancelled
        assert server.calls is not None
        assert server.calls.open_calls == 0


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_cancelled_call_has_its_work_cancelled(is_stream: bool) -> None:
    held = Held()
    method = Method(stream=held.stream) if is_stream else Method(unary=held.unary)
    async with serving({**METHODS, SERVICE + "Hold": method}) as (_, address), GrpcClient(address) as client:
        call = client.begin("Hold", b"")
        await held.begun.wait()
        call.cancel()
        await held.ended.wait()
        assert held.was_cancelled
        assert await client.call("Upper", b"after") == b"AFTER"


async def test_a_client_that_goes_away_has_its_work_cancelled() -> None:
    held = Held()
    async with serving({SERVICE + "Hold": Method(unary=held.unary)}) as (_, address):
        async with GrpcClient(address) as client:
            call = client.begin("Hold", b"")  # a call that nobody refers to is cancelled
            await held.begun.wait()
        await held.ended.wait()
        assert held.was_cancelled
        assert call.done()


async def test_a_listener_hears_messages_in_order_and_the_end_once() -> None:
    heard = Heard()
    async with (
        serving({SERVICE + "Listen": Method(listener=heard)}) as (server, address),
        GrpcClient(address) as client,
    ):
        said = [b"m%d" % number for number in range(100)]
        assert await client.stream("Listen", said) == [one.upper() for one in said]
        assert heard.messages == said
        assert await client.stream("Listen", []) == []
        assert len(heard.ended_calls) == 2
        assert server.calls is not None
        assert server.calls.open_calls == 0


async def test_a_listener_ends_a_call_by_what_it_raises() -> None:
    heard = Heard()
    async with serving({SERVICE + "Listen": Method(listener=heard)}) as (_, address), GrpcClient(address) as client:
        found = await failure(lambda: client.stream("Listen", [b"a", b"refuse", b"never heard"]))
        assert found == (grpc.StatusCode.FAILED_PRECONDITION, "no")
        assert heard.messages == [b"a", b"refuse"]
        assert heard.ended_calls == heard.calls[:1]


async def test_a_call_that_nothing_comes_on_has_no_task_and_its_end_is_heard() -> None:
    heard, over = Heard(), threading.Event()

    def said() -> Iterator[bytes]:
        yield b"hello"
        over.wait()

    async with serving({SERVICE + "Listen": Method(listener=heard)}) as (_, address), GrpcClient(address) as client:
        before = len(asyncio.all_tasks())
        stream = client.channel.stream_stream(SERVICE + "Listen")(said())
        assert await asyncio.to_thread(next, stream) == b"HELLO"
        assert len(asyncio.all_tasks()) == before
        assert heard.ended_calls == []
        stream.cancel()
        await heard.end.wait()
        over.set()
        assert heard.ended_calls == heard.calls


async def test_a_stop_finishes_calls_in_work_and_ends_streams() -> None:
    held, open_stream = Held(), Held()
    methods = {SERVICE + "Hold": Method(unary=held.unary), SERVICE + "Open": Method(stream=open_stream.stream)}
    async with serving(methods) as (server, address), GrpcClient(address) as client:
        call = client.begin("Hold", b"")
        stream = client.begin("Open", b"")
        await held.begun.wait()
        await open_stream.begun.wait()
        stopping = asyncio.create_task(server.stop(grace_s=20))
        await asyncio.sleep(0)
        held.release.set()
        assert await asyncio.to_thread(call.result) == b"released"
        assert (await failure(lambda: asyncio.to_thread(stream.result)))[0] is grpc.StatusCode.UNAVAILABLE
        assert open_stream.was_cancelled
        await stopping
