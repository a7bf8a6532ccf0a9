"""Files of one length that together are one long run of bytes: find, read and write by position, cut, drop.

The commit log and every queue stand on it. It knows bytes alone, no records and no entries. Log files get all their
room before use (a full disk is then an error of a call, not a killed process). Queue and index files have their full
length at once but room in steps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

from ...kernel import state
from ...kernel.state import OpenFile, ResidentFiles
from ...model.wire_text import INT_MAX, whole_number
from .disk import Bytes, Disk, DiskFile, DiskFull, folder_of, make_folder_durably
from .open_files import OpenFiles

NAME_DIGITS = 20


def first_without(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the first number of a range for which `holds` is not true; `high` if it is for all. Halves the range."""
    return low + bisect_left(range(low, high), True, key=lambda number: not holds(number))


class IrregularFile(NamedTuple):
    """A file that is not as it should be, found while loading."""

    name: str
    what: str
    base: int = -1  # where the damage begins; -1 for a stray file that is left alone


class FileSequence:
    """Invariant: `bases` is sorted, all multiples of `file_bytes`. Holes between them only after damage. One writer."""

    __slots__ = ("_disk", "_files", "_named", "bases", "file_bytes", "folder")

    def __init__(self, disk: Disk, files: OpenFiles, folder: str, file_bytes: int) -> None:
        self._disk = disk
        self._files = files
        self.folder = folder
        self.file_bytes = file_bytes
        self.bases: list[int] = []
        self._named = (-1, "")  # the name made last: writes come to one file again and again

    @property
    def start(self) -> int:
        return self.bases[0] if self.bases else 0

    @property
    def limit(self) -> int:
        return self.bases[-1] + self.file_bytes if self.bases else 0

    def load(self) -> list[IrregularFile]:
        """Take in what the folder holds. Short files are reported, not touched."""
        found: list[IrregularFile] = []
        for name in self._disk.list(self.folder):
            path = f"{self.folder}/{name}"
            base = parse_segment_name(name)
            if base is None or base % self.file_bytes or self._disk.is_folder(path):
                found.append(IrregularFile(path, "is no file of this sequence and is left alone"))
                continue
            size = self._disk.size(path)
            if size != self.file_bytes:
                found.append(IrregularFile(path, f"has {size} bytes instead of {self.file_bytes}", base))
            if self.bases and base != self.limit:
                found.append(IrregularFile(path, f"the files from {self.limit} on are missing before it", self.limit))
            self.bases.append(base)
        return found

    def name(self, base: int) -> str:
        named = self._named  # helper threads ask too, so it is looked at once
        if named[0] != base:
            named = self._named = (base, f"{self.folder}/{segment_name(base)}")
        return named[1]

    def base_of(self, position: int) -> int:
        return position - position % self.file_bytes

    def has(self, position: int) -> bool:
        place = bisect_right(self.bases, position)
        return place > 0 and position < self.bases[place - 1] + self.file_bytes

    def file_at(self, position: int, *, create: bool = False) -> tuple[DiskFile, int]:
        """Return the open file that holds a position, and the place in it."""
        inside = position % self.file_bytes
        return self._files.get(self.name(position - inside), create=create), inside

    def read(self, position: int, length: int) -> bytes:
        """Return bytes across files; fewer where the files end."""
        parts: list[bytes] = []
        while length > 0 and self.has(position):
            file, inside = self.file_at(position)
            wanted = min(length, self.file_bytes - inside)
            part = self._files.read_mode.pread(file, inside, wanted)
            parts.append(part)
            if len(part) < wanted:
                break
            position += wanted
            length -= wanted
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def written(self, base: int) -> list[tuple[int, int]]:
        """Return from where to where one file may hold anything but zeroes, as positions. Asked before it is read."""
        return [(base + first, base + end) for first, end in self.file_at(base)[0].written()]

    def pieces(self, position: int, end: int, size: int) -> Iterator[bytes]:
        """Yield what lies from a position on, up to `end` or where the files end, `size` bytes at a time."""
        while position < end and (piece := self.read(position, min(size, end - position))):
            yield piece
            position += len(piece)

    def resident(self) -> ResidentFiles:
        """Return these files as a kernel reads them: as far as they are in memory, and without waiting."""
        return state.ResidentFiles(self.file_bytes, self._open_at, self.read_resident)

    def _open_at(self, position: int) -> OpenFile | None:
        return self.file_at(position)[0].open_file if self.has(position) else None

    def read_resident(self, position: int, length: int) -> bytes | None:
        """Return bytes of one file; None: they are not there, or not in memory."""
        if not self.has(position):
            return None
        file, inside = self.file_at(position)
        return file.pread_resident(inside, length)

    def write(self, position: int, data: Bytes) -> list[str]:
        """Write across files that exist, and return the names of those that were written to."""
        inside = position % self.file_bytes
        if inside + len(data) <= self.file_bytes:  # the usual case
            file, _ = self.file_at(position)
            file.pwrite(inside, data)
            return [file.name]
        touched: list[str] = []
        rest = memoryview(data)
        while rest:
            file, inside = self.file_at(position)
            part = rest[: self.file_bytes - inside]
            file.pwrite(inside, part)
            touched.append(file.name)
            position += len(part)
            rest = rest[len(part) :]
        return touched

    def restore_length(self, base: int, *, allocate: bool) -> None:
        """Give a short file its full length again; what is missing reads as zeroes."""
        file, _ = self.file_at(base)
        if allocate:
            file.allocate(0, self.file_bytes)
        elif file.size() < self.file_bytes:
            file.truncate(self.file_bytes)

    def cut(self, position: int, *, allocate: bool) -> list[str]:
        """Remove everything at or beyond `position`: later files go, the rest of its file is zeroed.

        Returns the names that were changed, for the next sync. Later files go first and from the end, so that a crash
        in between leaves no hole."""
        self.drop_beyond(max(position - 1, self.start))
        if not self.has(position):
            return []
        file, inside = self.file_at(position)
        zero_from(file, inside, self.file_bytes, allocate=allocate)
        return [file.name]

    def drop_beyond(self, position: int) -> bool:
        """Remove files that begin behind a position, from the end. True if any went."""
        before = len(self.bases)
        while self.bases and self.bases[-1] > position:
            name = self.name(self.bases.pop())
            self._files.forget(name)
            self._disk.remove(name)
        return len(self.bases) < before

    def drop_first(self) -> None:
        """Remove the oldest file; its readers keep their descriptor."""
        self._files.drop(self.name(self.bases.pop(0)))

    def drop_all(self) -> None:
        self.drop_beyond(-1)


