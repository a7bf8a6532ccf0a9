"""The journal's entries as values and as bytes: `kernel/pops.py` has the layout. Pure; `reader.py` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...pops import ACK, BASE, CHANGE, DROPPED, LANE, NEXT, POP, SUSPENDED, WITH_GAPS

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
QUEUES = range(-(1 << 31), 1 << 31)


class LaneEntry(NamedTuple):
    """A lane and its number."""

    lane: int
    queue_id: int
    next_offset: int
    group: str
    topic: str


class PopEntry(NamedTuple):
    """A new check point."""

    lane: int
    start: int
    pop_time: int
    invisible_ms: int
    revive_queue: int
    next_offset: int
    offsets: tuple[int, ...]


class AckEntry(NamedTuple):
    """Messages that are settled."""

    lane: int
    start: int
    pop_time: int
    bits: int


class ChangeEntry(NamedTuple):
    """One message that moved to a check point of its own."""

    lane: int
    start: int
    pop_time: int
    offset: int
    new_time: int
    invisible_ms: int
    revive_queue: int
    suspend: bool


class GoneEntry(NamedTuple):
    """A check point that left, revived or spilled."""

    lane: int
    start: int
    pop_time: int


class DropEntry(NamedTuple):
    """All check points of a lane left."""

    lane: int


class NextEntry(NamedTuple):
    """Where a lane goes on."""

    lane: int
    offset: int


class BaseEntry(NamedTuple):
    """Where a replay begins."""

    journal_offset: int


class OtherEntry(NamedTuple):
    """An entry of somebody else."""

    kind: int
    body: bytes


Entry = LaneEntry | PopEntry | AckEntry | ChangeEntry | GoneEntry | DropEntry | NextEntry | BaseEntry | OtherEntry


def word(value: int) -> int:
    """Return it, if it fits into 64 bits. OverflowError otherwise, as the native table says it."""
    if not LOWEST <= value <= HIGHEST:
        raise OverflowError(f"{value} does not fit into 64 bits")
    return value


def lane_entry(lane: int, queue_id: int, next_offset: int, group: str, topic: str) -> bytes:
    names = b"".join(_unsigned(len(raw)) + raw for raw in (group.encode(), topic.encode()))
    return bytes((LANE,)) + _unsigned(lane) + _signed(queue_id) + _signed(next_offset) + names


def pop_entry(entry: PopEntry) -> bytes:
    gaps = has_gaps(entry.start, entry.offsets)
    parts = [
        bytes((POP, WITH_GAPS if gaps else 0)),
        _unsigned(entry.lane),
        *map(_signed, (entry.start, entry.pop_time, entry.invisible_ms, entry.revive_queue)),
        _signed(entry.next_offset - entry.start),
        _unsigned(len(entry.offsets)),
    ]
    if gaps:
        behind = [entry.start, *(offset + 1 for offset in entry.offsets)]
        parts += [_unsigned(offset - before) for offset, before in zip(entry.offsets, behind, strict=False)]
    return b"".join(parts)


def ack_entry(lane: int, start: int, pop_time: int, bits: int) -> bytes:
    return bytes((ACK,)) + _unsigned(lane) + _signed(start) + _signed(pop_time) + _unsigned(bits)


def change_entry(entry: ChangeEntry) -> bytes:
    return b"".join(
        (
            bytes((CHANGE, SUSPENDED if entry.suspend else 0)),
            _unsigned(entry.lane),
            _signed(entry.start),
            _signed(entry.pop_time),
            _unsigned(entry.offset - entry.start),
            _signed(wrapped(entry.new_time - entry.pop_time)),
            _signed(entry.invisible_ms),
            _signed(entry.revive_queue),
        )
    )


def gone_entry(kind: int, lane: int, start: int, pop_time: int) -> bytes:
    return bytes((kind,)) + _unsigned(lane) + _signed(start) + _signed(pop_time)


def drop_entry(lane: int) -> bytes:
    return bytes((DROPPED,)) + _unsigned(lane)


def next_entry(lane: int, offset: int) -> bytes:
    return bytes((NEXT,)) + _unsigned(lane) + _signed(offset)


def base_entry(journal_offset: int) -> bytes:
    return bytes((BASE,)) + _unsigned(journal_offset)


def other_entry(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + _unsigned(len(body)) + body


def has_gaps(start: int, offsets: Sequence[int]) -> bool:
    """Return whether ascending offsets are other than those that follow from `start` on."""
    return offsets[0] != start or offsets[-1] - start != len(offsets) - 1


def _unsigned(value: int) -> bytes:
    raw = bytearray()
    while value > 127:
        raw.append(value & 127 | 128)
        value >>= 7
    raw.append(value)
    return bytes(raw)


def _signed(value: int) -> bytes:
    return _unsigned((value << 1) ^ (value >> 63))


def wrapped(value: int) -> int:
    """Return a difference or sum of two words modulo 2**64, as signed."""
    return (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)
