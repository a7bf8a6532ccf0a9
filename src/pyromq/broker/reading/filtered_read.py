"""A search through records for those that an expression matches: what a filtered pull will carry.

A bounded stretch at a time, so that a filter that matches little keeps the loop from nobody: bounded in records, in
bytes, and in time, since what an expression costs is the client's choice, and what it is asked of the producer's. Who
pulls goes on behind the last record that was tested. Nothing that is not in the page cache is read here: where that
begins, the caller gets to know and fetches it in a helper thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ...kernel.records import Range
from ...protocol.record import HEAD
from ...store.log.reader import GetStatus, Reader, Selection
from ..filters.filters import AnyFilter

MOST_ENTRIES = 448  # records that one search reads and tests: about a millisecond
MOST_BYTES = 1 << 20
_STEP_ENTRIES = 64  # the first step of a search; where little matches, each is twice as long as the one before
_STEP_BYTES = 128 << 10
SEARCH_S = 0.002
_LIGHT = 1 << 20  # bytes of a step times tests of the expression: less is tested without asking the clock


Monotonic = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Search:
    """Where to begin, and how much may be found."""

    topic: str
    queue_id: int
    offset: int
    max_count: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What matched. `unread` is the stretch that has to be fetched first, if that is what ended the search."""

    selection: Selection
    unread: Selection | None = None


class Matches:
    """Matches up to a number and a size; the first one is kept whatever its size."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.ranges: list[Range] = []
        self._bytes = 0

    def take(self, records: Sequence[bytes], wanted: AnyFilter, now: Monotonic, until: float) -> int | None:
        """Add records that match. Return where to go on if it is full now, or if the time is over; else None.

        One record is always tested.
        """
        if sum(map(len, records)) * wanted.tests < _LIGHT:
            return self._take(records, wanted)
        for raw in records:
            full = self._take((raw,), wanted)
            if full is not None:
                return full
            if now() >= until:
                return int(HEAD.unpack_from(raw)[5]) + 1
        return None

    def _take(self, records: Iterable[bytes], wanted: AnyFilter) -> int | None:
        for raw in wanted.accepted(records):
            _, _, _, _, _, offset, position, _, _ = HEAD.unpack_from(raw)
            if self.ranges and self._bytes + len(raw) > self._search.max_bytes:
                return int(offset)
            self.ranges.append(Range(position, len(raw), offset))
            self._bytes += len(raw)
            if len(self.ranges) >= self._search.max_count:
                return int(offset) + 1
        return None


def find_matches(reader: Reader, search: Search, wanted: AnyFilter, now: Monotonic) -> SearchResult:
    """Return the next matches from the search's offset on, as far as one search goes."""
    matches, at, until = Matches(search), search.offset, now() + SEARCH_S
    entries = size = 0
    count = _STEP_ENTRIES
    while True:
        step = reader.select(search.topic, search.queue_id, at, max_count=count, max_bytes=_STEP_BYTES, scan=count)
        if step.status not in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE):
            # A wrong offset, or the queue's end: then what was tested before counts.
            return SearchResult(step if at == search.offset else selection_of(step, matches, at))
        records = reader.read_resident(step.ranges)
        if records is None:
            return SearchResult(selection_of(step, matches, at), step)
        full = matches.take(records, wanted, now, until)
        at = step.next_offset if full is None else full
        entries += len(step.ranges)
        size += sum(map(len, records))
        is_enough = entries >= MOST_ENTRIES or size >= MOST_BYTES or now() >= until
        if full is not None or at >= step.max_offset or is_enough:
            return SearchResult(selection_of(step, matches, at))
        count = min(2 * count, MOST_ENTRIES - entries)


def selection_of(step: Selection, matches: Matches, next_offset: int) -> Selection:
    status = GetStatus.FOUND if matches.ranges else GetStatus.NO_MATCHED_MESSAGE
    return replace(step, status=status, ranges=matches.ranges, next_offset=next_offset)
