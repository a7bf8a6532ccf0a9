"""Peers and handlers for the tests of this folder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

import pytest

from pyromq.protocol.command import ONEWAY_FLAG, Command
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Reply, Request
from pyromq.transport.memory import MemoryStream, pair
from pyromq.transport.server import Server
from tests.wire import FrameDecoder

ADDRESS = "server:1"
ECHO = int(RequestCode.GET_MAX_OFFSET)

_PASSES = 20_000

MakeServer = Callable[..., Server]
MakeClient = Callable[..., RemotingClient]


def echo(request: Request) -> Reply:
    return Reply(fields=dict(request.command.fields), body=request.command.body)


def command(code: int = ECHO, *, opaque: int = 0, oneway: bool = False, body: bytes = b"", **fields: Any) -> Command:
    return Command(code=code, opaque=opaque, flag=ONEWAY_FLAG if oneway else 0, fields=fields, body=body)


def frames(*commands: Command) -> bytes:
    return b"".join(encode_frame(each) for each in commands)


class RawPeer(asyncio.Protocol):
    """The other end, by bytes: what a program that we did not write sees."""

    def __init__(self) -> None:
        self.received: list[Command] = []
        self.raw = bytearray()
        self.is_lost = False
        self.stream: asyncio.Transport | None = None
        self._decoder = FrameDecoder()
        self._changed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.stream = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.raw += data
        self.received += self._decoder.feed(data)
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._changed.set()

    def write(self, data: bytes) -> None:
        assert self.stream is not None
        self.stream.write(data)

    async def until(self, condition: Callable[[], bool]) -> None:
        """In memory a bounded number of passes is enough, so a test that fails does not hang; a socket is awaited."""
        for _ in range(_PASSES):
            if condition():
                return
            if isinstance(self.stream, MemoryStream):
                await ManualClock().settle(1)
            else:
                self._changed.clear()
                await self._changed.wait()
        pytest.fail(
            f"not seen: {len(self.received)} frames came, the connection is {'lost' if self.is_lost else 'open'}"
        )

    async def answers(self, count: int) -> list[Command]:
        await self.until(lambda: len(self.received) >= count)
        return self.received

    async def lost(self) -> None:
        await self.until(lambda: self.is_lost)

    @property
    def opaques(self) -> list[int]:
        return [each.opaque for each in self.received]


class BytesPeer(RawPeer):
    """One that gets something else than frames."""

    def data_received(self, data: bytes) -> None:
        self.raw += data


def raw_peer(server: Server, address: str = "peer:1000", kind: type[RawPeer] = RawPeer, **options: Any) -> RawPeer:
    """Joined to the server by an in-memory stream."""
    near, far = pair(address, ADDRESS, **options)
    server.attach(far)
    return join(near, kind)


def join(near: MemoryStream, kind: type[RawPeer] = RawPeer) -> RawPeer:
    peer = kind()
    near.set_protocol(peer)
    peer.connection_made(near)
    return peer


async def socket_peer(address: str) -> RawPeer:
    host, _, port = address.rpartition(":")
    _, peer = await asyncio.get_running_loop().create_connection(RawPeer, host, int(port))
    return peer


def violations(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    """The fields of each warning, and its event."""
    return [
        {"event": getattr(record, "event", record.getMessage())} | getattr(record, "fields", {})
        for record in caplog.records
        if record.levelno >= logging.WARNING
    ]
