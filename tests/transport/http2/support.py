"""Handlers, and a real gRPC client (grpcio, in threads of its own), for the tests of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc

from pyromq.ambient import SystemClock
from pyromq.protocol.grpc.status import GrpcStatus
from pyromq.transport.http2.calls import Call, GrpcError, Method
from pyromq.transport.limits import Limits
from pyromq.transport.server import Server
from tests.transport.support import echo

SERVICE = "/test.Service/"


def upper(call: Call, message: bytes) -> bytes:
    return message.upper()


async def late(call: Call, message: bytes) -> bytes:
    await asyncio.sleep(0)
    return message[::-1]


def refuse(call: Call, message: bytes) -> bytes:
    raise GrpcError(GrpcStatus.FAILED_PRECONDITION, f"no: {message.decode()} ü %")


def break_down(call: Call, message: bytes) -> bytes:
    raise RuntimeError("a fault of ours")


def describe(call: Call, message: bytes) -> bytes:
    found = [call.method, call.remote, call.local, *(f"{name}={text}" for name, text in sorted(call.metadata.items()))]
    return "\n".join([*found, "deadline" if call.deadline is not None else "no deadline"]).encode()


async def echo_all(call: Call) -> None:
    while (message := await call.receive()) is not None:
        await call.send(message)


async def count_down(call: Call) -> None:
    """Send as many messages as the request says, of the size that it says."""
    request = await call.receive()
    assert request is not None
    count, size = (int(word) for word in request.split())
    for number in range(count):
        await call.send(number.to_bytes(4, "big") + bytes(size))


class Held:
    """A handler that waits until the test lets it go, and notes how it ended."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.release = asyncio.Event()
        self.ended = asyncio.Event()
        self.was_cancelled = False

    async def unary(self, call: Call, message: bytes) -> bytes:
        self.begun.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        finally:
            self.ended.set()
        return b"released"

    async def stream(self, call: Call) -> None:
        await call.send(await self.unary(call, b""))


class Heard:
    """Echoes what it hears, and notes the end of each call."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.calls: list[Call] = []
        self.ended_calls: list[Call] = []
        self.end = asyncio.Event()

    async def came(self, call: Call, message: bytes) -> None:
        self.messages.append(message)
        self.calls.append(call)
        if message == b"refuse":
            raise GrpcError(GrpcStatus.FAILED_PRECONDITION, "no")
        await asyncio.sleep(0)  # what comes meanwhile waits
        await call.send(message.upper())

    def ended(self, call: Call) -> None:
        self.ended_calls.append(call)
        self.end.set()


METHODS = {
    SERVICE + "Upper": Method(unary=upper, most_bytes=8 << 20),
    SERVICE + "Late": Method(unary=late),
    SERVICE + "Refuse": Method(unary=refuse),
    SERVICE + "Break": Method(unary=break_down),
    SERVICE + "Describe": Method(unary=describe),
    SERVICE + "Echo": Method(stream=echo_all, most_bytes=1 << 20),
    SERVICE + "Count": Method(stream=count_down),
}


@asynccontextmanager
async def serving(
    methods: dict[str, Method] | None = None, limits: Limits | None = None, **options: Any
) -> AsyncIterator[tuple[Server, str]]:
    """A server on a real socket with the real clock; yields it and its address."""
    server = Server(echo, clock=SystemClock(), limits=limits, methods=methods or METHODS, **options)
    address = await server.start("127.0.0.1", 0)
    try:
        yield server, address
    finally:
        await server.stop(grace_s=2)


class GrpcClient:
    """grpcio's channel; each call blocks a thread."""

    def __init__(self, address: str, options: Sequence[tuple[str, Any]] = (), credentials: Any = None) -> None:
        everything = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), *options]
        if credentials is None:
            self.channel = grpc.insecure_channel(address, everything)
        else:
            self.channel = grpc.secure_channel(address, credentials, everything)

    async def __aenter__(self) -> GrpcClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.channel.close)

    async def call(self, name: str, message: bytes, **options: Any) -> bytes:
        """Make a unary call; grpc.RpcError if it ends otherwise than OK."""
        method = self.channel.unary_unary(name if name.startswith("/") else SERVICE + name)
        answer = await asyncio.to_thread(lambda: method(message, **({"timeout": 30} | options)))
        return bytes(answer)

    async def stream(self, name: str, messages: Sequence[bytes] | Iterator[bytes], **options: Any) -> list[bytes]:
        method = self.channel.stream_stream(SERVICE + name)
        return await asyncio.to_thread(lambda: list(method(iter(messages), **({"timeout": 30} | options))))

    def begin(self, name: str, message: bytes, **options: Any) -> Any:
        """Begin a unary call without waiting for its end."""
        return self.channel.unary_unary(SERVICE + name).future(message, **options)


async def failure(work: Callable[[], Any]) -> tuple[grpc.StatusCode, str]:
    """Await a call that must fail; return code and text."""
    try:
        await work()
    except grpc.RpcError as fault:
        return fault.code(), fault.details()
    raise AssertionError("the call did not fail")
