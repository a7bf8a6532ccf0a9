"""Walk the bytes of a log: which records are whole, where the first bad one is, and what is wrong with it.

Recovery, rebuild, verify and reads stand on it. A record is valid if size, magic, its own physical offset and its
CRCs fit: bytes of a reused file or of an older life of the log fail by their offset. Columns (spark/) are made of many
records at once, and ask where each begins.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple
from zlib import crc32

from ...model.message import WRAPPED_BATCH
from ...model.names import SCHEDULE_TOPIC
from ...model.times import DelayLevels
from ...protocol.record import (
    BLANK,
    BLANK_BYTES,
    CRC_BITS,
    CRC_PROPERTY_BYTES,
    FIXED_BYTES,
    HEAD,
    MAGIC_V1,
    MAGIC_V2,
    RecordError,
    check_crc,
    framed_bytes,
    locate,
    whole_record_crc,
)
from .placed import Placed, message_count, tag_code

_MAGICS = (MAGIC_V1, MAGIC_V2)


class Fault(NamedTuple):
    """The first bytes that are no record."""

    position: int
    reason: str
    is_end: bool  # size and magic are zero: nothing was ever written here


def whole_places(view: memoryview, position: int) -> tuple[list[Placed], int]:
    """Return the whole plain records from the start of `view` on, and how many of the first have their own CRC.

    The caller asks `check_at` about the first one that is left out: a kernel may leave out more than this one does.
    """
    places = list(plain_places(view, position))
    return places, sum(1 for _ in takewhile(is_sealed, places))


def plain_places(view: memoryview, position: int) -> Iterator[Placed]:
    """Yield the whole plain records from the start of `view` on: neither inner batches nor delayed by a level."""
    at = 0
    while len(view) - at >= FIXED_BYTES:
        if BLANK.unpack_from(view, at)[1] not in _MAGICS:
            return
        checked = check_at(view, at, position + at, {})
        if isinstance(checked, Fault) or checked.topic == SCHEDULE_TOPIC or checked.sys_flag & WRAPPED_BATCH:
            return
        yield checked
        at += checked.size


def is_sealed(placed: Placed) -> bool:
    """Return whether a record has its own CRC."""
    return whole_record_crc(placed.properties) is not None


def check_at(view: memoryview, at: int, position: int, delays: DelayLevels) -> Placed | Fault:
    """Return the record at `at`, which should lie at `position` of the log, or what is wrong with it."""
    if len(view) - at >= BLANK_BYTES and BLANK.unpack_from(view, at) == (0, 0):
        return Fault(position, "nothing was written here", True)
    try:
        found = locate(view, at)
        if found.physical_offset != position:
            return Fault(position, f"the record says that it lies at {found.physical_offset}", False)
        check_crc(view, at, found)
        topic = str(view[found.topic_at : found.topic_end], "utf-8")
    except (RecordError, UnicodeDecodeError) as fault:
        return Fault(position, str(fault), False)
    properties = bytes(view[found.properties_at : found.end])
    return Placed(
        position,
        found.size,
        topic,
        found.queue_id,
        found.queue_offset,
        found.sys_flag,
        found.store_timestamp,
        tag_code(topic, properties, found.store_timestamp, delays),
        properties,
        message_count(found.sys_flag, properties),
    )


def is_intact(view: memoryview, position: int) -> bool:
    """Return whether these bytes are exactly the record of that position, unharmed. Asked before it is handed out."""
    if len(view) < FIXED_BYTES:
        return False
    size, magic, _, _, _, _, own, _, _ = HEAD.unpack_from(view)
    if size != len(view) or own != position or magic not in _MAGICS:
        return False
    expected = whole_record_crc(bytes(view[-CRC_PROPERTY_BYTES:]))
    if expected is not None:  # it covers everything, so that nothing else needs a look
        return crc32(view[:-CRC_PROPERTY_BYTES]) & CRC_BITS == expected
    try:
        check_crc(view, 0, locate(view))
    except RecordError:
        return False
    return True


def walk_records(buffer: bytes | memoryview) -> bytes:
    """Return where each record of a pulled body begins. RecordError if sizes and magics do not lead to its end."""
    starts, at = array("q"), 0
    try:
        while at < len(buffer):
            starts.append(at)
            at += framed_bytes(buffer, at)
    except RecordError as fault:
        raise RecordError(f"at byte {at}: {fault}") from None
    return starts.tobytes()


def walk_log(buffer: bytes | memoryview, position: int, most: int, verify: bool) -> tuple[bytes, int]:
    """Walk records from the first byte, which lies at `position` of the log, while they begin before `most`.

    Return where each begins, up to the first that is not whole and intact, and where that is.
    """
    view = memoryview(buffer)
    starts, at = array("q"), 0
    while at < min(len(view), most):
        try:
            found = locate(view, at)
            if found.physical_offset != position + at:
                break
            if verify:
                check_crc(view, at, found)
            str(view[found.topic_at : found.topic_end], "utf-8")
        except (RecordError, UnicodeDecodeError):
            break
        starts.append(at)
        at = found.end
    return starts.tobytes(), at
