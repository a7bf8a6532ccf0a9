"""One file of a sequence: its name, how it comes to be, and how its end is cut off.

Log files get all their room before use (a full disk is then an error of a call, not a killed process). Queue and index
files have their full length at once but room in steps.
"""

from __future__ import annotations

from contextlib import closing

from ...model.wire_text import INT_MAX, whole_number
from .disk import Disk, DiskFile, DiskFull, folder_of, make_folder_durably

NAME_DIGITS = 20


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
