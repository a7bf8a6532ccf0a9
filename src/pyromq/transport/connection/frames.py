"""Bytes of one connection in, commands out, and frames on their way to the peer. Transport's side of `kernel/seam.py`.

The inbox keeps the unfinished end of what came. The outbox gathers frames, writes them in as few pieces as sensible,
and encrypts them where TLS is spoken.
"""

from __future__ import annotations

import asyncio

from ...errors import RequestTooLarge
from ...kernel.seam import NOTHING, Fed, Feed, FeedConnection, as_fed
from ...model.codes import ResponseCode
from ...protocol.command import RESPONSE_FLAG, Command
from ...protocol.frame import DEFAULT_LIMITS, FrameLimits, HeaderTooLarge, decode_frames, encode_frame_head
from ..tls import TlsSession

_LENGTH_WORDS = 8


class Inbox:
    """After a ProtocolError the stream is out of step and the inbox must be dropped."""

    __slots__ = ("limits", "needed", "tail")

    def __init__(self, limits: FrameLimits) -> None:
        self.limits = limits
        self.tail = bytearray()  # of a frame that is not complete yet
        self.needed = _LENGTH_WORDS  # nothing is looked at before this many bytes are there

    @property
    def tail_bytes(self) -> int:
        return len(self.tail)

    def drop(self) -> int:
        """Forget the unfinished frame; return how many bytes it had."""
        size, self.tail = len(self.tail), bytearray()
        return size

    def receive(
        self, feed: Feed, connection: FeedConnection, received: memoryview, fed: Fed | None = None
    ) -> tuple[Fed, list[Command]]:
        """Return what the feed did with these bytes, and the commands that it left.

        `fed`: what it did, if it has seen them already, which it may where no unfinished end is.
        """
        if not self.tail:
            fed = as_fed(feed(connection, received), received) if fed is None else fed
            commands, used = self._split(fed, received)
            if used < len(received):
                self.tail += received[used:]
            return fed, commands
        self.tail += received
        if len(self.tail) < self.needed:
            return NOTHING, []  # a large frame in small pieces is not scanned again with each piece
        view = memoryview(self.tail)
        fed = as_fed(feed(connection, view), view)
        commands, used = self._split(fed, view)
        self.tail = bytearray(view[used:])  # a new one: views that the feed handed back still point into the old
        return fed, commands

    def _split(self, fed: Fed, view: memoryview) -> tuple[list[Command], int]:
        """Decode what is Python's; return the commands, and how many bytes are dealt with."""
        if not fed.used:
            commands, used, self.needed = decode_frames(view, self.limits)
            return commands, used
        if fed.used == len(view) and not fed.frames:  # all of it was the kernel's
            self.needed = _LENGTH_WORDS
            return [], fed.used
        commands = [command for frame in fed.frames for command in decode_frames(memoryview(frame), self.limits)[0]]
        behind, used, self.needed = decode_frames(view[fed.used :], self.limits)
        return commands + behind, fed.used + used


FLUSH_BYTES = 64 << 10  # written at once when this much has gathered
_JOIN_BYTES = 2 * FLUSH_BYTES  # beyond, pieces are handed over as they are instead of being copied together
_PEER_HEADER_BYTES = DEFAULT_LIMITS.header_bytes  # servers of ours take no larger ones, unless told to


class Outbox:
    """`add` gathers, `flush` writes. Never waits: the stream's own buffer and limits say when the peer is too slow."""

    __slots__ = ("_size", "_stream", "parts", "tls")

    def __init__(self, stream: asyncio.Transport, tls: TlsSession | None) -> None:
        self._stream = stream
        self.tls = tls
        self.parts: list[bytes | memoryview] = []
        self._size = 0

    def add(self, head: bytes, body: bytes | memoryview) -> int:
        """Add a frame; return how many bytes have gathered. Small bodies join their head, large ones stay uncopied."""
        if len(body) < FLUSH_BYTES:
            self.parts.append(head + body)
        else:
            self.parts += (head, body)
        self._size += len(head) + len(body)
        return self._size

    def flush(self) -> None:
        parts, size = self.parts, self._size
        if not parts:
            return
        self.parts, self._size = [], 0
        if self.tls is not None:
            self._stream.write(self.tls.encrypt(parts))
        elif len(parts) == 1:
            self._stream.write(parts[0])
        elif size < _JOIN_BYTES:
            self._stream.write(b"".join(parts))
        else:
            self._stream.writelines(parts)


class AnswerTooLarge(Exception):
    """A response over the limit; `instead` is what to send."""

    def __init__(self, command: Command, what: str) -> None:
        super().__init__(what)
        self.instead = Command(
            code=ResponseCode.SYSTEM_ERROR,
            opaque=command.opaque,
            flag=RESPONSE_FLAG,
            remark=f"the answer would be {what}: ask for less",
            encoding=command.encoding,
        )


def encode_within(command: Command, most_bytes: int, address: str) -> bytes:
    """Encode all of a frame but its body. RequestTooLarge or AnswerTooLarge if the peer would not take the frame."""
    try:
        head = encode_frame_head(command, len(command.body))
    except HeaderTooLarge as fault:
        raise _too_large(command, str(fault), address) from None
    total, header = len(head) + len(command.body) - 4, len(head) - 8
    if total > most_bytes:
        raise _too_large(command, f"a frame of {total} bytes (the limit is {most_bytes})", address)
    if header > _PEER_HEADER_BYTES and not command.is_response:
        raise _too_large(command, f"a header of {header} bytes (the limit is {_PEER_HEADER_BYTES})", address)
    return head


def _too_large(command: Command, what: str, address: str) -> Exception:
    if command.is_response:
        return AnswerTooLarge(command, what)
    return RequestTooLarge(f"request {command.code} cannot be sent to {address}: it is {what}")
