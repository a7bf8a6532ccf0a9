"""One index file: message key to positions in the log, by hash.

| header 40 | slots, 4 bytes each: newest entry of the slot, 0 none | entries, 20 bytes each, number 0 is not used |
header  | begin time 8 | end time 8 | begin position 8 | end position 8 | used slots 4 | next entry number 4 |
entry   | key hash 4 | position 8 | seconds since begin time 4 | previous entry of the slot 4 |

Entries go to the file as they come. Slots and header stay in memory until the entries that they lead to are synced
(`commit`): so a slot on disk always leads into entries that are whole, and recovery can take entries back exactly.
"""

from __future__ import annotations

import struct
import sys
from array import array
from dataclasses import dataclass

from .disk import Disk, DiskFile, FileMissing
from .reads import Reads

HEADER = struct.Struct(">qqqqii")
HEADER_BYTES = HEADER.size
SLOT_BYTES = 4
ENTRY = struct.Struct(">iqii")
ENTRY_BYTES = ENTRY.size
_PAGE_SLOTS = 1024
_MAX_SECONDS = 0x7FFFFFFF


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
    parts: list[tuple[int, bytes]]

    def write(self, disk: Disk) -> None:
        """Blocking, in the flush's thread. A file that expired meanwhile needs nothing any more."""
        try:
            file = disk.open(self.name)
        except FileMissing:
            return
        try:
            for offset, data in self.parts:
                file.pwrite(offset, data)
            file.sync()
        finally:
            file.close()


class IndexFile:
    """One writer. Invariant: on disk, slots and header lead only to entries that were synced before."""

    def __init__(self, disk: Disk, name: str, slots: int, entries: int, step: int, reads: Reads | None = None) -> None:
        self.name = name
        self._reads = reads or Reads()
        self._slot_count = slots
        self._entry_limit = entries
        self._step = step
        self._entries_at = HEADER_BYTES + slots * SLOT_BYTES
        self._length = self._entries_at + entries * ENTRY_BYTES
        self._file: DiskFile = disk.open(name, create=True)
        fresh = self._file.size() == 0
        if self._file.size() < self._length:
            self._file.truncate(self._length)
        self.header = IndexHeader() if fresh else IndexHeader(*HEADER.unpack(self._file.pread(0, HEADER_BYTES)))
        if not 1 <= self.header.next_entry <= entries:
            self.header.next_entry = 1
        self._slots: array[int] | None = None  # loaded when the file is written or searched
        self._dirty: set[int] = set()  # pages of the slot table
        self._pending: list[bytes] = []  # entries of this dispatch, not in the file yet
        self._room_until = 0

    @property
    def is_full(self) -> bool:
        return self.header.next_entry >= self._entry_limit

    @property
    def free(self) -> int:
        """Entries that still fit."""
        return self._entry_limit - self.header.next_entry

    @property
    def is_changed(self) -> bool:
        return bool(self._dirty)

    # -- writing ------------------------------------------------------------------------------------------------------

    def put(self, key_hash: int, position: int, store_time: int) -> None:
        header, slots = self.header, self._slot_table()
        slot = key_hash % self._slot_count
        previous = slots[slot]
        seconds = (store_time - header.begin_time) // 1000 if header.begin_time > 0 else 0
        if not 0 <= seconds <= _MAX_SECONDS:
            seconds = 0 if seconds < 0 else _MAX_SECONDS
        self._pending.append(ENTRY.pack(key_hash, position, seconds, previous))
        slots[slot] = header.next_entry
        self._dirty.add(slot // _PAGE_SLOTS)
        if header.next_entry == 1:
            header.begin_position, header.begin_time = position, store_time
        if not previous:
            header.used_slots += 1
        header.next_entry += 1
        header.end_position, header.end_time = position, store_time

    def reserve(self, count: int) -> None:
        """Room on disk for so many entries and for the slot table. Raises DiskFull before anything is written."""
        last = min(self.header.next_entry + count, self._entry_limit)
        until = self._entries_at + last * ENTRY_BYTES
        if not self._room_until:
            self._file.allocate(0, self._entries_at)
            self._room_until = self._entries_at
        while self._room_until < until:
            length = min(self._step, self._length - self._room_until)
            self._file.allocate(self._room_until, length)
            self._room_until += length

    def write_pending(self) -> None:
        """Entries of this dispatch in one write."""
        if self._pending:
            first = self.header.next_entry - len(self._pending)
            self._file.pwrite(self._entries_at + first * ENTRY_BYTES, b"".join(self._pending))
            self._pending.clear()

    def take_commit(self) -> IndexCommit:
        """What is to be written behind the entries, as it is now."""
        slots = self._slot_table()
        parts = []
        for page in sorted(self._dirty):
            part = slots[page * _PAGE_SLOTS : (page + 1) * _PAGE_SLOTS]
            if sys.byteorder == "little":
                part.byteswap()
            parts.append((HEADER_BYTES + page * _PAGE_SLOTS * SLOT_BYTES, part.tobytes()))
        self._dirty.clear()
        return IndexCommit(self.name, [*parts, (0, self.header.pack())])

    def _slot_table(self) -> array[int]:
        if self._slots is None:
            slots = array("I")
            slots.frombytes(self._file.pread(HEADER_BYTES, self._slot_count * SLOT_BYTES))
            if sys.byteorder == "little":
                slots.byteswap()
            self._slots = slots
        return self._slots

    def release_slots(self) -> None:
        """A full file that was committed needs its table no more."""
        self._slots = None

    # -- reading ------------------------------------------------------------------------------------------------------

    def newest(self, key_hash: int) -> int:
        """Number of the newest entry in the slot of a hash; 0 if there is none."""
        slot = key_hash % self._slot_count
        if self._slots is not None:
            return self._slots[slot]
        raw = self._reads.pread(self._file, HEADER_BYTES + slot * SLOT_BYTES, SLOT_BYTES)
        return int.from_bytes(raw, "big")

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """Hash, position, seconds since the file's begin time, and the slot's entry before this one."""
        raw = self._reads.pread(self._file, self._entries_at + number * ENTRY_BYTES, ENTRY_BYTES)
        key_hash, position, seconds, previous = ENTRY.unpack(raw)
        return key_hash, position, seconds, previous

    # -- recovery -----------------------------------------------------------------------------------------------------

    def cut(self, position: int) -> None:
        """Take back entries for records at or behind a position. What is left is as if they had never been put.

        Slots may be ahead of the header, where a crash came between the two: they are led back all the same.
        """
        keep = self._first_at_or_behind(position)
        if keep == 1:
            self._clear()
            return
        slots = self._slot_table()
        for slot, number in enumerate(slots):
            if number >= keep:
                slots[slot] = self._older(number, keep)
                self._dirty.add(slot // _PAGE_SLOTS)
        if keep < self.header.next_entry:
            self._dirty.add(0)
            self.header.next_entry = keep
            _, self.header.end_position, seconds, _ = self.entry(keep - 1)
            self.header.end_time = self.header.begin_time + seconds * 1000
        self.header.used_slots = sum(1 for number in slots if number)

    def _clear(self) -> None:
        self.header = IndexHeader()
        self._slots = array("I", bytes(self._slot_count * SLOT_BYTES))
        self._dirty.update(range(-(-self._slot_count // _PAGE_SLOTS)))

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
            previous = self.entry(number)[3] if number < self._entry_limit else 0
            number = previous if 0 <= previous < number else 0
        return number

    def close(self) -> None:
        self._file.close()
