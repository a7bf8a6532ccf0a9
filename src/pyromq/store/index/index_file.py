"""One index file: message key to positions in the log, by hash.

| header 40 | slots, 4 bytes each: newest entry of the slot, 0 none | entries, 20 bytes each, number 0 is not used |
header  | begin time 8 | end time 8 | begin position 8 | end position 8 | used slots 4 | next entry number 4 |
entry   | key hash 4 | position 8 | seconds since begin time 4 | previous entry of the slot 4 |

Entries are gathered and go to the file together, at the latest with the next commit: until then nothing on disk speaks
of them. Slots and header stay in memory until the entries that they lead to are synced (`commit`): so a slot on disk
always leads into entries that are whole, and recovery can take entries back exactly.
"""

from __future__ import annotations

import struct
from contextlib import closing, suppress
from dataclasses import dataclass

from ...kernel import state
from ...kernel.state import IndexTail
from ..config import StoreConfig
from ..files.disk import Disk, DiskFile, FileMissing
from ..files.file_sequence import first_without
from ..files.open_files import OpenFiles, ReadMode
from .slot_table import SLOT_BYTES, SlotImage, SlotTable

HEADER = struct.Struct(">qqqqii")
HEADER_BYTES = HEADER.size
ENTRY = struct.Struct(">iqii")
ENTRY_BYTES = ENTRY.size

_LARGE_STEP = 16 << 20


def index_file_bytes(slots: int, entries: int) -> int:
    return HEADER_BYTES + slots * SLOT_BYTES + entries * ENTRY_BYTES


def header_of(tail: IndexTail) -> bytes:
    """Return the numbers of a file's tail as its header has them."""
    return HEADER.pack(
        tail.begin_time, tail.end_time, tail.begin_position, tail.end_position, tail.used_slots, tail.next_entry
    )


@dataclass(slots=True)
class IndexCommit:
    """Slots and header as they were at one moment: to be written once the entries up to then are synced."""

    name: str
    slots: SlotImage
    header: bytes

    def write(self, disk: Disk) -> None:
        """Write the changes; blocking, in the flush's thread. A file that expired meanwhile needs nothing any more."""
        with suppress(FileMissing), closing(disk.open(self.name)) as file:
            for slot, data in self.slots.stretches():
                file.pwrite(HEADER_BYTES + slot * SLOT_BYTES, data)
            if self.header:
                file.pwrite(0, self.header)
            file.sync()


