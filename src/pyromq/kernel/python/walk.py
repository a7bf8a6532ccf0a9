"""Where the records of a buffer begin, as 8-byte numbers: for columns (spark/), which are made of many at once."""

from __future__ import annotations

from array import array

from ...protocol.record import RecordError, check_crc, framed_bytes, locate


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
