"""One port for everything: remoting, HTTP/2, TLS and PROXY preambles are told apart by the first bytes."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from pyromq.ambient import SystemClock
from pyromq.errors import ProtocolError
from pyromq.transport.address import parse_address
from pyromq.transport.client import RemotingClient
from pyromq.transport.sniff import NONE, Preamble, Spoken, read_preamble, what_is_spoken
from pyromq.transport.tls import ClientTls, ServerTls, Verify
from tests.transport.certificates import Authority
from tests.transport.http2.support import GrpcClient, serving
from tests.transport.support import command, frames

V2 = b"\r\n\r\n\0\r\nQUIT\n"
V2_IPV4 = V2 + b"\x21\x11\x00\x0c" + bytes([10, 1, 2, 3, 10, 9, 9, 9]) + b"\x1f\x90\x00\x50"


@pytest.mark.parametrize(
    ("data", "spoken"),
    [
        (b"PRI * HTTP/2.0\r\n", Spoken.HTTP2),
        (b"PRI ", Spoken.HTTP2),
        (b"GET / HTTP/1.1\r\n", Spoken.HTTP1),
        (b"POST", Spoken.HTTP1),
        (b"\0\0\1\2", Spoken.REMOTING),
        (b"\0", Spoken.REMOTING),
        (b"PRX", Spoken.REMOTING),
        (b"PROX", Spoken.REMOTING),
        (b"PR", None),
        (b"P", None),
        (b"", None),
    ],
)
def test_first_bytes_tell(data: bytes, spoken: Spoken | None) -> None:
    assert what_is_spoken(data) is spoken


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"PROXY TCP4 10.1.2.3 10.9.9.9 8080 80\r\nrest", Preamble(38, "10.1.2.3:8080")),
        (b"PROXY TCP6 2001:db8::1 ::1 8080 80\r\n", Preamble(36, "[2001:db8::1]:8080")),
        (b"PROXY UNKNOWN\r\n", Preamble(15, "")),
        (b"PROXY UNKNOWN 1 2 3 4\r\n", Preamble(23, "")),
        (V2_IPV4 + b"rest", Preamble(28, "10.1.2.3:8080")),
        (V2 + b"\x21\x11\x00\x0f" + V2_IPV4[16:] + b"\x04\x00\x00", Preamble(31, "10.1.2.3:8080")),
        (V2 + b"\x21\x21\x00\x24" + bytes(15) + b"\1" + bytes(16) + b"\0\7\0\7", Preamble(52, "[::1]:7")),
        (V2 + b"\x20\x00\x00\x00", Preamble(16, "")),
        (b"\0\0\0\x20", NONE),
        (b"PRI * HTTP", NONE),
        (b"\x16\3\1", NONE),
    ],
)
def test_preambles_are_read_at_any_cut(data: bytes, found: Preamble) -> None:
    assert read_preamble(data) == found
    for cut in range(found.size):
        assert read_preamble(data[:cut]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"PROXY TCP4 10.1.2.3 10.9.9.9 8080\r\n",
        b"PROXY TCP4 10.1.2.300 10.9.9.9 8080 80\r\n",
        b"PROXY TCP4 ::1 ::1 8080 80\r\n",
        b"PROXY TCP4 10.1.2.3 10.9.9.9 80800 80\r\n",
        b"PROXY UDP4 10.1.2.3 10.9.9.9 8080 80\r\n",
        b"PROXY " + b"x" * 120,
        V2 + b"\x11\x11\x00\x0c",
        V2 + b"\x21\x11\xff\xff",
        V2 + b"\x21\x11\x00\x04abcd",
    ],
)
def test_preambles_that_are_none_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="PROXY"):
        read_preamble(data)


async def test_remoting_and_grpc_share_a_port() -> None:
    remoting = RemotingClient(clock=SystemClock(), rng=random.Random(1))
    async with serving() as (server, address), GrpcClient(address) as client, remoting:
        assert (await remoting.call(address, command(n="1"), timeout_s=10)).fields == {"n": "1"}
        assert await client.call("Upper", b"abc") == b"ABC"
        assert (await remoting.call(address, command(body=bytes(200_000)), timeout_s=10)).body == bytes(200_000)
        assert server.connections == 2
        assert [peer.address.startswith("127.0.0.1:") for peer in server.peers()] == [True]


async def test_a_remoting_frame_may_come_byte_by_byte() -> None:
    async with serving() as (_, address):
        reader, writer = await asyncio.open_connection(*parse_address(address))
        wire = frames(command(opaque=5, n="1"))
        for at in range(len(wire)):
            writer.write(wire[at : at + 1])
            await writer.drain()
        assert await asyncio.wait_for(reader.readexactly(8), 10)
        await end(writer)


async def raw_answer(address: str, data: bytes) -> bytes:
    """Send bytes and read until the server closes."""
    reader, writer = await asyncio.open_connection(*parse_address(address))
    writer.write(data)
    found = await asyncio.wait_for(reader.read(), 20)
    await end(writer)
    return found


async def end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_http_1_is_told_what_is_served(method: str) -> None:
    async with serving() as (server, address):
        answer = await raw_answer(address, f"{method} / HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head, _, text = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 505 ")
        assert b"\r\nContent-Length: %d\r\n" % len(text) in head
        assert b"gRPC over HTTP/2" in text
        assert server.connections == 0


async def test_http_1_over_tls_is_told_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("server")
    async with serving(tls=ServerTls(certificate=pair.certificate, key=pair.key)) as (_, address):
        trust = ssl.create_default_context(cafile=str(authority.file))
        reader, writer = await asyncio.open_connection(*parse_address(address), ssl=trust)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), 20)).startswith(b"HTTP/1.1 505 ")
        await end(writer)


@pytest.mark.parametrize("preamble", [b"PROXY TCP4 10.1.2.3 10.9.9.9 8080 80\r\n", V2_IPV4])
async def test_a_preamble_names_the_client_where_it_is_allowed(preamble: bytes) -> None:
    async with serving(proxy_preamble=True) as (_, address):
        relay = await Relay.start(address, preamble)
        async with GrpcClient(relay.address) as client:
            lines = (await client.call("Describe", b"")).decode().split("\n")
        assert lines[1] == "10.1.2.3:8080"
        async with RemotingClient(clock=SystemClock(), rng=random.Random(1)) as remoting:
            assert (await remoting.call(relay.address, command(n="1"), timeout_s=10)).fields == {"n": "1"}
        async with GrpcClient(address) as client:  # and without one
            assert (await client.call("Describe", b"")).decode().split("\n")[1].startswith("127.0.0.1:")
        await relay.stop()


async def test_a_preamble_is_no_frame_where_it_is_not_allowed() -> None:
    async with serving() as (_, address):
        reader, writer = await asyncio.open_connection(*parse_address(address))
        writer.write(V2_IPV4 + frames(command(n="1")))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(8), 20)
        await end(writer)


class Relay:
    """A load balancer: passes bytes on, behind a preamble."""

    def __init__(self, target: str, preamble: bytes) -> None:
        self._target, self._preamble = target, preamble
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""

    @classmethod
    async def start(cls, target: str, preamble: bytes) -> Relay:
        relay = cls(target, preamble)
        relay._server = await asyncio.start_server(relay._serve, "127.0.0.1", 0)
        port = relay._server.sockets[0].getsockname()[1]
        relay.address = f"127.0.0.1:{port}"
        return relay

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection(*parse_address(self._target))
        to_writer.write(self._preamble)
        for source, sink in ((reader, to_writer), (to_reader, writer)):
            task = asyncio.create_task(pass_on(source, sink))
            self._tasks.add(task)

    _server: asyncio.Server


async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
    finally:
        await end(sink)


async def test_tls_with_alpn_serves_grpc_and_remoting(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("server", host="localhost")
    tls = ServerTls(certificate=pair.certificate, key=pair.key)
    async with serving(tls=tls, proxy_preamble=True) as (_, address):
        port = parse_address(address)[1]
        credentials = grpc.ssl_channel_credentials(authority.file.read_bytes())
        async with GrpcClient(f"localhost:{port}", credentials=credentials) as client:
            assert await client.call("Upper", b"abc" * 50_000) == b"ABC" * 50_000
            assert await client.stream("Echo", [b"a", b"b"]) == [b"a", b"b"]
        async with GrpcClient(address) as client:  # plain on the same port
            assert await client.call("Upper", b"abc") == b"ABC"
        remoting = RemotingClient(
            clock=SystemClock(), rng=random.Random(1), tls=ClientTls(verify=Verify.CA, ca=authority.file)
        )
        async with remoting:
            assert (await remoting.call(address, command(n="1"), timeout_s=10)).fields == {"n": "1"}
            assert (await remoting.call(address, command(body=bytes(100_000)), timeout_s=10)).body == bytes(100_000)
        assert await asyncio.to_thread(alpn, port, authority.file) == "h2"


def alpn(port: int, ca: Path) -> str | None:
    context = ssl.create_default_context(cafile=str(ca))
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("localhost", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        return wrapped.selected_alpn_protocol()
