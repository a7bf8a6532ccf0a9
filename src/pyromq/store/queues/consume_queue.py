"""A consume queue: queue offset to place in the log, 20 bytes an entry, the entry's number is the offset."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ... import logs
from ...kernel.records import Picked, Placed, pick_entries
from ...model.boundary import Boundary
from ...model.names import SCHEDULE_TOPIC
from ..files.file_sequence import IrregularFile, first_without
from ..layout import FILLER, FILLER_SIZE, QUEUE_ENTRY, QUEUE_ENTRY_BYTES, QueueEntry
from .queue import StoredQueue, StoreTimeAt
from .time_search import search_by_time

log = logs.get("pyromq.store")

_FILL_AT_ONCE = 4096
_SEARCHED_TOGETHER = 100  # entries: half a page, so that reading them costs as much as reading one


class ConsumeQueue(StoredQueue):
    __slots__ = ()

    is_batch = False

    def load(self) -> list[IrregularFile]:
        irregular = self.entries.load()
        first, end = self.entries.first, self.entries.end
        self.tail.min_offset = first
        if first < end and self.entries.head(first)[1] == FILLER_SIZE:  # a filled head
            self.tail.min_offset = self.entries.search(first, end, lambda _, size: size == FILLER_SIZE)
        self.tail.readable_end = end
        return irregular

    # -- writing ------------------------------------------------------------------------------------------------------

    def accept(self, places: Sequence[Placed]) -> None:
        run: list[bytes] = []
        expected = self.entries.end
        for placed in places:
            packed = self.pack((placed,))
            if placed.queue_offset != expected:
                self._append(run)
                run = []
                if placed.queue_offset < self.entries.end:
                    if not self._starts_anew(placed):
                        self._mend(placed, packed)
                        continue
                    self._discard_at(placed.queue_offset)
                self.reserve_up_to(placed.queue_offset)
            run.append(packed)
            expected = placed.queue_offset + 1
        self._append(run)

    def pack(self, places: Sequence[Placed]) -> bytes:
        return b"".join([QUEUE_ENTRY.pack(placed.position, placed.size, placed.tag_code) for placed in places])

    def _append(self, run: list[bytes]) -> None:
        if run:
            self.entries.reserve(len(run))
            self.entries.append(run[0] if len(run) == 1 else b"".join(run))

    def _discard_at(self, offset: int) -> None:
        if offset <= self.min_offset:
            self.clear()
        else:
            self.entries.cut(offset)

    def _mend(self, placed: Placed, packed: bytes) -> None:
        """Mend the entry of a record that has one: leave it if it is right."""
        if placed.queue_offset < self.entries.first:
            return
        present = self.entries.read(placed.queue_offset, 1)
        if present != packed and not self._keeps_its_time(placed, present):
            log.warning("queue entry mended", topic=self.topic, queue=self.queue_id, offset=placed.queue_offset)
            self.entries.overwrite(placed.queue_offset, packed)

    def _keeps_its_time(self, placed: Placed, present: bytes) -> bool:
        """Return whether the entry of a delayed message keeps its time, which an older table of levels gave it."""
        if self.topic != SCHEDULE_TOPIC or len(present) != QUEUE_ENTRY_BYTES:
            return False
        position, size, due_ms = QUEUE_ENTRY.unpack(present)
        return (position, size) == (placed.position, placed.size) and due_ms >= placed.store_time

    def reserve_up_to(self, offset: int) -> None:
        """Add entries that stand for no record: in front of a queue that starts above 0, or where damage was."""
        if self.entries.is_empty:
            self.entries.clear()
            self.entries.begin_at(offset)
            self.tail.min_offset = offset
        elif self.entries.end < offset:
            log.warning("gap in a queue", topic=self.topic, queue=self.queue_id, offset=self.next_offset, until=offset)
        while self.entries.end < offset:
            count = min(_FILL_AT_ONCE, offset - self.entries.end)
            self.entries.reserve(count)
            self.entries.append(FILLER * count)

    # -- reading ------------------------------------------------------------------------------------------------------

    def pick(
        self, offset: int, tag_codes: Collection[int] | None, max_count: int, max_bytes: int, low: int, scan: int
    ) -> Picked:
        raw = self.entries.read(offset, min(scan, self.readable_end - offset))
        return pick_entries(raw, offset, tag_codes, max_count, max_bytes, low)

    def skip_missing(self, offset: int) -> int:
        count = min(_FILL_AT_ONCE, self.readable_end - offset)
        entries = QUEUE_ENTRY.iter_unpack(self.entries.read(offset, count))
        return next((number for number, (_, size, _) in enumerate(entries, offset) if size), offset + count)

    def entry_at(self, offset: int) -> QueueEntry | None:
        if not self.entries.first <= offset < self.entries.end:
            return None
        raw = self.entries.read(offset, 1)
        return QueueEntry(offset, *QUEUE_ENTRY.unpack(raw)) if len(raw) == QUEUE_ENTRY_BYTES else None

    def last_entry(self) -> QueueEntry | None:
        return self._real_entry(self.entries.end - 1)

    def offset_by_time(self, time_ms: int, boundary: Boundary, store_time_at: StoreTimeAt) -> int:
        first, held = 0, b""  # the last steps of a search are close together

        def time_of(offset: int) -> int | None:
            nonlocal first, held
            if not first <= offset < first + len(held) // QUEUE_ENTRY_BYTES:
                first = max(self.entries.first, offset - offset % _SEARCHED_TOGETHER)
                held = self.entries.read(first, _SEARCHED_TOGETHER)
            at = (offset - first) * QUEUE_ENTRY_BYTES
            if at + QUEUE_ENTRY_BYTES > len(held):
                return None
            position, size, _ = QUEUE_ENTRY.unpack_from(held, at)
            return store_time_at(position) if 0 < size < FILLER_SIZE else None

        return search_by_time(self.min_offset, self.readable_end, time_ms, boundary, time_of)

    # -- recovery and retention ---------------------------------------------------------------------------------------

    def discard_from(self, position: int, is_record: Callable[[QueueEntry], bool]) -> None:
        if self._ends_before(position, is_record):
            cut = self.entries.end  # as most do: no need to search
        else:
            cut = self._first_at_or_behind(position)
            while cut > self.min_offset and self._is_torn(cut - 1, is_record):
                cut -= 1
        self.entries.cut(cut)  # also there: what lies behind the end may be torn too
        self.tail.readable_end = self.entries.end

    def _ends_before(self, position: int, is_record: Callable[[QueueEntry], bool]) -> bool:
        last = self.last_entry()
        if last is None or not last.size or last.position >= position:
            return False
        return not self._is_torn(self.entries.end - 1, is_record)

    def _is_torn(self, offset: int, is_record: Callable[[QueueEntry], bool]) -> bool:
        """Return whether a lost sector left an entry that looks older than it is, and older than the one before it."""
        entry = self.entry_at(offset)
        if entry is None:
            return True
        before = self._real_entry(offset - 1)
        if entry.is_filler:
            return False
        return entry.position <= before.position if before is not None else not is_record(entry)

    def _first_at_or_behind(self, position: int) -> int:
        return self._search(lambda entry: entry.size > 0 and entry.position < position)

    def _search(self, holds: Callable[[QueueEntry], bool]) -> int:
        """Return the first offset from the minimum on for which `holds` is not true.

        A filler counts as what is before it.
        """

        def holds_at(offset: int) -> bool:
            entry = self._real_entry(offset)
            return entry is None or holds(entry)

        return first_without(self.min_offset, self.entries.end, holds_at)

    def _real_entry(self, offset: int) -> QueueEntry | None:
        while offset >= self.min_offset:
            entry = self.entry_at(offset)
            if entry is None or not entry.is_filler:
                return entry
            offset -= 1
        return None

    def raise_minimum(self, log_start: int) -> bool:
        first = self.entry_at(self.min_offset)
        if first is None or (first.position >= log_start and not first.is_filler):
            return False  # the usual case: one look, not a search
        self.tail.min_offset = self._search(lambda entry: entry.position < log_start)
        return self.entries.drop_before(self.min_offset)
