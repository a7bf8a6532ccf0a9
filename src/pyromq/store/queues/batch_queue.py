"""A batch queue: 46 bytes an entry, one entry a record, a record may hold several messages.

The entry's number is not the queue offset: entries are searched by their base offset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ... import logs
from ...kernel.records import Picked, Placed, Range
from ...model.boundary import Boundary
from ..files.file_sequence import IrregularFile, first_without
from ..layout import BATCH_ENTRY, QueueEntry
from .queue import StoredQueue, StoreTimeAt
from .time_search import search_by_time

log = logs.get("pyromq.store")


class BatchQueueEntry(NamedTuple):
    """An entry as it is on disk."""

    position: int
    size: int
    tag_code: int
    store_time: int
    base: int
    messages: int
    compacted: int = -1
    reserved: int = 0

    def shown(self) -> QueueEntry:
        return QueueEntry(self.base, self.position, self.size, self.tag_code, self.messages)


class BatchQueue(StoredQueue):
    __slots__ = ()

    is_batch = True

    def load(self) -> list[IrregularFile]:
        irregular = self.entries.load()
        self._follow_entries()
        return irregular

    def _follow_entries(self) -> None:
        if not self.entries.is_empty:
            last = self._entry(self.entries.end - 1)
            self.tail.min_offset = self._entry(self.entries.first).base
            self._go_on_at(last.base + last.messages)
        else:
            self.tail.min_offset = 0
            self._go_on_at(0)
        self.tail.readable_end = self.next_offset

    def _go_on_at(self, offset: int) -> None:
        self.tail.offsets_ahead = offset - self.tail.end

    def _entry(self, number: int) -> BatchQueueEntry:
        return BatchQueueEntry(*BATCH_ENTRY.unpack(self.entries.read(number, 1)))

    # -- writing ------------------------------------------------------------------------------------------------------

    def pack(self, places: Sequence[Placed]) -> bytes:
        return b"".join([BATCH_ENTRY.pack(*_entry_for(placed)) for placed in places])

    def accept(self, places: Sequence[Placed]) -> None:
        for placed in places:
            entry = _entry_for(placed)
            if placed.queue_offset < self.next_offset:
                if not self._starts_anew(placed):
                    self._mend(entry)
                    continue
                self.clear()
            if placed.queue_offset > self.next_offset and not self.entries.is_empty:
                log.warning("gap in a queue", topic=self.topic, queue=self.queue_id, offset=self.next_offset)
            if self.entries.is_empty:
                self.tail.min_offset = placed.queue_offset
            self.entries.reserve(1)
            self.entries.append(BATCH_ENTRY.pack(*entry))
            self._go_on_at(placed.queue_offset + placed.messages)

    def reserve_up_to(self, offset: int) -> None:
        """Do nothing: its entries name their own offsets, so there is nothing to fill."""
        if self.entries.is_empty:
            self.tail.min_offset = offset
        self._go_on_at(max(self.next_offset, offset))
        self.tail.readable_end = self.next_offset

    def _discard_at(self, offset: int) -> None:
        self.clear()

    def _mend(self, entry: BatchQueueEntry) -> None:
        number = self._number_of(entry.base)
        if number is not None and self._entry(number) != entry:
            log.warning("queue entry mended", topic=self.topic, queue=self.queue_id, offset=entry.base)
            self.entries.overwrite(number, BATCH_ENTRY.pack(*entry))

    # -- reading ------------------------------------------------------------------------------------------------------

    def _number_of(self, offset: int) -> int | None:
        """Return the entry whose messages include an offset; the one before the hole if it is lost."""
        first = self.entries.first
        behind = first_without(
            first, self.entries.end, lambda number: self._entry(self._written(number)).base <= offset
        )
        return self._written(behind - 1) if behind > first else None

    def _written(self, number: int) -> int:
        """Return the entry, or the nearest one before it that is not lost: zeroes must not mislead the search."""
        while number > self.entries.first and not self._entry(number).size:
            number -= 1
        return number

    def pick(
        self, offset: int, tag_codes: Collection[int] | None, max_count: int, max_bytes: int, low: int, scan: int
    ) -> Picked:
        """Pick records. One is handed out whole, also from an offset inside it; `max_count` counts messages."""
        number = self._number_of(offset)
        ranges: list[Range] = []
        next_offset, total, taken = offset, 0, 0
        raw = self.entries.read(self.entries.first if number is None else number, scan)
        for fields in BATCH_ENTRY.iter_unpack(raw):
            entry = BatchQueueEntry(*fields)
            if entry.base + entry.messages > self.readable_end:
                break
            if entry.size == 0 or entry.base + entry.messages <= offset:
                continue  # lost, or what lies before those that are
            if entry.position >= low and (tag_codes is None or entry.tag_code in tag_codes):
                if ranges and (taken + entry.messages > max_count or total + entry.size > max_bytes):
                    return Picked(ranges, next_offset, True)
                ranges.append(Range(entry.position, entry.size, entry.base))
                total += entry.size
                taken += entry.messages
            next_offset = entry.base + entry.messages
        return Picked(ranges, next_offset, False)

    def skip_missing(self, offset: int) -> int:
        """Return where to go on.

        Entries name their own offsets: behind a hole a pick has taken the next that is there, so none is left.
        """
        return self.readable_end

    def _scanned(self, offset: int, scan: int) -> tuple[int, int]:
        """Return the first entries: a search looks at a few all over, and those of a file are warm or cold together."""
        return self.entries.first, min(scan, self.entries.end - self.entries.first)

    def entry_at(self, offset: int) -> QueueEntry | None:
        if not self.min_offset <= offset < self.next_offset:
            return None
        number = self._number_of(offset)
        return None if number is None else self._entry(number).shown()

    def last_entry(self) -> QueueEntry | None:
        return None if self.entries.is_empty else self._entry(self.entries.end - 1).shown()

    def offset_by_time(self, time_ms: int, boundary: Boundary, store_time_at: StoreTimeAt) -> int:
        first, end = self.entries.first, self.entries.end
        number = search_by_time(first, end, time_ms, boundary, lambda place: self._entry(place).store_time)
        return self._entry(number).base if first <= number < end else self.readable_end

    # -- recovery and retention ---------------------------------------------------------------------------------------

    def discard_from(self, position: int, is_record: Callable[[QueueEntry], bool]) -> None:
        cut = self._first_at_or_behind(position)
        while cut > self.entries.first and self._is_torn(cut - 1, is_record):
            cut -= 1
        self.entries.cut(cut)
        self._follow_entries()

    def _is_torn(self, number: int, is_record: Callable[[QueueEntry], bool]) -> bool:
        """Return whether a lost sector left an entry that looks older than it is, and older than the one before it."""
        entry = self._entry(number)
        if number > self.entries.first:
            before = self._entry(number - 1)
            return entry.position <= before.position or entry.base != before.base + before.messages
        return not is_record(entry.shown())

    def _first_at_or_behind(self, position: int) -> int:
        return self.entries.search(
            self.entries.first, self.entries.end, lambda place, size: size > 0 and place < position
        )

    def raise_minimum(self, log_start: int) -> bool:
        first = self.entry_at(self.min_offset)
        if first is None or first.position >= log_start:
            return False
        number = self.entries.search(self.entries.first, self.entries.end, lambda place, size: place < log_start)
        self.tail.min_offset = self._entry(number).base if number < self.entries.end else self.next_offset
        return self.entries.drop_before(number)


def _entry_for(placed: Placed) -> BatchQueueEntry:
    return BatchQueueEntry(
        placed.position, placed.size, placed.tag_code, placed.store_time, placed.queue_offset, placed.messages
    )
