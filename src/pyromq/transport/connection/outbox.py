"""Frames on their way to one peer: gathered, written in as few pieces as sensible, encrypted where TLS is spoken."""

from __future__ import annotations

import asyncio

from ...errors import RequestTooLarge
from ...model.codes import ResponseCode
from ...protocol.command import RESPONSE_FLAG, Command
from ...protocol.frame import DEFAULT_LIMITS, HeaderTooLarge, encode_frame_head
from ..tls import TlsSession

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
        """Add a frame, and return how many bytes have gathered. Small bodies are joined to their head.

        Large ones are not copied.
        """
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
