"""Walk the bytes of a log: which records are whole, where the first bad one is, and what is wrong with it.

Recovery, rebuild, verify and reads stand on it. A record is valid if size, magic, its own physical offset and its
CRCs fit: bytes of a reused file or of an older life of the log fail by their offset.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from ...model.message import SysFlag
from ...protocol.record import (
    BLANK,
    BLANK_BYTES,
    CRC_BITS,
    CRC_PROPERTY_BYTES,
    FIXED_BYTES,
    HEAD,
    LONG,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIDDLE,
    whole_record_crc,
)
from .placed import DelayLevels, Placed, message_count, tag_code

_MAGICS = (MAGIC_V1, MAGIC_V2)


class Fault(NamedTuple):
    """The first bytes that are no record."""

    position: int
    reason: str
    is_end: bool  # size and magic are zero: nothing was ever written here


class Scanned(NamedTuple):
    """`next_position` is where the scan stopped: at the fault, at the end of the bytes, or behind a blank record."""

    places: list[Placed]
    next_position: int
    fault: Fault | None
    file_done: bool  # a blank record was met: the log goes on in the next file
    cut: bool  # the last record goes on beyond the bytes that were given


def scan_records(view: memoryview, position: int, delays: DelayLevels, *, whole_file: bool = True) -> Scanned:
    """Walk records from the start of `view`, which lies at `position` of the log.

    `whole_file`: the view reaches to the end of its file, so that a record may not go on behind it.
    """
    places: list[Placed] = []
    at, end = 0, len(view)
    while at < end:
        left = end - at
        if left < BLANK_BYTES:
            fault = None if not whole_file else Fault(position + at, f"{left} bytes are left in the file", True)
            return Scanned(places, position + at, fault, False, not whole_file)
        size, magic = BLANK.unpack_from(view, at)
        if magic == MAGIC_BLANK:
            return Scanned(places, position + at, None, True, False)
        if magic in _MAGICS and size > left and not whole_file:
            return Scanned(places, position + at, None, False, True)
        checked = check_at(view, at, position + at, delays)
        if isinstance(checked, Fault):
            return Scanned(places, position + at, checked, False, False)
        places.append(checked)
        at += size
    return Scanned(places, position + at, None, False, False)


def is_intact(view: memoryview, position: int) -> bool:
    """Whether these bytes are exactly the record of that position, unharmed: the check before it is handed out."""
    length = len(view)
    if length < FIXED_BYTES:
        return False
    size, magic, body_crc, _, _, _, own, sys_flag, _ = HEAD.unpack_from(view)
    if size != length or own != position or magic not in _MAGICS:
        return False
    expected = whole_record_crc(bytes(view[-CRC_PROPERTY_BYTES:]))
    if expected is not None:
        return crc32(view[:-CRC_PROPERTY_BYTES]) & CRC_BITS == expected
    at = HEAD.size + 8 + (20 if sys_flag & SysFlag.BORN_HOST_V6 else 8)
    at += 20 if sys_flag & SysFlag.STORE_HOST_V6 else 8
    body_length = MIDDLE.unpack_from(view, at)[2] if at + MIDDLE.size <= length else -1
    at += MIDDLE.size
    return 0 <= body_length <= length - at and crc32(view[at : at + body_length]) & CRC_BITS == body_crc


def check_at(view: memoryview, at: int, position: int, delays: DelayLevels) -> Placed | Fault:
    """The record at `at`, which should lie at `position` of the log, or what is wrong with it."""
    left = len(view) - at
    if left < FIXED_BYTES:
        if left >= BLANK_BYTES and BLANK.unpack_from(view, at) == (0, 0):
            return Fault(position, "nothing was written here", True)
        return Fault(position, f"{left} bytes are left, too few for a record", False)
    size, magic, body_crc, queue_id, _, queue_offset, own, sys_flag, _ = HEAD.unpack_from(view, at)
    if magic not in _MAGICS:
        if size == 0 and magic == 0:
            return Fault(position, "nothing was written here", True)
        return Fault(position, f"magic is {magic:#010x}", False)
    if not FIXED_BYTES <= size <= left:
        return Fault(position, f"size is {size}, {left} bytes are left", False)
    if own != position:
        return Fault(position, f"the record says that it lies at {own}", False)
    end = at + size
    here = at + HEAD.size + (20 if sys_flag & SysFlag.BORN_HOST_V6 else 8)
    (store_time,) = LONG.unpack_from(view, here)
    here += 8 + (20 if sys_flag & SysFlag.STORE_HOST_V6 else 8)
    if here + MIDDLE.size > end:
        return Fault(position, "the record ends inside its header", False)
    _, _, body_length = MIDDLE.unpack_from(view, here)
    here += MIDDLE.size
    topic_at = here + body_length
    width = 2 if magic == MAGIC_V2 else 1
    if body_length < 0 or topic_at + width + 2 > end:
        return Fault(position, f"body length is {body_length}", False)
    if crc32(view[here:topic_at]) & CRC_BITS != body_crc:
        return Fault(position, "the body's CRC does not fit", False)
    topic_end = topic_at + width + int.from_bytes(view[topic_at : topic_at + width], "big")
    properties = bytes(view[topic_end + 2 : end])
    if topic_end + 2 > end or int.from_bytes(view[topic_end : topic_end + 2], "big", signed=True) != len(properties):
        return Fault(position, "the lengths of topic and properties do not add up to the record's size", False)
    expected = whole_record_crc(properties)
    if expected is not None and crc32(view[at : end - CRC_PROPERTY_BYTES]) & CRC_BITS != expected:
        return Fault(position, "the whole-record CRC does not fit", False)
    try:
        topic = str(view[topic_at + width : topic_end], "utf-8")
    except UnicodeDecodeError:
        return Fault(position, "the topic is not UTF-8", False)
    return Placed(
        position,
        size,
        topic,
        queue_id,
        queue_offset,
        sys_flag,
        store_time,
        tag_code(topic, properties, store_time, delays),
        properties,
        message_count(sys_flag, properties),
    )
