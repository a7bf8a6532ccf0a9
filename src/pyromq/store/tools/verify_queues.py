"""Queues against the log, for `store verify`: every record has its entry, every entry has its record.

The walk hands over the records in order. In a queue they must carry one offset after the other, so each entry between
the first and the last offset seen was compared with its record, and only what lies outside is left for `finish`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from ...kernel.records import Placed
from ...model.names import SCHEDULE_TOPIC
from ..config import StoreConfig
from ..files.disk import Disk
from ..files.file_sequence import FileSequence, parse_queue_name
from ..files.open_files import OpenFiles
from ..layout import (
    BATCH_ENTRY,
    BATCH_ENTRY_BYTES,
    BATCH_QUEUES,
    ENTRY_HEAD,
    EXTENSIONS,
    FILLER_SIZE,
    QUEUE_ENTRY,
    QUEUE_ENTRY_BYTES,
    QUEUES,
)
from ..log.log_walk import Gap
from ..queues.java_queues import has_extensions, is_address
from ..recovery.missing_files import MissingQueues
from .findings import OPEN, OPEN_ANEW, REBUILD, Level, Report, StoreFinding, remedy_of_missing

_WINDOW_ENTRIES = 512
_WINDOWS = 2048
_KEPT = 100  # findings of one queue
_OTHER_LEVELS = (
    "nothing: they keep their times. If these are not the levels of the broker (messageDelayLevel), name its file by -c"
)


def _read_window(sequence: FileSequence, window: int, entry_bytes: int) -> bytes:
    """Return a stretch of a queue's entries; zeroes stand for those in front of its first file."""
    first = window * _WINDOW_ENTRIES
    skip = 0
    while skip < _WINDOW_ENTRIES and not sequence.has((first + skip) * entry_bytes):
        skip += 1
    there = sequence.read((first + skip) * entry_bytes, (_WINDOW_ENTRIES - skip) * entry_bytes)
    return bytes(skip * entry_bytes) + there


class EntryReader:
    """Entries of all queues through a bounded number of read windows."""

    def __init__(self) -> None:
        self._window = lru_cache(_WINDOWS)(_read_window)

    def read(self, sequence: FileSequence, number: int, entry_bytes: int) -> bytes:
        """Return one entry's bytes; empty if no file holds it."""
        window, inside = divmod(number, _WINDOW_ENTRIES)
        return self._window(sequence, window, entry_bytes)[inside * entry_bytes : (inside + 1) * entry_bytes]