class IndexFile:
    """One writer. Invariant: on disk, slots and header lead only to entries that were synced before."""

    def __init__(self, disk: Disk, name: str, config: StoreConfig, read_mode: ReadMode) -> None:
        slots, entries = config.index_slots, config.index_entries
        self.name = name
        self._read_mode = read_mode
        self._slot_count = slots
        self._step = config.allocation_step_bytes
        self.tail = state.IndexTail(entries, HEADER_BYTES + slots * SLOT_BYTES, self.write_pending)
        self._length = index_file_bytes(slots, entries)
        self._own: DiskFile | None = disk.open(name, create=True)
        self._shared: OpenFiles | None = None
        self._is_fresh = fresh = self.file.size() == 0
        if self.file.size() < self._length:
            self.file.truncate(self._length)
        if not fresh:
            self.tail.set_header(*HEADER.unpack(self.file.pread(0, HEADER_BYTES)))
        if not 1 <= self.tail.next_entry <= entries:
            self.tail.next_entry = 1
        self.slots: SlotTable | None = None  # loaded when the file is written

    @property
    def file(self) -> DiskFile:
        """Return the open file. It stays open until the next file of the store is asked for."""
        if self._own is not None:
            return self._own
        assert self._shared is not None
        return self._shared.get(self.name)

    def share(self, files: OpenFiles) -> None:
        """Hold no descriptor any more: from here on it is opened when it is looked at, and closed when others are."""
        if self._own is not None:
            self._own.close()
        self._own, self._shared = None, files

    @property
    def is_full(self) -> bool:
        return self.tail.next_entry >= self.tail.entry_limit

    @property
    def free(self) -> int:
        """Return how many entries still fit."""
        return self.tail.entry_limit - self.tail.next_entry

    # -- writing ------------------------------------------------------------------------------------------------------

    def reserve(self, count: int) -> None:
        """Make room on disk for so many entries and for the slot table. Raises DiskFull before anything is written."""
        tail = self.tail
        until = tail.entries_at + min(tail.next_entry + count, tail.entry_limit) * ENTRY_BYTES
        if not tail.room_until:
            self.file.allocate(0, tail.entries_at)
            tail.room_until = tail.entries_at
        while tail.room_until < until:
            step = max(self._step, min(tail.room_until - tail.entries_at, _LARGE_STEP))  # as much again as there is
            length = min(step, self._length - tail.room_until)
            self.file.allocate(tail.room_until, length)
            tail.room_until += length
        self.have_slots()

    def write_pending(self) -> None:
        """Write the entries that were gathered, all at once."""
        tail = self.tail
        if tail.pending:
            entries = b"".join(tail.pending)
            self.file.pwrite(tail.entries_at + tail.next_entry * ENTRY_BYTES - len(entries), entries)
            tail.pending.clear()
            tail.pending_bytes = 0

    def take_commit(self) -> IndexCommit:
        """Return what is to be written behind the entries, as it is now.

        Raises DiskError if those cannot be written.
        """
        self.write_pending()
        self.tail.is_changed = False
        return IndexCommit(self.name, self.have_slots().take_image(), header_of(self.tail))

    def have_slots(self) -> SlotTable:
        """Return the slot table, which takes a while to read where there is something in the file."""
        if self.slots is None:
            if self._is_fresh and self.tail.next_entry == 1:
                self._use_slots(SlotTable.empty(self._slot_count, is_new=True))
            else:
                self._use_slots(SlotTable.loaded(self._read_slots, self._slot_count))
        assert self.slots is not None
        return self.slots

    def _use_slots(self, table: SlotTable | None) -> None:
        self.slots = table
        self.tail.slots = None if table is None else table.state

    def _read_slots(self, first: int, count: int) -> bytes:
        return self.file.pread(HEADER_BYTES + first * SLOT_BYTES, count * SLOT_BYTES)

    def release_slots(self) -> None:
        """Forget the table of a full file once all of it is written."""
        if self.slots is not None and not self.tail.is_changed and not self.slots.is_being_written:
            self._use_slots(None)

    # -- reading ------------------------------------------------------------------------------------------------------

    def newest(self, key_hash: int) -> int:
        """Return the number of the newest entry in the slot of a hash; 0 if there is none."""
        slot = key_hash % self._slot_count
        if self.slots is not None:
            return self.slots[slot]
        raw = self._read_mode.pread(self.file, HEADER_BYTES + slot * SLOT_BYTES, SLOT_BYTES)
        return int.from_bytes(raw, "big")

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """Return hash, position, seconds since the file's begin time, and the slot's entry before this one."""
        if number >= self.tail.next_entry - self.tail.pending_bytes // ENTRY_BYTES:
            self.write_pending()
        raw = self._read_mode.pread(self.file, self.tail.entries_at + number * ENTRY_BYTES, ENTRY_BYTES)
        key_hash, position, seconds, previous = ENTRY.unpack(raw)
        return key_hash, position, seconds, previous

    # -- recovery -----------------------------------------------------------------------------------------------------

    def cut(self, position: int) -> None:
        """Take back entries for records at or behind a position. What is left is as if they had never been put.

        Slots may be ahead of the header, where a crash came between the two: they are led back all the same.
        """
        self.write_pending()
        keep = self._first_at_or_behind(position)
        if keep == 1:
            self._clear()
            return
        slots = self.have_slots()
        for slot in slots.state.beyond(keep):
            slots[slot] = self._older(slots[slot], keep)
            self.tail.is_changed = True
        if keep < self.tail.next_entry:
            self.tail.is_changed = True
            self.tail.next_entry = keep
            _, self.tail.end_position, seconds, _ = self.entry(keep - 1)
            self.tail.end_time = self.tail.begin_time + seconds * 1000
        self.tail.used_slots = slots.state.used

    def _clear(self) -> None:
        self.tail.set_header(0, 0, 0, 0, 0, 1)
        self._use_slots(SlotTable.empty(self._slot_count))
        self.tail.is_changed = True

    def _first_at_or_behind(self, position: int) -> int:
        return first_without(1, self.tail.next_entry, lambda number: self.entry(number)[1] < position)

    def _older(self, number: int, keep: int) -> int:
        while number >= keep:
            previous = self.entry(number)[3] if number < self.tail.entry_limit else 0
            number = previous if 0 <= previous < number else 0
        return number

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
        elif self._shared is not None:
            self._shared.forget(self.name)