def segment_name(base: int) -> str:
    """Return a file's name: its first position in twenty decimal digits."""
    return f"{base:0{NAME_DIGITS}d}"


def parse_segment_name(name: str) -> int | None:
    """Return the first position that a file's name says, None for a stray name."""
    return whole_number(name) if len(name) == NAME_DIGITS and name[0] not in "+-" else None


def parse_queue_name(name: str) -> int | None:
    """Return the number of a queue whose folder has this name, None for a stray name."""
    number = whole_number(name, high=INT_MAX)
    return number if name == str(number) else None


def prepare_whole(disk: Disk, name: str, length: int) -> None:
    """Make a file with all its room; durable with its name when this returns, so acks in it need one sync alone.

    Without room for it, nothing is left of it."""
    make_folder_durably(disk, folder_of(name))
    with closing(disk.open(name, create=True)) as file:
        try:
            file.allocate(0, length)
            file.sync()
        except DiskFull:
            disk.remove(name)
            raise
    disk.sync_folder(folder_of(name))


def zero_from(file: DiskFile, at: int, length: int, *, allocate: bool) -> None:
    """Zero everything from `at` on and give the file its full length again.

    A crash in between leaves a short file, which loading grows again."""
    file.truncate(at)
    if allocate:
        file.allocate(0, length)
    else:
        file.truncate(length)
