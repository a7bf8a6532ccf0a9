"""Looking through records for those that an expression matches: what a filtered pull will carry.

A bounded stretch at a time, so that a filter that matches little keeps the loop from nobody: bounded in records, in
bytes, and in time, since what an expression costs is the client's choice, and what it is asked of the producer's. Who
pulls goes on behind the last record that was looked at. Nothing that is not in the page cache is read here: where that
begins, the caller is told and fetches it in a helper thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ...kernel.records import Range
from ...protocol.record import HEAD
from ...store.log.reader import GetStatus, Reader, Selection
from .filters import RetrySieve, Sieve

MOST_ENTRIES = 448  # records that one look reads and asks: about a millisecond
MOST_BYTES = 1 << 20
_STEP_ENTRIES = 64  # the first step of a look; where little matches, each is twice as long as the one before
_STEP_BYTES = 128 << 10
LOOK_S = 0.002
_LIGHT = 1 << 20  # bytes of a step times tests of the expression: less is asked without a look at the clock


Monotonic = Callable[[], float]


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

    def take(self, records: Sequence[bytes], sieve: Sieve | RetrySieve, now: Monotonic, until: float) -> int | None:
        """Return where to go on if it is full now, or if the time is over; else None.

        One record is always looked at.
        """
        if sum(map(len, records)) * sieve.tests < _LIGHT:
            return self._take(records, sieve)
        for raw in records:
            full = self._take((raw,), sieve)
            if full is not None:
                return full
            if now() >= until:
                return int(HEAD.unpack_from(raw)[5]) + 1
        return None

    def _take(self, records: Iterable[bytes], sieve: Sieve | RetrySieve) -> int | None:
        for raw in sieve.accepted(records):
            _, _, _, _, _, offset, position, _, _ = HEAD.unpack_from(raw)
            if self.ranges and self._bytes + len(raw) > self._search.max_bytes:
                return int(offset)
            self.ranges.append(Range(position, len(raw), offset))
            self._bytes += len(raw)
            if len(self.ranges) >= self._search.max_count:
                return int(offset) + 1
        return None


def sift(reader: Reader, search: Search, sieve: Sieve | RetrySieve, now: Monotonic) -> Sifted:
    """Return the next matches from the search's offset on, as far as one look goes."""
    catch, at, until = Catch(search), search.offset, now() + LOOK_S
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
        full = catch.take(records, sieve, now, until)
        at = step.next_offset if full is None else full
        entries += len(step.ranges)
        size += sum(map(len, records))
        is_enough = entries >= MOST_ENTRIES or size >= MOST_BYTES or now() >= until
        if full is not None or at >= step.max_offset or is_enough:
            return Sifted(caught(step, catch, at))
        wanted = min(2 * wanted, MOST_ENTRIES - entries)


def caught(step: Selection, catch: Catch, next_offset: int) -> Selection:
    status = GetStatus.FOUND if catch.ranges else GetStatus.NO_MATCHED_MESSAGE
    return replace(step, status=status, ranges=catch.ranges, next_offset=next_offset)
