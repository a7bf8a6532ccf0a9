"""The classic replication stream: a master's log as chunks, a slave's reports. Bytes in, chunks and positions out.

master to slave   | position 8 | length 4 | so many bytes of the log |     length 0: a heartbeat, the position is next
slave to master   | position 8 |                                         up to where its log reaches

All big-endian. There is no hello: the first report says where the master begins (0: at its last file). A chunk never
crosses a file of the log, but may cut a record. `auto_switch.py` has the stream of elected sets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ...errors import ProtocolError

HEADER = struct.Struct(">qi")
REPORT = struct.Struct(">q")
MOST_CHUNK_BYTES = (4 << 20) - HEADER.size  # Java's slave has 4 MiB for a chunk with its header


class Chunk(NamedTuple):
    """Bytes of the master's log. None of them: a heartbeat."""

    position: int
    data: bytes


def encode_header(position: int, length: int) -> bytes:
    """Return what stands before `length` bytes of the log; with length 0, a heartbeat."""
    return HEADER.pack(position, length)


def encode_report(position: int) -> bytes:
    return REPORT.pack(position)


class ChunkReader:
    """Cuts what a master sends into chunks, however it arrives. Holds one chunk at most, `most_bytes` long."""

    def __init__(self, most_bytes: int = MOST_CHUNK_BYTES) -> None:
        self._most = most_bytes
        self._buffer = bytearray()

    def receive(self, data: bytes | memoryview) -> Iterator[Chunk]:
        """Yield the chunks that are whole now. ProtocolError: the peer is no master, or a broken one."""
        self._buffer += data
        while len(self._buffer) >= HEADER.size:
            position, length = HEADER.unpack_from(self._buffer)
            if position < 0 or not 0 <= length <= self._most:
                raise ProtocolError(
                    f"a chunk of {length} bytes at {position}: the master at the HA port sends something else than its "
                    f"log, in chunks of up to {self._most} bytes"
                )
            end = HEADER.size + length
            if len(self._buffer) < end:
                return
            chunk = Chunk(position, bytes(memoryview(self._buffer)[HEADER.size : end]))
            del self._buffer[:end]
            yield chunk


class ReportReader:
    """Cuts what a slave sends into reports. Only the newest counts, as in Java: each says all that went before."""

    def __init__(self) -> None:
        self._left = b""

    def receive(self, data: bytes | memoryview) -> int | None:
        """Return the newest report that is whole now; None if none is. ProtocolError: the peer is no slave."""
        received = self._left + bytes(data)
        whole = len(received) - len(received) % REPORT.size
        self._left = received[whole:]
        if not whole:
            return None
        position: int = REPORT.unpack_from(received, whole - REPORT.size)[0]
        if position < 0:
            raise ProtocolError(f"a report of {position}: whoever connected to the HA port is no slave of this broker")
        return position
