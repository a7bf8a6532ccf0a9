"""Frames: length words around a header and a body. Bytes in, commands out; owns no socket.

| total 4 | encoding 1 | header length 3 | header | body |     total counts everything behind itself, big-endian
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ..errors import ProtocolError
from .command import Command, decode_header, encode_header

_WORDS = struct.Struct(">iI")
_HTTP_2 = int.from_bytes(b"PRI ")  # as a length word: how every HTTP/2 connection begins
MOST_HEADER_BYTES = 0xFFFFFF  # its length has 24 bits, and the encoding stands above them


class FrameLimits(NamedTuple):
    """What a peer may make us hold, checked before memory is spent."""

    frame_bytes: int = 16 << 20  # com.rocketmq.remoting.frameMaxLength
    header_bytes: int = 1 << 20
    header_fields: int = 1024


DEFAULT_LIMITS = FrameLimits()


class HeaderTooLarge(ProtocolError):
    """No frame can carry such a header."""


def decode_frames(data: bytes | memoryview, limits: FrameLimits = DEFAULT_LIMITS) -> tuple[list[Command], int, int]:
    """Return all whole frames, the bytes they took, and how many bytes the frame behind them needs in all."""
    commands: list[Command] = []
    at, end, needed = 0, len(data), 8
    max_frame, max_header, max_fields = limits.frame_bytes, limits.header_bytes, limits.header_fields
    while end - at >= 8:
        total, word = _WORDS.unpack_from(data, at)
        header_length = word & MOST_HEADER_BYTES
        if not header_length + 4 <= total <= max_frame or header_length > max_header:
            raise _bad_lengths(total, header_length, limits)
        if end - at < 4 + total:
            needed = 4 + total
            break
        body_at = at + 8 + header_length
        # Copies, so that a command outlives the buffer that it came in. Slices of bytes are copies already.
        command = decode_header(word >> 24, bytes(data[at + 8 : body_at]), max_fields)
        at += 4 + total
        if body_at < at:
            command.body = bytes(data[body_at:at])
        commands.append(command)
    return commands, at, needed


def _bad_lengths(total: int, header_length: int, limits: FrameLimits) -> ProtocolError:
    """Return the error: the two length words of a frame do not fit each other or the limits."""
    if total == _HTTP_2:
        return ProtocolError(
            "the peer speaks HTTP/2, as gRPC clients do: give it the address of a broker's gRPC port "
            "(grpcServerPort, 8081) or of `pyromq proxy`"
        )
    if not 4 <= total <= limits.frame_bytes:
        return ProtocolError(f"frame length {total} is outside 4 to {limits.frame_bytes}")
    if header_length > total - 4:
        return ProtocolError(f"header length {header_length} is more than the frame's {total - 4}")
    return ProtocolError(f"header length {header_length} is over the limit of {limits.header_bytes}")


def encode_frame(command: Command) -> bytes:
    return encode_frame_head(command, len(command.body)) + command.body


def encode_frame_head(command: Command, body_length: int) -> bytes:
    """Return length words and header for a body that is written separately, without a copy. Raises HeaderTooLarge."""
    header = encode_header(command)
    if len(header) > MOST_HEADER_BYTES:
        raise HeaderTooLarge(f"a header of {len(header)} bytes, which does not fit the 24 bits of its length")
    return _WORDS.pack(4 + len(header) + body_length, command.encoding << 24 | len(header)) + header
