"""A blocking connection to one broker: for Spark's workers, which have no event loop and read large answers.

Requests may be sent before earlier ones are answered; brokers answer in any order, and `opaque` says to which. One
thread only. An answer's body is a view of the memory that it was received into, without a copy; a reader of many
answers gives that memory (`ReceiveBuffer`).
"""

from __future__ import annotations

import atexit
import socket
import ssl
import struct
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from ...access.signatures import Signer
from ...errors import CallTimedOut, ConnectionLost, ProtocolError
from ...protocol.command import Command, decode_header
from ...protocol.frame import DEFAULT_LIMITS, MOST_HEADER_BYTES, FrameLimits, encode_frame_head
from ...transport.address import parse_address
from ...transport.tls import ClientTls, Verify
from ..options import NetOptions

_WORDS = struct.Struct(">iI")
_MOST_AT_ONCE = 1 << 20
_MOST_KEPT = 16  # brokers; the one that was not asked for longest goes


def tls_settings(options: NetOptions) -> ClientTls | None:
    if not options.tls:
        return None

    named = {"ca": options.tls_ca, "certificate": options.tls_certificate, "key": options.tls_key}
    files = {name: Path(path) if path else None for name, path in named.items()}
    return ClientTls(verify=Verify(options.tls_verify), key_password=options.tls_key_password or None, **files)


class ReceiveBuffer:
    """Memory for the bodies of answers, one behind the other; used again and again, since new memory costs as much as
    what is done with it. `view` holds until the next `clear`."""

    def __init__(self) -> None:
        self._memory = bytearray(_MOST_AT_ONCE)
        self.used = 0

    def reserve(self, size: int) -> memoryview:
        """Return a view of so many bytes behind those in use; they count once `used` is moved."""
        if len(self._memory) - self.used < size:
            larger = bytearray(2 * (self.used + size))  # who still looks at the old one keeps it
            larger[: self.used] = memoryview(self._memory)[: self.used]
            self._memory = larger
        return memoryview(self._memory)[self.used : self.used + size]

    def view(self) -> memoryview:
        return memoryview(self._memory)[: self.used]

    def clear(self) -> None:
        self.used = 0


class BlockingConnection:
    """Open from the start. After any error it is of no use and must be closed."""

    def __init__(self, address: str, options: NetOptions, limits: FrameLimits = DEFAULT_LIMITS) -> None:
        self.address = address
        self._limits = limits
        self._opaque = count(1)
        self._timeout_s = options.call_timeout_ms / 1000
        keys = (options.access_key, options.secret_key, options.security_token)
        self._signer = Signer(*keys) if options.access_key else None
        self.outstanding = 0
        try:
            self._socket = _connect(address, options)
        except TimeoutError:
            raise ConnectionLost(f"no connection to {address} within {options.connect_timeout_ms} ms") from None
        except OSError as fault:
            raise ConnectionLost(f"no connection to {address}: {fault}") from None

    def send(self, command: Command, body: bytes | memoryview = b"") -> int:
        """Return the number by which its answer is known."""
        self._write(self._head(command, body), body)
        self.outstanding += 1
        return command.opaque

    def send_together(self, commands: Sequence[Command]) -> list[int]:
        """Send requests without bodies at once, and return the numbers by which their answers are known."""
        self._write(b"".join([self._head(command) for command in commands]))
        self.outstanding += len(commands)
        return [command.opaque for command in commands]

    def _head(self, command: Command, body: bytes | memoryview = b"") -> bytes:
        command.opaque = next(self._opaque)
        if self._signer is not None:
            command.body = body  # signed with the fields
            self._signer.sign(command)
        return encode_frame_head(command, len(body))

    def _write(self, head: bytes, body: bytes | memoryview = b"") -> None:
        try:
            self._socket.sendall(head)
            if body:
                self._socket.sendall(body)
        except TimeoutError:
            raise CallTimedOut(f"{self.address} took no request within {self._timeout_s:g} s") from None
        except OSError as fault:
            raise ConnectionLost(f"the connection to {self.address} ended: {fault}") from None

    def receive(self, buffer: ReceiveBuffer | None = None) -> Command:
        """Return the next answer, to whichever request. Its body is at the end of `buffer`, or in memory of its own."""
        while True:
            total, word = _WORDS.unpack(self._read(memoryview(bytearray(_WORDS.size))))
            header_bytes = word & MOST_HEADER_BYTES
            if not header_bytes + 4 <= total <= self._limits.frame_bytes:
                raise ProtocolError(f"{self.address} sent a frame of {total} bytes with a header of {header_bytes}")
            header = bytes(self._read(memoryview(bytearray(header_bytes))))
            size = total - 4 - header_bytes
            body = self._read(memoryview(bytearray(size)) if buffer is None else buffer.reserve(size))
            answer = decode_header(word >> 24, header, self._limits.header_fields)
            if answer.is_response:  # brokers also send requests, which are none of ours
                if buffer is not None:
                    buffer.used += size
                answer.body = body
                self.outstanding -= 1
                return answer

    def call(self, command: Command, body: bytes | memoryview = b"") -> Command:
        self.send(command, body)
        return self.receive()

    def is_fresh(self) -> bool:
        """Return whether nothing came while nobody listened: no end, no half an answer."""
        self._socket.setblocking(False)
        try:
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        finally:
            self._socket.settimeout(self._timeout_s)
        return False

    def close(self) -> None:
        self._socket.close()

    def _read(self, whole: memoryview) -> memoryview:
        size, got = len(whole), 0
        while got < size:
            try:
                piece = self._socket.recv_into(whole[got : got + _MOST_AT_ONCE])
            except TimeoutError:
                raise CallTimedOut(f"{self.address} did not answer within {self._timeout_s:g} s") from None
            except OSError as fault:
                raise ConnectionLost(f"the connection to {self.address} ended: {fault}") from None
            if not piece:
                raise ConnectionLost(f"{self.address} closed the connection")
            got += piece
        return whole


def _connect(address: str, options: NetOptions) -> socket.socket:
    host, port = parse_address(address)
    plain = socket.create_connection((host, port), options.connect_timeout_ms / 1000)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = tls_settings(options)
        made = plain if tls is None else tls.new_context().wrap_socket(plain, server_hostname=host)
        made.settimeout(options.call_timeout_ms / 1000)
    except BaseException:
        plain.close()
        raise
    return made


class ConnectionPool:
    """Connections that `pulling.py` keeps from one task to the next, which most likely asks the same broker.

    Workers are used again for task after task. One thread; all are closed when the process ends.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bool, str], BlockingConnection] = {}

    def take(self, address: str, options: NetOptions) -> BlockingConnection | None:
        """Return a connection on which no answer is under way, and nothing came while nobody listened."""
        found = self._kept.pop(_line(address, options), None)
        if found is None or (not found.outstanding and found.is_fresh()):
            return found
        found.close()
        return None

    def keep(self, connection: BlockingConnection, options: NetOptions) -> None:
        line = _line(connection.address, options)
        if line in self._kept:
            connection.close()
            return
        while len(self._kept) >= _MOST_KEPT:
            self._kept.pop(next(iter(self._kept))).close()
        self._kept[line] = connection

    def close(self) -> None:
        while self._kept:
            self._kept.popitem()[1].close()


def _line(address: str, options: NetOptions) -> tuple[str, bool, str]:
    """Return what a connection that is used again must have in common."""
    return address, options.tls, options.access_key


POOL = ConnectionPool()
atexit.register(POOL.close)
