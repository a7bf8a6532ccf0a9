"""gRPC messages in a stream of bytes: a flag (0 plain, 1 compressed), four bytes of length, the message. Sans-IO.

Sizes are checked before anything is kept or unpacked; a message that unpacks to more than it may is given up where it
passes the limit.
"""

from __future__ import annotations

import zlib

from ...errors import PyroError
from .status import GrpcStatus

PREFIX_BYTES = 5
_GZIP = 16 + zlib.MAX_WBITS


class MessageRefused(PyroError):
    """A message that cannot be taken: the call ends with this status and text, the connection stays."""

    def __init__(self, status: GrpcStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


def frame_message(message: bytes) -> bytes:
    """Return a message with its prefix, not compressed."""
    return b"\0" + len(message).to_bytes(4, "big") + message


class MessageReader:
    """Takes the data of one stream in pieces and gives whole messages. After a MessageRefused it must be dropped."""

    __slots__ = ("_encoding", "_most", "_most_unpacked", "_needed", "_tail")

    def __init__(self, most_bytes: int, encoding: str = "identity", most_unpacked: int = 16 << 20) -> None:
        """`encoding`: `grpc-encoding` of the headers. `most_unpacked` bounds compressed messages, `most_bytes` all."""
        self._most = most_bytes
        self._most_unpacked = min(most_bytes, most_unpacked)
        self._encoding = encoding
        self._tail = bytearray()
        self._needed = PREFIX_BYTES  # nothing is looked at before this many bytes are there

    @property
    def kept_bytes(self) -> int:
        """Bytes of a message that is not whole yet."""
        return len(self._tail)

    def receive(self, data: bytes) -> list[bytes]:
        """Return the messages that are whole now. MessageRefused if one is too large or cannot be unpacked."""
        if not self._tail and len(data) >= PREFIX_BYTES:  # nearly always one message in one piece
            end = self._end(data, 0)
            if end == len(data):
                return [self._message(data[0], bytes(data[PREFIX_BYTES:]))]
        self._tail += data
        if len(self._tail) < self._needed:
            return []
        return self._split()

    def _split(self) -> list[bytes]:
        tail, at = self._tail, 0
        messages = []
        self._needed = PREFIX_BYTES
        while len(tail) - at >= PREFIX_BYTES:
            end = self._end(tail, at)
            if end > len(tail):
                self._needed = end - at
                break
            messages.append(self._message(tail[at], bytes(tail[at + PREFIX_BYTES : end])))
            at = end
        del tail[:at]
        return messages

    def _end(self, data: bytes | bytearray, at: int) -> int:
        if data[at] > 1:
            raise MessageRefused(GrpcStatus.INTERNAL, "gRPC frame header malformed: reserved bits not zero")
        size = int.from_bytes(data[at + 1 : at + PREFIX_BYTES], "big")
        if size > self._most:
            raise MessageRefused(
                GrpcStatus.RESOURCE_EXHAUSTED, f"gRPC message exceeds maximum size {self._most}: {size}"
            )
        return at + PREFIX_BYTES + size

    def _message(self, flag: int, message: bytes) -> bytes:
        if not flag:
            return message
        if self._encoding not in ("gzip", "identity"):
            raise MessageRefused(GrpcStatus.UNIMPLEMENTED, f"Can't find decompressor for {self._encoding[:64]}")
        if self._encoding == "identity":
            text = "Can't decode compressed gRPC message as compression not configured"
            raise MessageRefused(GrpcStatus.INTERNAL, text)
        return _gunzip(message, self._most_unpacked)

    def check_end(self) -> None:
        """Raise MessageRefused where the stream has ended in the middle of a message."""
        if self._tail:
            raise MessageRefused(GrpcStatus.INTERNAL, "Encountered end-of-stream mid-frame")


def _gunzip(packed: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(_GZIP)
    try:
        message = unpacker.decompress(packed, most + 1)
    except zlib.error as fault:
        raise MessageRefused(GrpcStatus.INTERNAL, f"a message marked gzip cannot be unpacked: {fault}") from None
    if len(message) > most:
        raise MessageRefused(GrpcStatus.RESOURCE_EXHAUSTED, f"Decompressed gRPC message exceeds maximum size {most}")
    if not unpacker.eof or unpacker.unused_data:
        raise MessageRefused(GrpcStatus.INTERNAL, "a message marked gzip is cut off, or has more behind its end")
    return message
