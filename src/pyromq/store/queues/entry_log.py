"""Entries of one size in a file sequence: what consume queues and batch queues have in common.

Files have their full length at once and room in steps ahead of the writes. An entry whose size field is 0 was never
written. Derived data: whatever is lost here is written again from the commit log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from ...kernel import state
from ..config import StoreConfig
from ..files.disk import Bytes, Disk, DiskError, DiskFile, read_range
from ..files.file_sequence import FileSequence, IrregularFile, first_without
from ..files.open_files import OpenFiles, UnsyncedFiles
from ..layout import ENTRY_HEAD

_PAGE = 4096
_FAR = 64 << 10  # bytes into a file: whoever has entries there has more than a page of them


class SavedQueueState(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Where a queue stands, so that it can be used without a look at its files; and their stamps when that was so."""

    min_offset: int
    end: int  # the number of the entry behind the last
    first_file: int
    last_file: int  # bases; without a hole between them
    is_batch: bool = False
    stamp: int = 0  # of the last file
    folder_stamp: int = 0  # asked for only where there is more than one file


class EntryLog:
    """One writer. Invariant: entries from `first` to before `end` are written, behind `end` all is zero."""

    __slots__ = ("_disk", "_step", "entry_bytes", "first", "sequence", "tail", "unsynced")

    def __init__(
        self,
        disk: Disk,
        files: OpenFiles,
        unsynced: UnsyncedFiles,
        config: StoreConfig,
        topic: str,
        queue_id: int,
        is_batch: bool,
    ) -> None:
        root, file_bytes, self.entry_bytes = config.queue_files(is_batch)
        self._disk = disk
        self.unsynced = unsynced
        self._step = config.allocation_step_bytes
        self.sequence = FileSequence(disk, files, f"{root}/{topic}/{queue_id}", file_bytes)
        self.first = 0
        # It calls us to write by the disk; a bound method instead would cost each queue 64 bytes.
        self.tail = state.QueueTail(topic, queue_id, self.entry_bytes, self, unsynced.files)

    @property
    def end(self) -> int:
        """Return the number of the entry behind the last."""
        return self.tail.end

    @property
    def is_empty(self) -> bool:
        return self.tail.end == self.first

    # -- loading ------------------------------------------------------------------------------------------------------

    def load(self) -> list[IrregularFile]:
        """Take in the files and find the end: the first entry of the last file that was never written."""
        irregular = self.sequence.load()
        for fault in irregular:
            if fault.base >= 0 and self._disk.size(fault.name) < self.sequence.file_bytes:
                self.sequence.restore_length(self.sequence.base_of(fault.base), allocate=False)
        if self.sequence.bases:
            self.first = self.sequence.start // self.entry_bytes
            last = self.sequence.bases[-1] // self.entry_bytes
            self.tail.end = self._find_end(last, self.sequence.limit // self.entry_bytes)
        return irregular

    def _find_end(self, first: int, limit: int) -> int:
        """Return the number of the first entry that was never written.

        Where there are tens of thousands of queues, most have so few entries that the first page holds them. A page
        that lost its end must not pass for the end of the queue, so two more places are looked at.
        """
        count = min(_PAGE // self.entry_bytes, limit - first)
        length = count * self.entry_bytes
        page = self.sequence.read(first * self.entry_bytes, length).ljust(length, b"\0")
        few = -(-len(page.rstrip(b"\0")) // self.entry_bytes)
        known = first
        for place in (first + count, first + _FAR // self.entry_bytes):
            if place < limit and self.head(place)[1]:
                known = place
        heads = [ENTRY_HEAD.unpack_from(page, number * self.entry_bytes) for number in range(few)]
        if known == first and few < count and all(size for _, size in heads):
            return first + few
        return self.search(known, limit, lambda position, size: size > 0)

    def saved_state(self, min_offset: int, *, is_batch: bool) -> SavedQueueState | None:
        bases = self.sequence.bases
        if not bases or bases[-1] - bases[0] != (len(bases) - 1) * self.sequence.file_bytes:
            return None
        return SavedQueueState(min_offset, self.end, bases[0], bases[-1], is_batch)

    def restore(self, state: SavedQueueState) -> None:
        """Restore the state as `load` would find it."""
        self.sequence.bases = list(range(state.first_file, state.last_file + 1, self.sequence.file_bytes))
        self.first = state.first_file // self.entry_bytes
        self.tail.end = state.end

    def search(self, low: int, high: int, holds: Callable[[int, int], bool]) -> int:
        """Return the first entry in a range for which `holds(position, size)` is not true; `high` if it is for all."""
        return first_without(low, high, lambda number: holds(*self.head(number)))

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, number: int, count: int) -> bytes:
        """Return entries that are written, as bytes; fewer at the end."""
        count = min(count, self.end - number)
        return self.sequence.read(number * self.entry_bytes, count * self.entry_bytes) if count > 0 else b""

    def is_resident(self, number: int, count: int) -> bool:
        """Return whether reading these entries would not wait for the medium."""
        position, left = number * self.entry_bytes, min(count, self.end - number) * self.entry_bytes
        while left > 0 and self.sequence.has(position):
            file, inside = self.sequence.file_at(position)
            length = min(left, self.sequence.file_bytes - inside)
            if file.pread_resident(inside, length) is None:
                return False
            position += length
            left -= length
        return True

    def warm(self, number: int, count: int) -> None:
        """Read entries into the page cache. For a helper thread: with descriptors of its own."""
        first = number * self.entry_bytes
        last = max(first, (number + count) * self.entry_bytes - 1)
        for base in range(self.sequence.base_of(first), last + 1, self.sequence.file_bytes):
            with suppress(DiskError):  # it went meanwhile, or is damaged: whoever reads it will see
                start = max(first, base) - base
                length = min(last + 1, base + self.sequence.file_bytes) - base - start
                read_range(self._disk, self.sequence.name(base), start, length)

    def head(self, number: int) -> tuple[int, int]:
        """Return the position and size of an entry, written or not."""
        raw = self.sequence.read(number * self.entry_bytes, ENTRY_HEAD.size)
        if len(raw) < ENTRY_HEAD.size:
            return 0, 0
        position, size = ENTRY_HEAD.unpack(raw)
        return position, size

    # -- writing ------------------------------------------------------------------------------------------------------

    def reserve(self, count: int) -> None:
        """Make files and room for so many more entries. Raises DiskFull before anything is written."""
        tail = self.tail
        until = (tail.end + count) * self.entry_bytes
        while tail.room_until < until:
            position = max(tail.room_until, tail.end * self.entry_bytes)
            if not self.sequence.has(position):
                self._new_file(self.sequence.base_of(position))
            file, inside = self.sequence.file_at(position)
            start = inside - inside % self._step
            step = max(self._step, start)  # as much again as the file holds: a busy queue asks a few times, not often
            if len(self.sequence.bases) > 1:  # it has filled a file before: all of this one at once
                step = self.sequence.file_bytes
            length = min(step, self.sequence.file_bytes - start)
            file.allocate(start, length)
            tail.room_until = position - inside + start + length
        self._open_end()

    def _open_end(self) -> None:
        """Open the file that the next entry goes to: from the first byte of an append on nothing may be wanting."""
        position = self.tail.end * self.entry_bytes
        if not self.tail.holds(position) and self.sequence.has(position):
            file, inside = self.sequence.file_at(position)
            self._use(file, position - inside)

    def _use(self, file: DiskFile, base: int) -> None:
        """Let a kernel write to that file by itself from here on."""
        self.tail.use(file.open_file, base, base + self.sequence.file_bytes)
        self.tail.file_name = file.name

    def _new_file(self, base: int) -> None:
        if not self.sequence.bases:
            self._disk.make_folder(self.sequence.folder)
            self.unsynced.folders_above(self.sequence.folder)
        file, _ = self.sequence.file_at(base, create=True)
        file.truncate(self.sequence.file_bytes)
        self.sequence.bases.append(base)
        self.unsynced.folders.add(self.sequence.folder)
        self.unsynced.names[file.name] = True

    def append(self, data: bytes) -> None:
        """Append entries for which there is room."""
        self.overwrite(self.tail.end, data)
        self.tail.end += len(data) // self.entry_bytes

    def overwrite(self, number: int, data: bytes) -> None:
        self(number * self.entry_bytes, data)

    def __call__(self, position: int, data: Bytes) -> None:
        """Write at a byte position through the disk."""
        file, inside = self.sequence.file_at(position)
        if inside + len(data) > self.sequence.file_bytes:
            self.unsynced.files.update(self.sequence.write(position, data))
            return
        file.pwrite(inside, data)
        self.unsynced.files.add(file.name)
        if not self.tail.holds(position):
            self._use(file, position - inside)

    def begin_at(self, number: int) -> None:
        """Begin an empty queue above 0: entries before it in its file are the caller's to fill."""
        self.first = self.tail.end = self.sequence.base_of(number * self.entry_bytes) // self.entry_bytes
        self.tail.room_until = self.tail.end * self.entry_bytes

    def cut(self, number: int) -> None:
        """Cut off the entries from `number` on: nothing of them is left in the file."""
        before = len(self.sequence.bases)
        with self._noting_gone():
            self.unsynced.files.update(self.sequence.cut(number * self.entry_bytes, allocate=False))
        if len(self.sequence.bases) < before:
            self.unsynced.folders.add(self.sequence.folder)
        self.tail.end = max(number, self.first)
        self.tail.room_until = 0

    def drop_before(self, number: int) -> bool:
        """Remove files that lie wholly before an entry; the last file always stays. True if any went."""
        before = len(self.sequence.bases)
        with self._noting_gone():
            while len(self.sequence.bases) > 1 and self.sequence.bases[1] <= number * self.entry_bytes:
                self.sequence.drop_first()
        self.first = self.sequence.start // self.entry_bytes
        return len(self.sequence.bases) < before

    def clear(self) -> None:
        """Remove everything; the queue is written anew."""
        with self._noting_gone():
            self.sequence.drop_all()
        self.first = self.tail.end = self.tail.room_until = 0

    @contextmanager
    def _noting_gone(self) -> Iterator[None]:
        before = set(self.sequence.bases)
        yield
        for base in before.difference(self.sequence.bases):
            self.unsynced.names[self.sequence.name(base)] = False

    def file_names(self) -> list[str]:
        return [self.sequence.name(base) for base in self.sequence.bases]
