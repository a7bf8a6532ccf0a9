"""Whole frames of a received buffer, and what they are by their first bytes. Both feeds walk by it."""

from __future__ import annotations

import struct

from ...errors import ProtocolError
from ...model.wire_text import whole_number
from ...protocol.command import Command
from ...protocol.frame import FrameLimits, decode_frames

_WORDS = struct.Struct(">II")
_CODE = struct.Struct(">H")
_JSON_CODE = b'{"code":'
_NUMBER_BYTES = 6  # of a code in JSON, with what is behind it
MOST_FIELDS = 19  # of a plain send or pull: 14, four of a signature, and a time-out


def frame_end(received: memoryview, at: int, limits: FrameLimits) -> int:
    """Return where the whole frame at `at` ends; -1 if there is none, or its lengths are wrong."""
    if len(received) - at < 8:
        return -1
    total: int
    word: int
    total, word = _WORDS.unpack_from(received, at)
    header = word & 0xFFFFFF
    if total > limits.frame_bytes or header > limits.header_bytes or not 4 + header <= total <= len(received) - at - 4:
        return -1
    return at + 4 + total


def code_of(frame: memoryview) -> int:
    """Return the code of a whole frame; -1: its header does not begin as clients write it."""
    word: int = _WORDS.unpack_from(frame)[1]
    if word >> 24 == 1:
        code: int = _CODE.unpack_from(frame, 8)[0] if word & 0xFFFFFF >= 2 else -1
        return code
    begin = bytes(frame[8 : 8 + len(_JSON_CODE) + _NUMBER_BYTES])
    number = whole_number(begin[len(_JSON_CODE) :].partition(b",")[0]) if begin.startswith(_JSON_CODE) else None
    return -1 if number is None else number


def decoded(frame: memoryview, limits: FrameLimits) -> Command | None:
    """Return the command of a whole frame; None: it is malformed or has many fields, which the handlers see."""
    try:
        return decode_frames(frame, limits)[0][0]
    except ProtocolError:
        return None