class QueueCheck:
    """One queue. `next_offset` is what its next record must carry."""

    def __init__(self, sequence: FileSequence, is_batch: bool, reader: EntryReader, extended: bool) -> None:
        self.sequence = sequence
        self._extended = extended  # tag codes may be addresses in extension files, which opening does away with
        self.is_batch = is_batch
        self._reader = reader
        self._entry_bytes = BATCH_ENTRY_BYTES if is_batch else QUEUE_ENTRY_BYTES
        self._first_entry: int | None = None  # number of the entry of the first record seen
        self._next_entry = 0
        self.next_offset: int | None = None
        self.findings: list[StoreFinding] = []
        self.found = 0  # all of them, also those not kept
        self.last_position: int | None = None  # where the newest entry leads
        self.other_delays = 0  # delayed messages whose times other levels gave them

    @property
    def exists(self) -> bool:
        return bool(self.sequence.bases)

    def check(self, placed: Placed, level: Level, gap_before: bool) -> None:
        if self.next_offset is not None and placed.queue_offset != self.next_offset:
            self._unexpected_offset(placed, gap_before)
        if self._first_entry is None:
            self._first_entry = self._next_entry = self._number_of(placed)
        elif not self.is_batch:
            self._next_entry = placed.queue_offset
        raw = self._reader.read(self.sequence, self._next_entry, self._entry_bytes)
        expected = self._expected(placed)
        if raw != expected and _has_other_delay(placed, raw):
            self.other_delays += 1
        elif raw != expected and not self._is_extended(raw, expected):
            missing = not raw.strip(b"\0")
            what = "has no entry" if missing else f"has the entry {self._describe(raw)}"
            self._find(level, self._next_entry, f"the record at {placed.position} {what}", remedy_of_missing(level))
        self._next_entry += 1
        self.next_offset = placed.queue_offset + placed.messages

    def _is_extended(self, raw: bytes, expected: bytes) -> bool:
        """Return whether an entry is right but for its tag code, which leads to an extension file."""
        if not self._extended or self.is_batch or raw[: ENTRY_HEAD.size] != expected[: ENTRY_HEAD.size]:
            return False
        return is_address(QUEUE_ENTRY.unpack(raw)[2])

    def _unexpected_offset(self, placed: Placed, gap_before: bool) -> None:
        if placed.queue_offset == 0:
            # The topic was deleted and made again: what came before has no queue any more.
            self.findings.clear()
            self.found = 0
            self._first_entry = None
            self._next_entry = 0
        elif not (gap_before and placed.queue_offset > (self.next_offset or 0)):
            what = (
                f"the record at {placed.position} has queue offset {placed.queue_offset} instead of {self.next_offset}"
            )
            self._find(Level.DAMAGE, placed.queue_offset, what, "keep a copy of the store and report this as a bug")
        if self.is_batch and self._first_entry is not None:
            self._next_entry = self._number_of(placed)

    def _number_of(self, placed: Placed) -> int:
        """Return where this record's entry should be: by its offset, or in a batch queue by its position."""
        if not self.is_batch:
            return placed.queue_offset
        number = self.sequence.start // self._entry_bytes
        while raw := self._reader.read(self.sequence, number, self._entry_bytes):
            position, size = BATCH_ENTRY.unpack(raw)[:2]
            if size == 0 or position >= placed.position:
                break
            number += 1
        return number

    def _expected(self, placed: Placed) -> bytes:
        entry = (placed.position, placed.size, placed.tag_code)
        if not self.is_batch:
            return QUEUE_ENTRY.pack(*entry)
        return BATCH_ENTRY.pack(*entry, placed.store_time, placed.queue_offset, placed.messages, -1, 0)

    def _describe(self, raw: bytes) -> str:
        if len(raw) < self._entry_bytes:
            return "cut short"
        position, size, tag_code = QUEUE_ENTRY.unpack_from(raw)
        return f"position {position}, size {size}, tag code {tag_code}"

    def _find(self, level: Level, number: int, what: str, remedy: str) -> None:
        self.found += 1
        if len(self.findings) >= _KEPT:
            return
        offset = number * self._entry_bytes
        name = self.sequence.name(self.sequence.base_of(offset))
        self.findings.append(StoreFinding(level, name, offset % self.sequence.file_bytes, what, remedy))

    def finish(self, log_start: int, log_end: int, gaps: list[Gap]) -> int:
        """Check the entries that no record has confirmed, and return the number of entries that stand for something."""
        seen = 0
        beyond: list[int] = []  # numbers of entries
        for number, position, size in self._entries():
            self.last_position = position
            seen += size != FILLER_SIZE
            if self._first_entry is not None and self._first_entry <= number < self._next_entry:
                continue
            if size == FILLER_SIZE or position < log_start:
                continue  # the head of a queue, or a record whose file has expired
            if any(gap.position <= position < gap.end for gap in gaps):
                continue  # its record is damaged: the entry stays, pulls skip it
            if position >= log_end:
                beyond.append(number)
            else:
                what = f"the entry points at {position}, where no record of this queue has its offset"
                self._find(Level.DAMAGE, number, what, REBUILD)
        if beyond:
            what = f"{len(beyond)} entries point behind {log_end}, where the log ends"
            self._find(Level.REPAIRABLE, beyond[0], what, "open the store: recovery cuts them off")
        return seen

    def downgrade_rebuildable(self) -> None:
        """Downgrade every finding that a rebuild mends: opening the store rebuilds this queue, nobody has to act."""
        self.findings = [
            replace(finding, level=Level.REPAIRABLE, remedy=OPEN_ANEW) if finding.remedy == REBUILD else finding
            for finding in self.findings
        ]

    def _entries(self) -> Iterator[tuple[int, int, int]]:
        number = self.sequence.start // self._entry_bytes
        while raw := self._reader.read(self.sequence, number, self._entry_bytes):
            if len(raw) < self._entry_bytes:
                return
            position, size, _ = QUEUE_ENTRY.unpack_from(raw)
            if size <= 0:
                return
            yield number, position, size
            number += 1


def _has_other_delay(placed: Placed, raw: bytes) -> bool:
    """Return whether the entry of a delayed message is right for other delay levels, which are whole seconds.

    No single bit that flips makes one whole delay out of another."""
    if placed.topic != SCHEDULE_TOPIC or raw[: ENTRY_HEAD.size] != ENTRY_HEAD.pack(placed.position, placed.size):
        return False
    delay_ms = QUEUE_ENTRY.unpack(raw)[2] - placed.store_time
    return bool(delay_ms >= 0 and delay_ms % 1000 == 0)


