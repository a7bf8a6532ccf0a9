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
from dataclasses import dataclass

from ...kernel.appends import KEY_BYTES
from ..files.disk import Disk, DiskFile, FileMissing
from ..files.open_files import OpenFiles
from ..files.read_mode import ReadMode
from .slot_table import SLOT_BYTES, SlotImage, SlotTable

HEADER = struct.Struct(">qqqqii")
HEADER_BYTES = HEADER.size
ENTRY = struct.Struct(">iqii")
ENTRY_BYTES = ENTRY.size

GATHERED_BYTES = 64 << 10  # of entries that wait at most: a write for each lone message would cost a system call
_MAX_SECONDS = 0x7FFFFFFF
_LARGE_STEP = 16 << 20


def index_file_bytes(slots: int, entries: int) -> int:
    return HEADER_BYTES + slots * SLOT_BYTES + entries * ENTRY_BYTES


@dataclass(slots=True)
class IndexHeader:
    """`next_entry` starts at 1: entry 0 is not used."""

    begin_time: int = 0
    end_time: int = 0
    begin_position: int = 0
    end_position: int = 0
    used_slots: int = 0
    next_entry: int = 1

    def pack(self) -> bytes:
        return HEADER.pack(
            self.begin_time,
            self.end_time,
            self.begin_position,
            self.end_position,
            self.used_slots,
            self.next_entry,
        )


@dataclass(slots=True)
class IndexCommit:
    """Slots and header as they were at one moment: to be written once the entries up to then are synced."""

    name: str
    slots: SlotImage
    header: bytes

    def write(self, disk: Disk) -> None:
        """Blocking, in the flush's thread. A file that expired meanwhile needs nothing any more."""
        try:
            file = disk.open(self.name)
        except FileMissing:
            return
        try:
            for slot, data in self.slots.stretches():
                file.pwrite(HEADER_BYTES + slot * SLOT_BYTES, data)
            if self.header:
                file.pwrite(0, self.header)
            file.sync()
        finally:
            file.close()


