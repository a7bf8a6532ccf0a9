"""The folder of an audit log: numbered files of lines, and `head.json`, which says how far they go.

    audit-00000001.jsonl  audit-00000002.jsonl  head.json  lock

The head is replaced after the lines are on the medium. So lines may be there that it does not know yet, never the other
way round: a log that ends before its head was cut. `first` is the oldest file that rotation has left.
"""

from __future__ import annotations

import fcntl
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..errors import ConfigError, PyroError
from ..files import PRIVATE, make_folder, replace_file, sync_folder
from ..model.wire_text import whole_number
from .lines import START, Line, Link, decode

HEAD = "head.json"
_LOCK = "lock"
_FILE = re.compile(r"audit-([0-9]{8})\.jsonl")
_PRIVATE_FOLDER = 0o700
_MOST_SHARING = 64  # processes with the same folder


class Head(NamedTuple):
    """Where the log ended when the head was written."""

    link: Link
    first: int  # number of the oldest file
    file: int  # and of the last one
    size: int  # how far that file went


class _HeadFile(msgspec.Struct):
    seq: int
    hash: str
    first: int
    file: int
    size: int


class HeadDamaged(PyroError):
    """The head cannot be read."""


class WholeLines(NamedTuple):
    """What a file holds: the place of its last whole line, None without one, and where whole lines end."""

    last: Link | None
    end: int
    torn: bytes


@dataclass(frozen=True, slots=True)
class AuditFolder:
    """Names and reads the files of a folder. Blocks on the disk."""

    path: Path

    def file(self, number: int) -> Path:
        return self.path / f"audit-{number:08d}.jsonl"

    def numbers(self) -> list[int]:
        """Return the numbers of the files that are there, the oldest first."""
        if not self.path.is_dir():
            return []
        found = (_FILE.fullmatch(name) for name in os.listdir(self.path))
        return sorted(whole_number(match[1]) or 0 for match in found if match is not None)

    def head(self) -> Head | None:
        """Return the head; None if there is none. HeadDamaged: it cannot be read."""
        try:
            found = msgspec.json.decode((self.path / HEAD).read_bytes(), type=_HeadFile)
            return Head(Link(found.seq, found.hash), found.first, found.file, found.size)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as fault:
            raise HeadDamaged(f"{self.path / HEAD} cannot be read: {fault}") from None

    def write_head(self, head: Head) -> None:
        content = msgspec.json.encode(_HeadFile(head.link.seq, head.link.hash, head.first, head.file, head.size))
        replace_file(self.path / HEAD, content + b"\n", keep_backup=False)

    def append_to(self, number: int) -> int:
        """Open a file for appending; a new one is on the medium with its name. Return its descriptor."""
        path = self.file(number)
        is_new = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
        if is_new:
            sync_folder(self.path)
        return descriptor

    def whole_lines(self, number: int, head: Head | None = None) -> WholeLines:
        """Return how far a file consists of lines that follow one another: what comes after is torn. What the head
        knows already is not read again."""
        last: Link | None = None
        end = 0
        with open(self.file(number), "rb") as file:
            if head is not None and head.file == number and 0 < head.size <= os.fstat(file.fileno()).st_size:
                file.seek(head.size - 1)
                if file.read(1) == b"\n":
                    last, end = head.link, head.size
            file.seek(start := end)
            data = file.read()
        while (stop := data.find(b"\n", end - start)) >= 0:
            line = decode(data[end - start : stop])
            if line is None or not line.follows(last or before_first(line)):
                break
            last, end = line.link, start + stop + 1
        return WholeLines(last, end, data[end - start :])


def before_first(line: Line) -> Link:
    """Return the place before the first line of a file, which names it: the files before it may be gone."""
    after = line.entry.get("after")
    return Link(line.link.seq - 1, after if isinstance(after, str) else START)


def claim(wanted: Path) -> tuple[AuditFolder, int]:
    """Make and lock a folder of one process, and return it with the lock's descriptor.

    Processes that share a home or a configuration get `wanted`, `wanted.2` and so on. ConfigError: none can be had.
    """
    for number in range(1, _MOST_SHARING + 1):
        path = wanted if number == 1 else wanted.with_name(f"{wanted.name}.{number}")
        try:
            make_folder(path, _PRIVATE_FOLDER)
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
        except OSError as fault:
            raise ConfigError(
                f"auditFolder = {wanted}: the audit log cannot be written there: {fault.strerror}. Name another "
                "folder, or switch it off by auditEnable=false"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        return AuditFolder(path), lock
    raise ConfigError(f"auditFolder = {wanted}: {_MOST_SHARING} other processes have it: name another folder")
