"""Queue entries to ranges of the log: what a pull will carry, decided on 20-byte entries alone."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import NamedTuple

ENTRY = struct.Struct(">qiq")
ENTRY_BYTES = ENTRY.size
FILLER_SIZE = 0x7FFFFFFF  # an entry that stands for no record: the head of a queue that starts above 0, or a gap


class Range(NamedTuple):
    """One record to fetch."""

    position: int
    size: int
    queue_offset: int


class Picked(NamedTuple):
    """`next_offset` is behind the last entry looked at, matched or not: the next pull starts there."""

    ranges: list[Range]
    next_offset: int
    full: bool  # a limit on count or bytes ended it, not the end of the entries


def pick_entries(
    entries: bytes,
    first_offset: int,
    tag_codes: Collection[int] | None,
    max_count: int,
    max_bytes: int,
    low: int,
) -> Picked:
    """The entries that match, in order. The first match is taken whatever its size; fillers and entries below the
    log's minimum `low` are stepped over; an entry that was never written ends it."""
    ranges: list[Range] = []
    offset, total = first_offset, 0
    for position, size, code in ENTRY.iter_unpack(entries):
        if len(ranges) >= max_count:
            return Picked(ranges, offset, True)
        if size != FILLER_SIZE:
            if size == 0:
                break
            if position >= low and (tag_codes is None or code in tag_codes):
                if ranges and total + size > max_bytes:
                    return Picked(ranges, offset, True)
                ranges.append(Range(position, size, offset))
                total += size
        offset += 1
    return Picked(ranges, offset, False)