class IndexFile:
    """One writer. Invariant: on disk, slots and header lead only to entries that were synced before."""

    def __init__(
        self, disk: Disk, name: str, slots: int, entries: int, step: int, read_mode: ReadMode | None = None
    ) -> None:
        self.name = name
        self._read_mode = read_mode or ReadMode()
        self._slot_count = slots
        self.entry_limit = entries
        self._step = step
        self.entries_at = HEADER_BYTES + slots * SLOT_BYTES
        self._length = index_file_bytes(slots, entries)
        self._own: DiskFile | None = disk.open(name, create=True)
        self._shared: OpenFiles | None = None
        self._is_fresh = fresh = self.file.size() == 0
        if self.file.size() < self._length:
            self.file.truncate(self._length)
        self.header = IndexHeader() if fresh else IndexHeader(*HEADER.unpack(self.file.pread(0, HEADER_BYTES)))
        if not 1 <= self.header.next_entry <= entries:
            self.header.next_entry = 1
        self.slots: SlotTable | None = None  # loaded when the file is written
        self.is_changed = False  # slots or header, since the last commit was taken
        self.pending: list[bytes] = []  # the newest entries, not in the file yet
        self.pending_bytes = 0
        self.room_until = 0

    @property
    def file(self) -> DiskFile:
        """Open; good until the next file of the store is asked for."""
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
        return self.header.next_entry >= self.entry_limit

    @property
    def free(self) -> int:
        """Entries that still fit."""
        return self.entry_limit - self.header.next_entry

    # -- writing ------------------------------------------------------------------------------------------------------

    def put(self, key_hash: int, position: int, store_time: int) -> None:
        header, slots = self.header, self._slot_table()
        slot = key_hash % self._slot_count
        previous = slots[slot]
        self._gather(ENTRY.pack(key_hash, position, self._seconds(store_time), previous))
        slots[slot] = header.next_entry
        if not previous:
            header.used_slots += 1
        self._note(1, position, position, store_time)

    def put_keys(self, keys: bytes, first: int, count: int, store_time: int) -> None:
        """Keys from number `first` on that a kernel hashed, within `free`: the same in one call."""
        header, seconds = self.header, self._seconds(store_time)
        entries, fresh = self._slot_table().chain(keys, first, count, header.next_entry, seconds)
        self._gather(entries)
        header.used_slots += fresh
        begin, end = _position(keys, first), _position(keys, first + count - 1)
        self._note(count, begin, end, store_time)

    def _seconds(self, store_time: int) -> int:
        begin = self.header.begin_time
        return min(max((store_time - begin) // 1000, 0), _MAX_SECONDS) if begin > 0 else 0

    def _note(self, count: int, first_position: int, last_position: int, store_time: int) -> None:
        header = self.header
        if header.next_entry == 1:
            header.begin_position, header.begin_time = first_position, store_time
        header.next_entry += count
        header.end_position, header.end_time = last_position, store_time
        self.is_changed = True

    def reserve(self, count: int) -> None:
        """Room on disk for so many entries and for the slot table. Raises DiskFull before anything is written."""
        last = min(self.header.next_entry + count, self.entry_limit)
        until = self.entries_at + last * ENTRY_BYTES
        if not self.room_until:
            self.file.allocate(0, self.entries_at)
            self.room_until = self.entries_at
        while self.room_until < until:
            step = max(self._step, min(self.room_until - self.entries_at, _LARGE_STEP))  # as much again as there is
            length = min(step, self._length - self.room_until)
            self.file.allocate(self.room_until, length)
            self.room_until += length

    def _gather(self, entries: bytes) -> None:
        self.pending.append(entries)
        self.pending_bytes += len(entries)

    def write_many(self) -> None:
        """What was gathered, if it is enough. At the end of a dispatch."""
        if self.pending_bytes >= GATHERED_BYTES:
            self.write_pending()

    def write_pending(self) -> None:
        """All that was gathered, in one write."""
        if self.pending:
            entries = b"".join(self.pending)
            self.file.pwrite(self.entries_at + self.header.next_entry * ENTRY_BYTES - len(entries), entries)
            self.pending.clear()
            self.pending_bytes = 0

    def take_commit(self) -> IndexCommit:
        """What is to be written behind the entries, as it is now. Raises DiskError if those cannot be written."""
        self.write_pending()
        self.is_changed = False
        return IndexCommit(self.name, self._slot_table().take_image(), self.header.pack())

    def _slot_table(self) -> SlotTable:
        if self.slots is None:
            if self._is_fresh and self.header.next_entry == 1:
                self.slots = SlotTable.unused(self._slot_count)
            else:
                self.load_slots()
        assert self.slots is not None
        return self.slots

    def load_slots(self) -> None:
        """Before the first entry needs them: it takes a while. In a helper thread, if nobody else has the file yet."""
        self.slots = SlotTable.loaded(self._read_slots, self._slot_count)

    def _read_slots(self, first: int, count: int) -> bytes:
        return self.file.pread(HEADER_BYTES + first * SLOT_BYTES, count * SLOT_BYTES)

    def release_slots(self) -> None:
        """A full file needs its table no more once all of it is written."""
        if self.slots is not None and not self.is_changed and not self.slots.is_being_written:
            self.slots = None

    # -- reading ------------------------------------------------------------------------------------------------------

    def newest(self, key_hash: int) -> int:
        """Number of the newest entry in the slot of a hash; 0 if there is none."""
        slot = key_hash % self._slot_count
        if self.slots is not None:
            return self.slots[slot]
        raw = self._read_mode.pread(self.file, HEADER_BYTES + slot * SLOT_BYTES, SLOT_BYTES)
        return int.from_bytes(raw, "big")

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """Hash, position, seconds since the file's begin time, and the slot's entry before this one."""
        if number >= self.header.next_entry - self.pending_bytes // ENTRY_BYTES:
            self.write_pending()
        raw = self._read_mode.pread(self.file, self.entries_at + number * ENTRY_BYTES, ENTRY_BYTES)
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
        slots = self._slot_table()
        for slot, number in enumerate(slots):
            if number >= keep:
                slots[slot] = self._older(number, keep)
                self.is_changed = True
        if keep < self.header.next_entry:
            self.is_changed = True
            self.header.next_entry = keep
            _, self.header.end_position, seconds, _ = self.entry(keep - 1)
            self.header.end_time = self.header.begin_time + seconds * 1000
        self.header.used_slots = sum(1 for number in slots if number)

    def _clear(self) -> None:
        self.header = IndexHeader()
        self.slots = SlotTable.empty(self._slot_count)
        self.is_changed = True

    def _first_at_or_behind(self, position: int) -> int:
        low, high = 1, self.header.next_entry
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle)[1] < position:
                low = middle + 1
            else:
                high = middle
        return low

    def _older(self, number: int, keep: int) -> int:
        while number >= keep:
            previous = self.entry(number)[3] if number < self.entry_limit else 0
            number = previous if 0 <= previous < number else 0
        return number

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
        elif self._shared is not None:
            self._shared.forget(self.name)


def _position(keys: bytes, number: int) -> int:
    """Of the record that a hashed key stands for."""
    return int.from_bytes(keys[number * KEY_BYTES + 4 : (number + 1) * KEY_BYTES], "big")
