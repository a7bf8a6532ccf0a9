"""Writes lines to the files of an audit log: appended, synced, then the head. Blocks on the disk: helper threads only.

Opening it goes on where the files end. What a kill left of a line is closed by an end of line, and the next line, of
kind `open`, says how many bytes it has and their hash: so a torn line is told from one that was changed. A log that
ends before its head says is gone on with all the same, and the line `open` says what is missing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .. import logs
from .folder import AuditFolder, Head, HeadDamaged, claim
from .lines import FIRST, Link, encode

log = logs.get("pyromq.audit")


class Noted(NamedTuple):
    """Something that happened, before it has a place in the chain."""

    now_ms: int
    kind: str
    fields: dict[str, Any]


@dataclass(slots=True)
class ChainWriter:
    """One process's. `open` makes it, `close` ends it."""

    folder: AuditFolder
    file_bytes: int
    most_files: int
    _lock: int
    _last: Link = FIRST
    _number: int = 0
    _descriptor: int = -1
    _size: int = 0
    _first: int = 1
    _opened: dict[str, Any] | None = None  # what the first line says of the end that was found

    @classmethod
    def open(cls, wanted: Path, file_bytes: int, most_files: int) -> ChainWriter:
        """Take the folder, and find the end of what is there. ConfigError: it cannot be had."""
        folder, lock = claim(wanted)
        try:
            writer = cls(folder, file_bytes, most_files, lock)
            writer._find_end()
        except BaseException:
            os.close(lock)
            raise
        return writer

    def append(self, events: Sequence[Noted]) -> None:
        """Write events behind one another, and return when they are on the medium. OSError: none of them is."""
        if self._descriptor < 0 or self._size >= self.file_bytes:
            self._next_file(events[0].now_ms)
        last, lines = self._last, []
        for event in events if self._opened is None else [Noted(events[0].now_ms, "open", self._opened), *events]:
            line, last = encode(last, *event)
            lines.append(line)
        self._write(b"".join(lines), last)
        self._opened = None
        self._write_head()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        os.close(self._lock)

    # --- files ------------------------------------------------------------------------------------------------------

    def _next_file(self, now_ms: int) -> None:
        """Begin another file, whose first line names the end of the one before."""
        if not self._number:
            self.folder.write_head(Head(FIRST, 1, 0, 0))  # before the first file, so that there is never one without
        descriptor = self.folder.append_to(self._number + 1)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._number, self._descriptor, self._size = self._number + 1, descriptor, 0
        line, begun = encode(self._last, now_ms, "file", {"file": self._number, "after": self._last.hash})
        self._write(line, begun)
        self._first = max(self._first, self._number - self.most_files + 1)
        self._write_head()
        for number in self.folder.numbers():
            if number < self._first:
                self.folder.file(number).unlink(missing_ok=True)

    def _write(self, data: bytes, last: Link) -> None:
        """Append lines and sync them. A write that fails leaves the file as it was."""
        try:
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)
        self._last = last

    def _write_head(self) -> None:
        self.folder.write_head(Head(self._last, self._first, self._number, self._size))

    # --- where it goes on -------------------------------------------------------------------------------------------

    def _find_end(self) -> None:
        numbers = self.folder.numbers()
        head, said = self._head(is_new=not numbers)
        if head is not None:
            self._last, self._number, self._first = head.link, head.file, head.first
        elif numbers:
            self._first = numbers[0]
        if numbers:
            self._number = numbers[-1]
            whole = self.folder.whole_lines(self._number, head)
            self._descriptor, self._size = self.folder.append_to(self._number), whole.end
            if whole.torn:
                self._close_torn(whole.torn, said)
            found = whole.last or self._end_before(numbers[:-1], head) or FIRST
            if head is not None and head.link.seq > found.seq:
                said["missing"] = f"lines {found.seq + 1} to {head.link.seq}"  # whose numbers nobody else gets
            else:
                self._last = found
        elif head is not None and head.file:
            said["missing"] = f"all files up to {head.file}"
            self._first = head.file + 1
        if "missing" in said:
            self._complain(said)
        self._opened = {"file": self._number, "after": self._last.hash, **said}

    def _end_before(self, numbers: Sequence[int], head: Head | None) -> Link | None:
        """Return where the file before an empty one ends."""
        return self.folder.whole_lines(numbers[-1], head).last if numbers else None

    def _head(self, *, is_new: bool) -> tuple[Head | None, dict[str, Any]]:
        try:
            head = self.folder.head()
        except HeadDamaged as fault:
            return None, {"missing": str(fault)}
        return head, {} if is_new or head is not None else {"missing": "the head"}

    def _close_torn(self, torn: bytes, said: dict[str, Any]) -> None:
        ended = torn if torn.endswith(b"\n") else torn + b"\n"
        os.write(self._descriptor, ended[len(torn) :])
        os.fsync(self._descriptor)
        self._size += len(ended)
        said |= {"torn": len(ended), "tornHash": hashlib.sha256(ended).hexdigest()}
        log.warning("the last line of the audit log was torn, as a kill leaves it", bytes=len(torn))

    def _complain(self, said: dict[str, Any]) -> None:
        log.error(
            "lines of the audit log are missing",
            folder=self.folder.path,
            what=said["missing"],
            remedy=f"pyromq audit verify {self.folder.path}",
        )
