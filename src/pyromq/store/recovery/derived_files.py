"""Which queue and index files there are while the store is open, so that one that is gone after a kill is noticed.

`pyromq/derived` is written whole when the store was opened, unless a clean stop left it and all is as it was then;
every full flush adds what was made and what went, behind the sync of those files and before the checkpoint. So every
file that the checkpoint counts on is listed. A clean stop has the catalogue beside it, which knows offsets too.

line  | CRC32 of the rest, 8 hex digits | space | + or - | name |     one that is torn does not count
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import msgspec

from ... import logs
from ..files.disk import Disk, DiskFile, DiskFull, read_if_there, read_whole, replace_durably, sealed, unsealed

log = logs.get("pyromq.store")

DERIVED_FILE = "pyromq/derived"

Warns = logs.EventLog | logs.Limited


class DerivedListState(msgspec.Struct, array_like=True, frozen=True):
    """The list as a clean stop leaves it; zeroes: it is to be written whole."""

    lines: int = 0
    files: int = 0  # that are left of these
    length: int = 0
    crc: int = 0


def read_derived(disk: Disk) -> set[str]:
    """Return the names of the files that should be there; none if nobody wrote them down."""
    names: set[str] = set()
    for line in (read_if_there(disk, DERIVED_FILE) or b"").split(b"\n"):
        change = unsealed(line)
        if change is None:
            continue
        name = change[1:].decode("utf-8", "surrogateescape")
        if change.startswith(b"+"):
            names.add(name)
        else:
            names.discard(name)
    return names


def damaged_lines(disk: Disk) -> int:
    """Count lines that say nothing, without the last one: that may be torn, or being written."""
    lines = (read_if_there(disk, DERIVED_FILE) or b"").split(b"\n")
    return sum(unsealed(line) is None for line in lines[:-1])


class DerivedFiles:
    """The list, open for adding to it. Used by the thread that flushes, one at a time."""

    def __init__(self, disk: Disk, limited_log: Warns, lines: int, files: int, waiting: dict[str, bool]) -> None:
        """Open the list. `waiting`: what it lacks. `limited_log`: for lines that a full disk would repeat."""
        self._disk = disk
        self._limited_log = limited_log
        self._lines = lines
        self._files = files
        self._waiting = waiting
        self._file: DiskFile = disk.open(DERIVED_FILE)
        self._end = self._file.size()

    def left(self) -> DerivedListState:
        """Return the state of the list, for the catalogue."""
        if self._waiting:
            return DerivedListState()
        return DerivedListState(self._lines, self._files, self._end, zlib.crc32(read_whole(self._disk, DERIVED_FILE)))

    def note(self, changes: dict[str, bool]) -> None:
        """Add files that were made (True) or went (False), and sync.

        What finds no space waits for the next time: a full disk must not end writing, and less is noticed till then."""
        self._waiting |= changes
        if not self._waiting:
            return
        content = b"".join(_line("+" if made else "-", name) for name, made in self._waiting.items())
        try:
            self._file.pwrite(self._end, content)
        except DiskFull as fault:
            self._limited_log.warning("no room to write down which files there are", why=str(fault))
            return
        self._file.sync()
        self._end += len(content)
        self._lines += len(self._waiting)
        self._files += sum(1 if made else -1 for made in self._waiting.values())
        self._waiting.clear()

    def close(self) -> None:
        self._file.close()


def write_derived(disk: Disk, names: Iterable[str], limited_log: Warns = log) -> DerivedFiles:
    """Write the list as a whole. On a full disk the list that is there stays, and what it lacks waits for space."""
    there = set(names)
    waiting: dict[str, bool] = {}
    content = b"".join(_line("+", name) for name in sorted(there))
    try:
        replace_durably(disk, DERIVED_FILE, content)
    except DiskFull:
        if not disk.exists(DERIVED_FILE):
            raise
        listed = read_derived(disk)
        waiting = dict.fromkeys(there - listed, True) | dict.fromkeys(listed - there, False)
    return DerivedFiles(disk, limited_log, len(there), len(there), waiting)


def reopen_derived(disk: Disk, left: DerivedListState, limited_log: Warns = log) -> DerivedFiles | None:
    """Go on with the list of a clean stop. None: it is not the one that was left, or is mostly history by now."""
    if not left.length or left.lines > 2 * left.files or not disk.exists(DERIVED_FILE):
        return None
    content = read_whole(disk, DERIVED_FILE)
    if (len(content), zlib.crc32(content)) != (left.length, left.crc):
        return None
    return DerivedFiles(disk, limited_log, left.lines, left.files, {})


def _line(sign: str, name: str) -> bytes:
    return sealed(f"{sign}{name}".encode("utf-8", "surrogateescape")) + b"\n"
