"""Frames on their way to one peer: gathered, written in as few pieces as sensible, encrypted where TLS is spoken."""

from __future__ import annotations

import asyncio

from ..tls import TlsSession

FLUSH_BYTES = 64 << 10  # written at once when this much has gathered
_JOIN_BYTES = 2 * FLUSH_BYTES  # beyond, pieces are handed over as they are instead of being copied together


class Outbox:
    """`add` gathers, `flush` writes. Never waits: the stream's own buffer and limits say when the peer is too slow."""

    __slots__ = ("_size", "_stream", "parts", "tls")

    def __init__(self, stream: asyncio.Transport, tls: TlsSession | None) -> None:
        self._stream = stream
        self.tls = tls
        self.parts: list[bytes | memoryview] = []
        self._size = 0

    def add(self, head: bytes, body: bytes | memoryview) -> int:
        """Bytes that have gathered so far. Small bodies are joined to their head, large ones are not copied."""
        if len(body) < FLUSH_BYTES:
            self.parts.append(head + body)
        else:
            self.parts += (head, body)
        self._size += len(head) + len(body)
        return self._size

    @property
    def is_empty(self) -> bool:
        return not self.parts

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
