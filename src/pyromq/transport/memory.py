"""Streams inside the process with the interface of socket transports, so that conversations run in tests without ports.

    network = MemoryNetwork()
    network.listen("namesrv:9876", server.attach)
    client = Client(connect=network.connect, ...)

Bytes pass with the loop's next turn, in pieces of `chunk_bytes` at most, and only while the receiver reads: the rest
fills the sender's write buffer, as with a socket.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable
from typing import Any

_CHUNK_BYTES = 64 << 10
_WRITE_HIGH_BYTES = 64 << 10  # asyncio's own default


class MemoryStream(asyncio.Transport):
    """One end. Made by `pair`; give it a protocol with `set_protocol` before the other end writes."""

    def __init__(self, address: str, peer_address: str, chunk_bytes: int) -> None:
        host, _, port = peer_address.rpartition(":")
        own_host, _, own_port = address.rpartition(":")
        super().__init__({"peername": (host, int(port)), "sockname": (own_host, int(own_port))})
        self._chunk_bytes = chunk_bytes
        self._loop = asyncio.get_running_loop()
        self._protocol: asyncio.BaseProtocol | None = None
        self.other: MemoryStream  # `pair` sets it
        self._unsent = bytearray()
        self._high, self._low = _WRITE_HIGH_BYTES, _WRITE_HIGH_BYTES // 4
        self._writing_is_paused = False
        self._reading = True
        self._closing = False
        self._lost = False
        self.was_reset = False
        self._delivery_is_due = False

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._lost:
            return
        self._unsent += data
        if len(self._unsent) > self._high and not self._writing_is_paused and self._protocol is not None:
            self._writing_is_paused = True
            self._protocol.pause_writing()
        self.other.deliver_soon()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _WRITE_HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    # --- reading -----------------------------------------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self.deliver_soon()

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self.deliver_soon()

    def is_reading(self) -> bool:
        return self._reading

    def deliver_soon(self) -> None:
        if not self._delivery_is_due:
            self._delivery_is_due = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        """Take a piece from the other end's buffer; its end of file comes behind the last one."""
        self._delivery_is_due = False
        if self._lost or not self._reading or self._protocol is None:
            return
        sender = self.other
        piece = sender.take(self._chunk_bytes)
        if piece:
            _hand_over(self._protocol, piece)
            self.deliver_soon()
        elif sender.is_closing() and not sender.was_reset:
            self._lose(None)

    def take(self, most: int) -> bytes:
        piece = bytes(self._unsent[:most])
        del self._unsent[:most]
        if self._writing_is_paused and len(self._unsent) <= self._low and self._protocol is not None:
            self._writing_is_paused = False
            self._protocol.resume_writing()
        if self._closing and not self._unsent:
            self._loop.call_soon(self._lose, None)
        return piece

    @property
    def is_under_way(self) -> bool:
        """Return whether the other end will take something that was written, without anything else happening first."""
        return bool(self._unsent) and self.other.is_reading() and not self.other.is_closing()

    # --- the end -----------------------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._closing or self._lost

    def close(self) -> None:
        """End the stream when what was written has been read."""
        if self._closing or self._lost:
            return
        self._closing = True
        self.other.deliver_soon()
        if not self._unsent:
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        """Cut off: the other end hears of it at once, whether it reads or not."""
        self._closing = self.was_reset = True
        self._unsent.clear()
        self._loop.call_soon(self._lose, None)
        self._loop.call_soon(self.other._lose, ConnectionResetError("connection reset by peer"))

    def _lose(self, fault: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._unsent.clear()
        if self._protocol is not None:
            self._protocol.connection_lost(fault)
        self.other.deliver_soon()


def pair(
    near: str = "near:1", far: str = "far:2", chunk_bytes: int = _CHUNK_BYTES
) -> tuple[MemoryStream, MemoryStream]:
    """Make the two ends of one stream; each sees the other's address as its peer's."""
    near_end, far_end = MemoryStream(near, far, chunk_bytes), MemoryStream(far, near, chunk_bytes)
    near_end.other, far_end.other = far_end, near_end
    return near_end, far_end


class MemoryNetwork:
    """Addresses and who listens there. `connect` fits `Client(connect=...)`."""

    def __init__(self, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._listeners: dict[str, Callable[[asyncio.Transport], object]] = {}
        self._port = 49_152
        self._streams: weakref.WeakSet[MemoryStream] = weakref.WeakSet()

    @property
    def is_quiet(self) -> bool:
        """Return whether nothing is under way between two ends that read."""
        return not any(each.is_under_way for each in self._streams if not each.is_closing())

    def listen(self, address: str, attach: Callable[[asyncio.Transport], object]) -> None:
        self._listeners[address] = attach

    def unlisten(self, address: str) -> None:
        """Refuse further connections; those that exist stay."""
        self._listeners.pop(address, None)

    async def connect(self, address: str, protocol: asyncio.BaseProtocol) -> None:
        attach = self._listeners.get(address)
        if attach is None:
            raise ConnectionRefusedError(f"nobody listens at {address}")
        self._port += 1
        near, far = pair(f"client:{self._port}", address, self._chunk_bytes)
        self._streams.update((near, far))
        attach(far)
        near.set_protocol(protocol)
        protocol.connection_made(near)


def _hand_over(protocol: asyncio.BaseProtocol, piece: bytes) -> None:
    if isinstance(protocol, asyncio.BufferedProtocol):
        while piece:
            buffer = memoryview(protocol.get_buffer(len(piece)))
            size = min(len(buffer), len(piece))
            buffer[:size] = piece[:size]
            protocol.buffer_updated(size)
            piece = piece[size:]
    elif isinstance(protocol, asyncio.Protocol):
        protocol.data_received(piece)
