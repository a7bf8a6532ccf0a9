"""Reads the journal's entries. Refuses whatever is cut off, out of range or of no known kind with DamagedJournal."""

from __future__ import annotations

from collections.abc import Iterator

from ...pops import (
    ACK,
    BASE,
    CHANGE,
    DROPPED,
    FIRST_OTHER,
    LANE,
    MOST_MESSAGES,
    MOST_REVIVE_QUEUE,
    NEXT,
    POP,
    REVIVED,
    SPILLED,
    SUSPENDED,
    WITH_GAPS,
    DamagedJournal,
)
from .entries import (
    HIGHEST,
    LOWEST,
    QUEUES,
    AckEntry,
    BaseEntry,
    ChangeEntry,
    DropEntry,
    Entry,
    GoneEntry,
    LaneEntry,
    NextEntry,
    OtherEntry,
    PopEntry,
    wrapped,
)

_WORD = (1 << 64) - 1
_NAMES = {
    LANE: "LANE",
    POP: "POP",
    ACK: "ACK",
    CHANGE: "CHANGE",
    REVIVED: "REVIVED",
    SPILLED: "SPILLED",
    DROPPED: "DROPPED",
    NEXT: "NEXT",
    BASE: "BASE",
}
_MOST_LANE = (1 << 31) - 1


def read_entries(raw: bytes) -> Iterator[Entry]:
    """Yield the entries. DamagedJournal at the first that cannot be read; those before it were fine."""
    reader = _Reader(raw)
    while reader.at < len(raw):
        yield reader.entry()


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = self._begin = 0

    def entry(self) -> Entry:
        self._begin = self.at
        kind = self._byte()
        match kind:
            case 1:
                return self._lane_entry()
            case 2:
                return self._pop()
            case 3:
                return AckEntry(self._lane(), self._signed(), self._signed(), self._unsigned())
            case 4:
                return self._change()
            case 5 | 6:
                return GoneEntry(self._lane(), self._signed(), self._signed())
            case 7:
                return DropEntry(self._lane())
            case 8:
                return NextEntry(self._lane(), self._signed())
            case 9:
                return BaseEntry(self._within(self._unsigned(), HIGHEST, "journal offset"))
            case _ if kind >= FIRST_OTHER:
                return OtherEntry(kind, self._bytes())
        raise self.refused("there is no such kind")

    def refused(self, why: str) -> DamagedJournal:
        kind = self.raw[self._begin]
        name = _NAMES.get(kind, f"of kind {kind}")
        return DamagedJournal(f"pop journal: entry {name} at byte {self._begin} of {len(self.raw)}: {why}")

    def _lane_entry(self) -> LaneEntry:
        lane, queue_id, following = self._lane(), self._signed(), self._signed()
        if queue_id not in QUEUES:
            raise self.refused(f"queue {queue_id} does not fit into 32 bits")
        return LaneEntry(lane, queue_id, following, self._text(), self._text())

    def _pop(self) -> PopEntry:
        flags = self._byte()
        lane, start, pop_time, invisible = self._lane(), self._signed(), self._signed(), self._signed()
        revive = self._revive_queue()
        following = self._sum(start, self._signed(), "next offset")
        count = self._within(self._unsigned(), MOST_MESSAGES, "count")
        if count == 0 or flags & ~WITH_GAPS:
            raise self.refused(f"flags {flags} with {count} messages")
        offsets = self._gaps(start, count) if flags else range(start, self._sum(start, count, "last offset"))
        return PopEntry(lane, start, pop_time, invisible, revive, following, tuple(offsets))

    def _gaps(self, start: int, count: int) -> list[int]:
        offsets: list[int] = []
        for _ in range(count):
            start = self._sum(start, self._within(self._unsigned(), HIGHEST, "distance"), "offset")
            offsets.append(start)
            start = self._sum(start, 1, "offset")
        return offsets

    def _change(self) -> ChangeEntry:
        flags = self._byte()
        lane, start, pop_time = self._lane(), self._signed(), self._signed()
        if flags & ~SUSPENDED:
            raise self.refused(f"flags {flags}")
        offset = self._sum(start, self._within(self._unsigned(), HIGHEST, "distance"), "offset")
        new_time = wrapped(pop_time + self._signed())
        return ChangeEntry(lane, start, pop_time, offset, new_time, self._signed(), self._revive_queue(), flags != 0)

    def _revive_queue(self) -> int:
        number = self._signed()
        if not 0 <= number <= MOST_REVIVE_QUEUE:
            raise self.refused(f"revive queue {number} is not 0 to {MOST_REVIVE_QUEUE}")
        return number

    def _lane(self) -> int:
        return self._within(self._unsigned(), _MOST_LANE, "lane")

    def _within(self, value: int, most: int, what: str) -> int:
        if value > most:
            raise self.refused(f"{what} {value} is above {most}")
        return value

    def _sum(self, one: int, other: int, what: str) -> int:
        if not LOWEST <= one + other <= HIGHEST:
            raise self.refused(f"{what} does not fit into 64 bits")
        return one + other

    def _byte(self) -> int:
        if self.at >= len(self.raw):
            raise self.refused("its end is missing")
        self.at += 1
        return self.raw[self.at - 1]

    def _unsigned(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                if value > _WORD:
                    break
                return value
        raise self.refused("a number does not fit into 64 bits")

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)

    def _bytes(self) -> bytes:
        length = self._unsigned()
        if length > len(self.raw) - self.at:
            raise self.refused("its end is missing")
        self.at += length
        return self.raw[self.at - length : self.at]

    def _text(self) -> str:
        try:
            return self._bytes().decode()
        except UnicodeDecodeError:
            raise self.refused("a name is not UTF-8") from None
