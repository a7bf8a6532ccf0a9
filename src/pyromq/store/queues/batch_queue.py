"""A batch queue: 46 bytes an entry, one entry a record, a record may hold several messages.

The entry's number is not the queue offset: entries are searched by their base offset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ... import logs
from ...kernel.records import Picked, Placed, Range
from ...model.boundary import Boundary
from ..files.file_sequence import IrregularFile
from ..layout import BATCH_ENTRY, QueueEntry
from .entry_log import EntryLog
from .queue import QueueNumbers, SavedQueueState, StoreTimeAt
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


class BatchQueue(QueueNumbers):
    """See queue.MessageQueue."""

    __slots__ = ("_entries",)

    def __init__(self, entries: EntryLog) -> None:
        super().__init__(entries.tail)
        self._entries = entries

    def load(self) -> list[IrregularFile]:
        irregular = self._entries.load()
        self._follow_entries()
        return irregular

    def saved_state(self) -> SavedQueueState | None:
        return self._entries.saved_state(self.min_offset, is_batch=True)

    def restore(self, state: SavedQueueState, next_offset: int) -> None:
        self._entries.restore(state)
        self.tail.min_offset = state.min_offset
        self._go_on_at(next_offset)
        self.tail.readable_end = next_offset

    def _follow_entries(self) -> None:
        if not self._entries.is_empty:
            last = self._entry(self._entries.end - 1)
            self.tail.min_offset = self._entry(self._entries.first).base
            self._go_on_at(last.base + last.messages)
        else:
            self.tail.min_offset = 0
            self._go_on_at(0)
        self.tail.readable_end = self.next_offset

    def _go_on_at(self, offset: int) -> None:
        """Give the next message this offset."""
        self.tail.offsets_ahead = offset - self.tail.end

    def _entry(self, number: int) -> BatchQueueEntry:
        return BatchQueueEntry(*BATCH_ENTRY.unpack(self._entries.read(number, 1)))

    # -- writing ------------------------------------------------------------------------------------------------------

    def reserve(self, records: int) -> None:
        self._entries.reserve(records)

    def pack(self, places: Sequence[Placed]) -> bytes:
        return b"".join([BATCH_ENTRY.pack(*_entry_for(placed)) for placed in places])

    def accept(self, places: Sequence[Placed]) -> None:
        for placed in places:
            entry = _entry_for(placed)
            if placed.queue_offset < self.next_offset and not self._starts_anew(placed):
                self._mend(entry)
                continue
            if placed.queue_offset > self.next_offset and not self._entries.is_empty:
                log.warning("gap in a queue", topic=self.topic, queue=self.queue_id, offset=self.next_offset)
            if self._entries.is_empty:
                self.tail.min_offset = placed.queue_offset
            self._entries.reserve(1)
            self._entries.append(BATCH_ENTRY.pack(*entry))
            self._go_on_at(placed.queue_offset + placed.messages)

    def reserve_up_to(self, offset: int) -> None:
        """Do nothing: its entries name their own offsets, so there is nothing to fill."""
        if self._entries.is_empty:
            self.tail.min_offset = offset
        self._go_on_at(max(self.next_offset, offset))
        self.tail.readable_end = self.next_offset

    def _starts_anew(self, placed: Placed) -> bool:
        """Return whether this newer record with an older offset begins the queue anew: its topic was deleted before."""
        last = self.last_entry()
        if last is None or last.position >= placed.position:
            return False
        log.warning("queue starts anew", topic=self.topic, queue=self.queue_id, offset=placed.queue_offset)
        self.clear()
        return True

    def _mend(self, entry: BatchQueueEntry) -> None:
        number = self._number_of(entry.base)
        if number is not None and self._entry(number) != entry:
            log.warning("queue entry mended", topic=self.topic, queue=self.queue_id, offset=entry.base)
            self._entries.overwrite(number, BATCH_ENTRY.pack(*entry))

    # -- reading ------------------------------------------------------------------------------------------------------

    def _number_of(self, offset: int) -> int | None:
        """Return the entry whose messages include an offset; the one before the hole if it is lost."""
        low, high = self._entries.first, self._entries.end
        while low < high:
            middle = (low + high) // 2
            if self._entry(self._written(middle)).base <= offset:
                low = middle + 1
            else:
                high = middle
        return self._written(low - 1) if low > self._entries.first else None

    def _written(self, number: int) -> int:
        """Return the entry, or the nearest one before it that is not lost: zeroes must not mislead the search."""
        while number > self._entries.first and not self._entry(number).size:
            number -= 1
        return number

    def pick(
        self, offset: int, tag_codes: Collection[int] | None, max_count: int, max_bytes: int, low: int, scan: int
    ) -> Picked:
        """Pick records. One is handed out whole, also from an offset inside it; `max_count` counts messages."""
        number = self._number_of(offset)
        ranges: list[Range] = []
        next_offset, total, taken = offset, 0, 0
        raw = self._entries.read(self._entries.first if number is None else number, scan)
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

    def is_resident(self, offset: int, scan: int) -> bool:
        """Return whether a search would not wait.

        It looks at a few entries all over; those of one file are taken to be warm or cold together.
        """
        return self._entries.is_resident(self._entries.first, min(scan, self._entries.end - self._entries.first))

    def warm(self, offset: int, scan: int) -> None:
        self._entries.warm(self._entries.first, min(scan, self._entries.end - self._entries.first))

    def entry_at(self, offset: int) -> QueueEntry | None:
        if not self.min_offset <= offset < self.next_offset:
            return None
        number = self._number_of(offset)
        return None if number is None else self._entry(number).shown()

    def last_entry(self) -> QueueEntry | None:
        return None if self._entries.is_empty else self._entry(self._entries.end - 1).shown()

    def confirms(self, placed: Placed) -> bool:
        entry = self.entry_at(placed.queue_offset)
        return entry is not None and (entry.position, entry.size) == (placed.position, placed.size)

    def positions_from(self, position: int) -> list[int]:
        first = self._first_at_or_behind(position)
        raw = self._entries.read(first, self._entries.end - first)
        return [entry[0] for entry in BATCH_ENTRY.iter_unpack(raw)]

    def offset_by_time(self, time_ms: int, boundary: Boundary, store_time_at: StoreTimeAt) -> int:
        first, end = self._entries.first, self._entries.end
        number = search_by_time(first, end, time_ms, boundary, lambda place: self._entry(place).store_time)
        return self._entry(number).base if first <= number < end else self.readable_end

    # -- recovery and retention ---------------------------------------------------------------------------------------

    def discard_from(self, position: int, is_record: Callable[[QueueEntry], bool]) -> None:
        cut = self._first_at_or_behind(position)
        while cut > self._entries.first and self._is_torn(cut - 1, is_record):
            cut -= 1
        self._entries.cut(cut)
        self._follow_entries()

    def _is_torn(self, number: int, is_record: Callable[[QueueEntry], bool]) -> bool:
        """Return whether a lost sector left an entry that looks older than it is, and older than the one before it."""
        entry = self._entry(number)
        if number > self._entries.first:
            before = self._entry(number - 1)
            return entry.position <= before.position or entry.base != before.base + before.messages
        return not is_record(entry.shown())

    def _first_at_or_behind(self, position: int) -> int:
        return self._entries.search(
            self._entries.first, self._entries.end, lambda place, size: size > 0 and place < position
        )

    def raise_minimum(self, log_start: int) -> bool:
        first = self.entry_at(self.min_offset)
        if first is None or first.position >= log_start:
            return False
        number = self._entries.search(self._entries.first, self._entries.end, lambda place, size: place < log_start)
        self.tail.min_offset = self._entry(number).base if number < self._entries.end else self.next_offset
        return self._entries.drop_before(number)

    def file_names(self) -> list[str]:
        return self._entries.file_names()

    def clear(self) -> None:
        self._entries.clear()
        self.tail.min_offset = self.tail.offsets_ahead = self.tail.readable_end = 0


def _entry_for(placed: Placed) -> BatchQueueEntry:
    return BatchQueueEntry(
        placed.position, placed.size, placed.tag_code, placed.store_time, placed.queue_offset, placed.messages
    )
