"""Our gRPC client against our server, and against grpcio's."""

from __future__ import annotations

import asyncio
import gc
import random
import warnings
from collections.abc import AsyncIterator, Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from pyromq.ambient import SystemClock
from pyromq.errors import ConnectionLost
from pyromq.protocol.grpc.status import GrpcStatus
from pyromq.testing.clock import ManualClock
from pyromq.transport.address import parse_address
from pyromq.transport.client import Reconnect
from pyromq.transport.http2.calls import Call, GrpcError, Method
from pyromq.transport.http2.client import Http2Client
from pyromq.transport.http2.server_call import ServerCall
from pyromq.transport.memory import MemoryNetwork
from pyromq.transport.server import Server
from pyromq.transport.tls import ClientTls, ServerTls, Verify
from tests.transport.certificates import Authority
from tests.transport.http2.support import METHODS, SERVICE, Held, late, serving
from tests.transport.support import echo


def client_of(**options: Any) -> Http2Client:
    defaults: dict[str, Any] = {"clock": SystemClock(), "rng": random.Random(1)}
    return Http2Client(**(defaults | options))


class GrpcioServer:
    """grpcio's server with the same methods as ours."""

    def __init__(self) -> None:
        self._server = grpc.server(ThreadPoolExecutor(4))
        handlers = {
            "Upper": grpc.unary_unary_rpc_method_handler(lambda message, context: message.upper()),
            "Refuse": grpc.unary_unary_rpc_method_handler(self._refuse),
            "Echo": grpc.stream_stream_rpc_method_handler(self._echo),
            "Count": grpc.stream_stream_rpc_method_handler(self._count),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", handlers),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    @staticmethod
    def _refuse(message: bytes, context: Any) -> bytes:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"no: {message.decode()} ü %")
        return b""

    @staticmethod
    def _echo(messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
        yield from messages

    @staticmethod
    def _count(messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
        count, size = (int(word) for word in next(messages).split())
        for number in range(count):
            yield number.to_bytes(4, "big") + bytes(size)

    async def stop(self) -> None:
        await asyncio.to_thread(lambda: self._server.stop(1).wait())


@asynccontextmanager
async def either(kind: str) -> AsyncIterator[str]:
    """A server of ours or grpcio's; yields its address."""
    if kind == "ours":
        async with serving() as (_, address):
            yield address
        return
    server = GrpcioServer()
    try:
        yield server.address
    finally:
        await server.stop()


both = pytest.mark.parametrize("kind", ["ours", "grpcio"])


@both
async def test_unary_calls(kind: str) -> None:
    async with either(kind) as address, client_of() as client:
        for size in (0, 1, 16_379, 70_000, 3 << 20):
            message = bytes(size) + b"x"
            assert await client.call(address, SERVICE + "Upper", message, timeout_s=20) == message.upper()
        calls = [client.call(address, SERVICE + "Upper", b"n%d" % n, timeout_s=20) for n in range(200)]
        assert await asyncio.gather(*calls) == [b"N%d" % n for n in range(200)]


@both
async def test_a_refusal_has_status_and_text(kind: str) -> None:
    async with either(kind) as address, client_of() as client:
        with pytest.raises(GrpcError, match="no: abc ü %") as refused:
            await client.call(address, SERVICE + "Refuse", b"abc", timeout_s=20)
        assert refused.value.status is GrpcStatus.FAILED_PRECONDITION
        with pytest.raises(GrpcError) as refused:
            await client.call(address, SERVICE + "Nothing", b"abc", timeout_s=20)
        assert refused.value.status is GrpcStatus.UNIMPLEMENTED


@both
async def test_streams(kind: str) -> None:
    async with either(kind) as address, client_of() as client:
        async with await client.open(address, SERVICE + "Echo") as call:
            for number in range(50):
                await call.send(b"%d" % number)
                assert await call.receive() == b"%d" % number
            call.half_close()
            assert await call.receive() is None
        async with await client.open(address, SERVICE + "Count") as call:
            await call.send(b"30 100000")
            call.half_close()
            received = [message async for message in answers(call)]
            assert [int.from_bytes(each[:4], "big") for each in received] == list(range(30))


async def answers(call: Any) -> AsyncIterator[bytes]:
    while (message := await call.receive()) is not None:
        yield message


async def test_metadata_and_deadline_reach_the_server() -> None:
    async with serving() as (_, address), client_of() as client:
        answer = await client.call(address, SERVICE + "Describe", b"", [("x-mq-client-id", "me")], timeout_s=20)
        assert b"x-mq-client-id=me" in answer
        assert answer.endswith(b"\ndeadline")


async def test_a_deadline_ends_a_call_on_both_sides() -> None:
    held = Held()
    async with serving({SERVICE + "Hold": Method(unary=held.unary)}) as (_, address), client_of() as client:
        with pytest.raises(GrpcError) as late:
            await client.call(address, SERVICE + "Hold", b"", timeout_s=0.2)
        assert late.value.status is GrpcStatus.DEADLINE_EXCEEDED
        await held.ended.wait()
        assert held.was_cancelled


async def test_a_cancelled_caller_cancels_the_call() -> None:
    held = Held()
    async with serving({**METHODS, SERVICE + "Hold": Method(unary=held.unary)}) as (_, address), client_of() as client:
        calling = asyncio.create_task(client.call(address, SERVICE + "Hold", b"", timeout_s=None))
        await held.begun.wait()
        calling.cancel()
        await held.ended.wait()
        assert held.was_cancelled
        assert await client.call(address, SERVICE + "Upper", b"after", timeout_s=20) == b"AFTER"


async def test_a_call_that_ends_before_its_handler_begins_leaves_nothing_behind() -> None:
    """Python would say of a handler that nobody has awaited it."""
    kept: list[Server] = []

    def hasty(call: Call, message: bytes) -> Awaitable[bytes]:
        service = kept[0].calls
        assert service is not None
        assert isinstance(call, ServerCall)
        refusal = GrpcError(GrpcStatus.ABORTED, "too late")
        asyncio.get_running_loop().call_soon(service.refuse, call, refusal)  # so before the first step of its task
        return late(call, message)

    async with serving({**METHODS, SERVICE + "Hasty": Method(unary=hasty)}) as (server, address), client_of() as client:
        kept.append(server)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with pytest.raises(GrpcError, match="too late"):
                await client.call(address, SERVICE + "Hasty", b"", timeout_s=20)
            gc.collect()
        assert [str(one.message) for one in said if issubclass(one.category, RuntimeWarning)] == []
        assert await client.call(address, SERVICE + "Upper", b"after", timeout_s=20) == b"AFTER"


async def test_a_server_that_stops_is_left_and_found_again() -> None:
    held = Held()
    methods = {**METHODS, SERVICE + "Hold": Method(unary=held.unary)}
    async with client_of(reconnect=Reconnect(first_s=0.01, most_s=0.01)) as client:
        async with serving(methods) as (server, address):
            calling = asyncio.create_task(client.call(address, SERVICE + "Hold", b"", timeout_s=None))
            await held.begun.wait()
            stopping = asyncio.create_task(server.stop(grace_s=20))
            await asyncio.sleep(0)
            held.release.set()
            assert await calling == b"released"  # what was begun is finished behind the GOAWAY
            await stopping
        with pytest.raises(ConnectionLost, match="cannot connect"):
            await client.call(address, SERVICE + "Upper", b"x", timeout_s=20)
        again = Server(echo, clock=SystemClock(), methods=METHODS)
        await again.start(*parse_address(address))
        while True:
            try:
                assert await client.call(address, SERVICE + "Upper", b"x", timeout_s=20) == b"X"
                break
            except ConnectionLost:
                await asyncio.sleep(0.01)  # the back-off
        await again.stop(grace_s=2)


async def test_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("server")
    async with serving(tls=ServerTls(certificate=pair.certificate, key=pair.key)) as (_, address):
        async with client_of(tls=ClientTls(verify=Verify.FULL, ca=authority.file)) as client:
            assert await client.call(address, SERVICE + "Upper", b"abc" * 50_000, timeout_s=20) == b"ABC" * 50_000
        other = Authority(tmp_path, "other")
        async with client_of(tls=ClientTls(verify=Verify.CA, ca=other.file)) as client:
            for _ in range(2):  # the second call waits for no attempt of its own
                with pytest.raises(ConnectionLost, match="CERTIFICATE_VERIFY_FAILED") as lost:
                    await client.call(address, SERVICE + "Upper", b"abc", timeout_s=20)
                assert "ClientTls(ca=...)" in lost.value.hint


async def test_nothing_is_sent_to_a_server_that_speaks_no_http2() -> None:
    got: list[bytes] = []

    async def close_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.read(1 << 16))
        writer.close()

    server = await asyncio.start_server(close_at_once, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, client_of() as client:
        with pytest.raises(ConnectionLost, match="cannot connect to") as lost:
            await client.call(address, SERVICE + "Upper", b"abc", timeout_s=20)
    assert not lost.value.was_sent
    assert b"Upper" not in b"".join(got)


async def test_a_silent_server_is_asked_and_then_left(clock: ManualClock, network: MemoryNetwork) -> None:
    held = Held()
    server = Server(echo, clock=clock, methods={SERVICE + "Hold": Method(unary=held.unary)})
    network.listen("server:1", server.attach_unknown)
    client = client_of(clock=clock, connect=network.connect, keep_alive_s=10)
    calling = asyncio.create_task(client.call("server:1", SERVICE + "Hold", b"", timeout_s=None))
    await held.begun.wait()
    await clock.advance(60)  # the server answers each ping
    assert not calling.done()
    for connection in tuple(server._connections):
        connection._stream.pause_reading()  # type: ignore[union-attr]
    await clock.advance(21)
    with pytest.raises(ConnectionLost, match="no answer to a ping within 10 s"):
        await calling
    await client.close()
    stopping = asyncio.create_task(server.stop(grace_s=1))
    await clock.advance(2)
    await stopping


@pytest.mark.parametrize("name", ["Upper", "Late", "Count", "Echo"])
async def test_a_call_may_be_cancelled_at_any_point(clock: ManualClock, network: MemoryNetwork, name: str) -> None:
    server = Server(echo, clock=clock, methods=METHODS)
    network.listen("server:1", server.attach_unknown)
    client = client_of(clock=clock, connect=network.connect)

    async def whole() -> None:
        async with await client.open("server:1", SERVICE + name) as call:
            await call.send(b"3 50000")
            call.half_close()
            while await call.receive() is not None:
                pass

    passes, is_done = 0, False
    while not is_done:
        calling = asyncio.create_task(whole())
        for _ in range(passes):
            await asyncio.sleep(0)
        is_done = calling.done()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        for _ in range(30):
            await asyncio.sleep(0)
        assert server.calls is not None
        assert server.calls.open_calls == 0
        assert await client.call("server:1", SERVICE + "Upper", b"after", timeout_s=5) == b"AFTER"
        passes += 1
    assert passes > 3
    assert server.connections == 1
    assert server.service.buffered.total == 0
    await client.close()
    stopping = asyncio.create_task(server.stop(grace_s=1))
    await clock.advance(2)
    await stopping