class QueueChecks:
    """All queues of a store."""

    def __init__(self, disk: Disk, config: StoreConfig, report: Report, lost: MissingQueues) -> None:
        self._disk = disk
        self._lost = lost
        self._config = config
        self._levels = config.message_delay_level
        self._files = OpenFiles(disk, config.max_open_queue_files)
        self._reader = EntryReader()
        self._report = report
        self._queues: dict[tuple[str, int], QueueCheck] = {}
        self._extended = has_extensions(disk)
        if self._extended:
            report.add(Level.REPAIRABLE, EXTENSIONS, None, "queue entries lead to extension files", OPEN)
        self._load(QUEUES, False)
        self._load(BATCH_QUEUES, True)

    def _load(self, root: str, is_batch: bool) -> None:
        for topic in self._disk.list(root):
            for queue in self._disk.list(f"{root}/{topic}"):
                number = parse_queue_name(queue)
                if number is not None:
                    self._queues[topic, number] = self._open(f"{root}/{topic}/{queue}", is_batch)
                else:
                    stray = f"{root}/{topic}/{queue}"
                    self._report.add(Level.NOTE, stray, None, "does not belong here", "look at it; it is not used")

    def _open(self, folder: str, is_batch: bool) -> QueueCheck:
        sequence = FileSequence(self._disk, self._files, folder, self._config.queue_files(is_batch)[1])
        for irregular in sequence.load():
            level = Level.NOTE if irregular.base < 0 else Level.REPAIRABLE
            self._report.add(level, irregular.name, None, irregular.what, "open the store, or run `store rebuild`")
        return QueueCheck(sequence, is_batch, self._reader, self._extended)

    def check(self, placed: Placed, level: Level, gap_before: bool) -> None:
        """Check a record that should have an entry; `level` is what a missing one would mean."""
        queue = self._queues.get((placed.topic, placed.queue_id))
        if queue is None:
            queue = self._open(f"{QUEUES}/{placed.topic}/{placed.queue_id}", False)
            self._queues[placed.topic, placed.queue_id] = queue
        queue.check(placed, level, gap_before)

    def confirms(self, placed: Placed) -> bool:
        """Return whether a queue has this record's entry. Asked about records behind a bad one."""
        queue = self._queues.get((placed.topic, placed.queue_id))
        if queue is None or queue.is_batch:
            return False
        raw = self._reader.read(queue.sequence, placed.queue_offset, QUEUE_ENTRY_BYTES)
        return raw[: ENTRY_HEAD.size] == ENTRY_HEAD.pack(placed.position, placed.size)

    def finish(self, log_start: int, log_end: int, gaps: list[Gap], known_topics: Iterable[str] | None) -> None:
        known = None if known_topics is None else set(known_topics)
        for (topic, queue_id), queue in sorted(self._queues.items()):
            self._report.queue_entries += queue.finish(log_start, log_end, gaps)
            if queue.findings and self._is_rebuilt_by_opening(topic, queue_id, queue, log_start):
                queue.downgrade_rebuildable()
            if not queue.exists:
                self._finish_without_files(topic, queue, known)
                continue
            self._report.queues += 1
            for finding in queue.findings:
                self._report.take(finding)
            if queue.other_delays:
                what = f"{queue.other_delays} delayed messages are due by other levels than {self._levels!r}"
                self._report.add(Level.NOTE, queue.sequence.folder, None, what, _OTHER_LEVELS)
            if queue.found > len(queue.findings):
                worst = max(queue.findings, key=lambda finding: finding.level)
                self._report.add(worst.level, queue.sequence.folder, None, f"{queue.found} such findings", worst.remedy)
        self._files.close()

    def _is_rebuilt_by_opening(self, topic: str, queue_id: int, queue: QueueCheck, log_start: int) -> bool:
        """Return whether opening notices that files of the queue are gone, and rebuilds it.

        After a kill it leaves queues alone that have entries for expired records only (derived_load.py)."""
        if not queue.exists:
            return self._lost.is_missing(topic, queue_id)
        if queue.last_position is not None and queue.last_position < log_start:
            return False
        return any(self._lost.is_file_missing(topic, queue_id, finding.file) for finding in queue.findings)

    def _finish_without_files(self, topic: str, queue: QueueCheck, known: set[str] | None) -> None:
        """Report a queue without files: right for a deleted topic, whose records stay in the log until they expire."""
        if not queue.findings:
            return
        folder, count = queue.sequence.folder, queue.found
        if known is not None and topic not in known:
            what = f"{count} records of a topic that is not in config/topics.json"
            self._report.add(Level.NOTE, folder, None, what, "nothing: the topic was deleted")
            return
        worst = max(queue.findings, key=lambda finding: finding.level)
        what = f"the queue is missing, {count} records have no entry"
        self._report.add(worst.level, folder, None, what, worst.remedy)
