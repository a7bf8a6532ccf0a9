"""Speaks HTTP/1.1 to one server: one request at a time on one connection, whole answers or a stream of lines.

No redirects, cookies or proxies: the other side is etcd's gateway. What is not HTTP, or larger than it may be, raises
ConnectionLost, and the connection is of no more use.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from typing import NamedTuple

from ..errors import ConnectionLost
from ..model.wire_text import whole_number

MOST_BODY_BYTES = 8 << 20
MOST_LINE_BYTES = 4 << 20  # of a stream, and of its chunks
_MOST_HEADERS = 100
_CHUNK_SIZE = re.compile(r"[0-9a-fA-F]{1,8}")


class HttpAnswer(NamedTuple):
    status: int
    body: bytes


class _Head(NamedTuple):
    status: int
    headers: Mapping[str, str]

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def closes(self) -> bool:
        return "close" in self.headers.get("connection", "").lower()


class HttpConnection:
    """One connection. The caller bounds the time of its calls and closes what it gave up in the middle."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        """`host` is the name for the Host header: `name:port`."""
        self._reader = reader
        self._writer = writer
        self.host = host
        self._is_over = False

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent, as far as can be seen from here."""
        return not self._is_over and not self._reader.at_eof() and not self._writer.is_closing()

    async def ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Return the whole answer, whatever its status."""
        head = await self._exchange(method, path, body, headers)
        if not head.is_chunked:
            content = await self._whole_body(head)
        else:
            content = b"".join([piece async for piece in self._chunks(MOST_BODY_BYTES)])
        if head.closes:
            self.close()
        return HttpAnswer(head.status, content)

    async def stream(self, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """Yield the lines of an answer that does not end. A refusal is yielded as one line, whatever its status."""
        head = await self._exchange("POST", path, body, headers)
        if not head.is_chunked:
            yield await self._whole_body(head)
            return
        rest = b""
        async for piece in self._chunks(None):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line
            if len(rest) > MOST_LINE_BYTES:
                raise self._broken(f"a line of more than {MOST_LINE_BYTES} bytes")
        if rest:
            yield rest

    def close(self) -> None:
        self._is_over = True
        self._writer.close()

    async def _exchange(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> _Head:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        try:
            await self._writer.drain()
            return await self._head()
        except OSError as fault:
            self.close()
            raise ConnectionLost(f"the connection to {self.host} ended: {fault}") from None

    async def _head(self) -> _Head:
        version, _, rest = (await self._line()).partition(" ")
        status = whole_number(rest[:3], 100, 599)
        if not version.startswith("HTTP/1.") or status is None:
            raise self._broken(f"{version[:40]!r} where HTTP/1.1 was to begin")
        headers: dict[str, str] = {}
        while line := await self._line():
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
            if len(headers) > _MOST_HEADERS:
                raise self._broken(f"more than {_MOST_HEADERS} header lines")
        return _Head(status, headers)

    async def _whole_body(self, head: _Head) -> bytes:
        length = whole_number(head.headers.get("content-length", "0"), 0, MOST_BODY_BYTES)
        if length is None:
            raise self._broken(f"an answer of {head.headers['content-length'][:40]!r} bytes")
        return await self._exactly(length)

    async def _chunks(self, most: int | None) -> AsyncGenerator[bytes]:
        """Yield the pieces of a chunked body up to its end; `most` bounds all of them together."""
        total = 0
        while True:
            text = (await self._line()).partition(";")[0].strip()
            if _CHUNK_SIZE.fullmatch(text) is None:
                raise self._broken(f"{text[:40]!r} where the size of a chunk was to stand")
            size = int(text, 16)
            total += size
            if size > MOST_LINE_BYTES or (most is not None and total > most):
                raise self._broken(f"a chunk of {size} bytes")
            if not size:
                break
            yield await self._exactly(size)
            await self._line()
        while await self._line():  # trailers
            pass

    async def _line(self) -> str:
        try:
            line = await self._reader.readuntil(b"\r\n")
        except asyncio.IncompleteReadError:
            raise self._ended() from None
        except asyncio.LimitOverrunError:
            raise self._broken("a header line without an end") from None
        return line[:-2].decode("latin-1")

    async def _exactly(self, length: int) -> bytes:
        try:
            return await self._reader.readexactly(length)
        except asyncio.IncompleteReadError:
            raise self._ended() from None

    def _ended(self) -> ConnectionLost:
        self.close()
        return ConnectionLost(f"{self.host} closed the connection before its answer was whole")

    def _broken(self, what: str) -> ConnectionLost:
        self.close()
        return ConnectionLost(f"{self.host} does not speak HTTP as etcd does: it sent {what}")
