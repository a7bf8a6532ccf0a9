"""Tells by the first bytes of a connection what its peer speaks: remoting, TLS, or HTTP/2, behind a PROXY preamble.

`Server` puts a `Sniffer` before each connection of a listener that serves more than remoting. It costs the first bytes
and nothing after: the stream is handed to the connection that serves it. A PROXY preamble names the address of the
client for which a load balancer connects. Anybody can send one, so it is taken only where the listener allows it.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, cast

from .. import logs
from ..ambient import Clock, Timer
from ..errors import ProtocolError
from ..model.wire_text import whole_number
from .address import socket_address
from .connection.security import Security
from .connection.strangers import Stranger
from .tls import Opening

log = logs.get("pyromq.transport")

_V1 = b"PROXY "
_V2 = b"\r\n\r\n\0\r\nQUIT\n"
_V1_BYTES = 107  # the longest line, by the protocol
_V2_HEAD, _V2_MOST = 16, 4096
_TCP4, _TCP6 = 0x11, 0x21
_LOCAL, _PROXIED = 0x20, 0x21
_WORD = 4  # bytes that tell a method of HTTP from a frame's length
_HTTP2 = b"PRI "
_HTTP = (_HTTP2, b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"CONN", b"TRAC", b"PATC")


class Spoken(Enum):
    """What a peer speaks, TLS apart."""

    REMOTING = "remoting"
    HTTP1 = "http1"  # refused in its own words
    HTTP2 = "http2"


def what_is_spoken(data: bytes) -> Spoken | None:
    """Return what begins with these plain bytes; None: there are too few to tell."""
    if len(data) >= _WORD:
        if data[:_WORD] == _HTTP2:
            return Spoken.HTTP2
        return Spoken.HTTP1 if data[:_WORD] in _HTTP else Spoken.REMOTING
    return None if not data or any(word.startswith(data) for word in _HTTP) else Spoken.REMOTING


_WHAT_IS_HERE = (
    b"This port speaks gRPC over HTTP/2 (the clients of RocketMQ 5: endpoints=HOST:PORT) and RocketMQ's remoting "
    b"protocol. HTTP/1 is not served: speak HTTP/2 from the first byte (curl: --http2-prior-knowledge).\n"
)
HTTP1_ANSWER = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Type: text/plain\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(_WHAT_IS_HERE)
) + _WHAT_IS_HERE


class Preamble(NamedTuple):
    """A PROXY preamble: how many bytes it had, and whom it named; no address: the proxy speaks for itself."""

    size: int
    address: str


NONE = Preamble(0, "")


def read_preamble(data: bytes) -> Preamble | None:
    """Return the PROXY preamble of a connection, `NONE` if it has none, None if more bytes are needed to say.

    ProtocolError where it begins like one and is none.
    """
    if data[: len(_V1)] == _V1:
        return _version_1(data)
    if data[: len(_V2)] == _V2:
        return _version_2(data)
    return None if _V1.startswith(data) or _V2.startswith(data) else NONE


def _version_1(data: bytes) -> Preamble | None:
    end = data.find(b"\r\n", 0, _V1_BYTES)
    if end < 0:
        if len(data) >= _V1_BYTES:
            raise ProtocolError(f"a PROXY preamble without an end within {_V1_BYTES} bytes")
        return None
    words = data[:end].decode("ascii", "replace").split(" ")
    if words[1:2] == ["UNKNOWN"]:
        return Preamble(end + 2, "")
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        raise ProtocolError(f"a PROXY preamble that cannot be read: {words!r:.120}")
    return Preamble(end + 2, _address(words[2], words[4], 4 if words[1] == "TCP4" else 6))


def _address(host: str, port: str, version: int) -> str:
    try:
        found, number = ipaddress.ip_address(host), whole_number(port, high=65535)
    except ValueError:
        found, number = None, None
    if found is None or number is None or found.version != version:
        raise ProtocolError(f"a PROXY preamble with the address {host[:64]!r} and port {port[:16]!r}")
    return socket_address((str(found), number))


def _version_2(data: bytes) -> Preamble | None:
    if len(data) < _V2_HEAD:
        return None
    command, family, length = data[12], data[13], int.from_bytes(data[14:16], "big")
    if command not in (_LOCAL, _PROXIED) or length > _V2_MOST:
        raise ProtocolError(f"a PROXY preamble with command {command:#x} and {length} bytes ({_V2_MOST} at most)")
    if len(data) < _V2_HEAD + length:
        return None
    host_bytes = {_TCP4: 4, _TCP6: 16}.get(family, 0)
    if command == _LOCAL or not host_bytes:
        return Preamble(_V2_HEAD + length, "")
    if length < 2 * host_bytes + 4:
        raise ProtocolError(f"a PROXY preamble of {length} bytes, too short for its addresses")
    host = ipaddress.ip_address(data[_V2_HEAD : _V2_HEAD + host_bytes])
    at = _V2_HEAD + 2 * host_bytes
    return Preamble(_V2_HEAD + length, socket_address((str(host), int.from_bytes(data[at : at + 2], "big"))))


class Spoke(NamedTuple):
    """What the first bytes said: all that the connection needs that serves the peer from now on."""

    spoken: Spoken
    security: Security
    address: str  # by the preamble; empty: the socket's own
    plain: memoryview  # what has come of it


# Hands the stream to its connection.
Enter = Callable[["Sniffer", asyncio.Transport, Spoke], None]


class Sniffer(asyncio.BufferedProtocol):
    """Holds the place of a connection until it is known what it is. Event loop only."""

    def __init__(
        self,
        opening: Opening,
        enter: Enter,
        lost: Callable[[Sniffer], object],
        *,
        clock: Clock,
        within_s: float,
        buffer: memoryview,
        warn: logs.Limited,
        allow_preamble: bool,
    ) -> None:
        """`enter` is called once, `lost` if the connection ends before; `within_s` is the time for the first bytes."""
        self.address = "unknown"
        self.is_open = False
        self.stranger: Stranger | None = None
        self._security = Security(opening, None)
        self._enter = enter
        self._lost = lost
        self._clock = clock
        self._within_s = within_s
        self._buffer = buffer
        self._warn = warn
        self._preamble: Preamble | None = None if allow_preamble else NONE
        self._raw = b""  # until the preamble is whole
        self._plain = b""
        self._timer: Timer | None = None
        self._stream: asyncio.Transport | None = None
        self._gone: asyncio.Event | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream, self.is_open = cast(asyncio.Transport, transport), True
        peer = self._stream.get_extra_info("peername")
        self.address = socket_address(peer) if peer else self.address
        self._timer = self._clock.call_later(self._within_s, self._late)

    def meet(self, stranger: Stranger) -> None:
        """Keep it for the connection that serves this peer."""
        self.stranger = stranger
        stranger.meet(self)

    def recognised(self) -> None:
        """Do nothing: whoever is recognised has a connection."""

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self.is_open or self._stream is None:
            return
        try:
            self._receive(bytes(self._buffer[:nbytes]), self._stream)
        except ProtocolError as fault:
            self.violation("bad bytes from a peer", fault=str(fault))
        except Exception:
            log.exception("receiving failed", peer=self.address)
            self.abort("internal error while receiving")

    def _receive(self, data: bytes, stream: asyncio.Transport) -> None:
        if self._preamble is None:
            self._raw += data
            self._preamble = read_preamble(self._raw)
            if self._preamble is None:
                return
            data, self._raw = self._raw[self._preamble.size :], b""
        if data:
            self._plain += self._security.receive(memoryview(data), stream)
        spoken = what_is_spoken(self._plain)
        if spoken is not None:
            self._end()
            self._enter(self, stream, Spoke(spoken, self._security, self._preamble.address, memoryview(self._plain)))

    def _end(self) -> None:
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()

    def _late(self) -> None:
        self.violation("slow peer", limit="opening_s", value=self._within_s)

    def violation(self, event: str, **fields: object) -> None:
        """Log one rate-limited line that says what was wrong, and cut the connection."""
        if self.is_open:
            self._warn.warning(event, peer=self.address, **fields)
            self.abort(event)

    def refuse_http1(self) -> None:
        """Say what is served here, and close. What else the peer sends is not read."""
        if self._stream is not None:
            self._warn.warning("HTTP/1 is not served", peer=self.address)
            tls = self._security.session
            self._stream.write(HTTP1_ANSWER if tls is None else tls.encrypt((HTTP1_ANSWER,)) + tls.close())
            self._stream.close()

    def close(self, reason: str) -> None:
        """Close the connection: nothing was asked yet."""
        self.abort(reason)

    def abort(self, reason: str) -> None:
        self._end()
        if self._stream is not None:
            self._stream.abort()

    async def gone(self) -> None:
        """Wait until the connection is closed."""
        if self._stream is not None:
            self._gone = self._gone or asyncio.Event()
            await self._gone.wait()

    def eof_received(self) -> None:
        """Let asyncio close the stream."""

    def pause_writing(self) -> None:
        """Do nothing: a handshake is short."""

    def resume_writing(self) -> None:
        """Do nothing, as `pause_writing` does."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._stream = None
        if self._gone is not None:
            self._gone.set()
        self._lost(self)
