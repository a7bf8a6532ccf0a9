"""Queue entries to ranges of the log: what a pull will carry, decided on 20-byte entries alone."""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

ENTRY = struct.Struct(">qiq")
ENTRY_BYTES = ENTRY.size
_CODE = struct.Struct(">q")
_CODE_AT = 12
_FEW_CODES = 8  # tags that are searched for one after the other
_MANY_ENTRIES = 200  # from here on a search for the bytes beats a look at each entry
_UNWRITTEN = bytes(ENTRY_BYTES)
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
    """Return the entries that match, in order.

    The first match is taken whatever its size; fillers and entries below the log's minimum `low` are stepped over; an
    entry that was never written ends it.
    """
    many = len(entries) >= _MANY_ENTRIES * ENTRY_BYTES
    if many and tag_codes is not None and len(tag_codes) <= _FEW_CODES and _UNWRITTEN not in entries:
        return _pick_rare(entries, first_offset, tag_codes, max_count, max_bytes, low)
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


def _pick_rare(
    entries: bytes, first_offset: int, tag_codes: Collection[int], max_count: int, max_bytes: int, low: int
) -> Picked:
    """Return what `pick_entries` does by searching for the tags' bytes, so that what does not match costs nothing."""
    ranges: list[Range] = []
    total = 0
    found = [(at, needle) for code in tag_codes if (at := _next(entries, needle := _CODE.pack(code), 0)) >= 0]
    heapify(found)
    while found:
        at, needle = found[0]
        offset = first_offset + at // ENTRY_BYTES
        if len(ranges) >= max_count:  # the loop above ends directly behind the last match
            return Picked(ranges, ranges[-1].queue_offset + 1, True)
        position, size, _ = ENTRY.unpack_from(entries, at - _CODE_AT)
        if size != FILLER_SIZE and position >= low:
            if ranges and total + size > max_bytes:
                return Picked(ranges, offset, True)
            ranges.append(Range(position, size, offset))
            total += size
        later = _next(entries, needle, at + 1)
        if later < 0:
            heappop(found)
        else:
            heapreplace(found, (later, needle))
    end = first_offset + len(entries) // ENTRY_BYTES
    if len(ranges) >= max_count and ranges and ranges[-1].queue_offset + 1 < end:
        return Picked(ranges, ranges[-1].queue_offset + 1, True)
    return Picked(ranges, end, False)


def _next(entries: bytes, needle: bytes, start: int) -> int:
    """Return where the next entry with this tag code has it. The same bytes across two fields do not count."""
    at = entries.find(needle, start)
    while at >= 0 and at % ENTRY_BYTES != _CODE_AT:
        at = entries.find(needle, at + 1)
    return at


def cut_sealed(ranges: Sequence[Range], parts: Sequence[bytes]) -> list[bytes] | None:
    """Return None always: this kernel has no fast pass, so that the caller checks each record."""
    return None
