"""Whole answers and streams read at once, as only tests want them: servers and clients read them bit by bit."""

from __future__ import annotations

from collections.abc import Iterator

from pyromq.errors import ProtocolError
from pyromq.model.message import StoredMessage
from pyromq.protocol.bodies.registration import MAX_INFLATED_BYTES, RegisterBrokerBody, RegistrationReader
from pyromq.protocol.command import Command
from pyromq.protocol.compression import DEFAULT_PLAIN_LIMIT, CompressionMissing
from pyromq.protocol.frame import DEFAULT_LIMITS, FrameLimits, decode_frames
from pyromq.protocol.messages import read_messages
from pyromq.protocol.record import Record, decode_record


class FrameDecoder:
    """Bytes in, commands out. After a ProtocolError the stream is out of step and the decoder must be dropped."""

    def __init__(self, limits: FrameLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._needed = 8  # nothing is looked at before this many bytes are there

    @property
    def buffered(self) -> int:
        """Return how many bytes of the unfinished frame are here."""
        return len(self._buffer)

    def feed(self, data: bytes | memoryview) -> list[Command]:
        if not self._buffer:
            commands, used, self._needed = decode_frames(data, self._limits)
            if used < len(data):
                self._buffer += memoryview(data)[used:]
            return commands
        self._buffer += data
        if len(self._buffer) < self._needed:
            return []  # a large frame in small pieces is not scanned again with each piece
        with memoryview(self._buffer) as view:
            commands, used, self._needed = decode_frames(view, self._limits)
        del self._buffer[:used]
        return commands


def decode_messages(body: bytes | memoryview, *, plain_limit: int = DEFAULT_PLAIN_LIMIT) -> list[StoredMessage]:
    """Return all messages of a pull response. ProtocolError if one is damaged, cut, or too large once decompressed."""
    found = read_messages(body, plain_limit=plain_limit)
    for message in found.unreadable:
        raise (CompressionMissing if message.is_curable else ProtocolError)(message.fault)
    if found.broken:
        raise ProtocolError(found.broken)
    return found.messages


def decode_records(body: bytes | memoryview, *, verify: bool = True) -> Iterator[Record]:
    view = memoryview(body)
    at = 0
    while at < len(view):
        record = decode_record(view, at, verify=verify)
        yield record
        at += record.size


def decode_registration(
    data: bytes, version: int, compressed: bool = False, max_inflated: int = MAX_INFLATED_BYTES
) -> RegisterBrokerBody:
    reader = RegistrationReader(data, version, compressed, max_inflated)
    for _ in reader.read_slices():
        pass
    return reader.body
