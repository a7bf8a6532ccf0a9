"""Looking through records for those that an expression matches: what a filtered pull will carry.

A bounded stretch at a time, so that a filter that matches little keeps the loop from nobody. Nothing that is not in the
page cache is read here: where that begins, the caller is told and fetches it in a helper thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..kernel.records import Range
from ..protocol.record import HEAD
from ..store.reader import GetStatus, Reader, Selection
from .filters import RetrySieve, Sieve

MOST_ENTRIES = 448  # records that one look reads and asks: about a millisecond
MOST_BYTES = 1 << 20
_STEP_ENTRIES = 64  # the first step of a look; where little matches, each is twice as long as the one before
_STEP_BYTES = 128 << 10


@dataclass(frozen=True, slots=True)
class Search:
    """Where to look, and how much may be found."""

    topic: str
    queue_id: int
    offset: int
    max_count: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Sifted:
    """What matched. `unread` is the stretch that has to be fetched first, if that is what ended the search."""

    selection: Selection
    unread: Selection | None = None


class Catch:
    """Matches up to a number and a size; the first one is kept whatever its size."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.ranges: list[Range] = []
        self._bytes = 0

    def take(self, records: Iterable[bytes], sieve: Sieve | RetrySieve) -> int | None:
        """Where to go on if it is full now, else None."""
        for raw in sieve.accepted(records):
            _, _, _, _, _, offset, position, _, _ = HEAD.unpack_from(raw)
            if self.ranges and self._bytes + len(raw) > self._search.max_bytes:
                return int(offset)
            self.ranges.append(Range(position, len(raw), offset))
            self._bytes += len(raw)
            if len(self.ranges) >= self._search.max_count:
                return int(offset) + 1
        return None


def sift(reader: Reader, search: Search, sieve: Sieve | RetrySieve) -> Sifted:
    """The next matches from the search's offset on, as far as one look goes."""
    catch, at = Catch(search), search.offset
    entries = size = 0
    wanted = _STEP_ENTRIES
    while True:
        step = reader.select(search.topic, search.queue_id, at, max_count=wanted, max_bytes=_STEP_BYTES, scan=wanted)
        if step.status not in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE):
            # A wrong offset, or the queue's end: then what was looked at before counts.
            return Sifted(step if at == search.offset else caught(step, catch, at))
        records = reader.read_resident(step.ranges)
        if records is None:
            return Sifted(caught(step, catch, at), step)
        full = catch.take(records, sieve)
        at = step.next_offset if full is None else full
        entries += len(step.ranges)
        size += sum(map(len, records))
        if full is not None or at >= step.max_offset or entries >= MOST_ENTRIES or size >= MOST_BYTES:
            return Sifted(caught(step, catch, at))
        wanted = min(2 * wanted, MOST_ENTRIES - entries)


def caught(step: Selection, catch: Catch, next_offset: int) -> Selection:
    status = GetStatus.FOUND if catch.ranges else GetStatus.NO_MATCHED_MESSAGE
    return replace(step, status=status, ranges=catch.ranges, next_offset=next_offset)
