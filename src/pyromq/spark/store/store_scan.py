"""Reads commit-log files without a broker, in ranges that may begin anywhere: ours, Java's, damaged ones. No Spark.

A record says its own position, so a scan finds its way from any byte: the first record of a range is the first one that
says that it lies where it lies. Windows are read, not mapped: a failing medium is then an error, not a signal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from ...kernel.records import Placed, check_at, walk_log
from ...protocol.record import BLANK, BLANK_BYTES, FIXED_BYTES, MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from ...store.config import StoreConfig
from ...store.files.disk import DiskError
from ...store.files.file_sequence import FileSequence
from ...store.files.open_files import OpenFiles
from ...store.files.read_only import read_only
from ...store.files.real_disk import RealDisk
from ...store.layout import COMMIT_LOG
from ...store.recovery.sizes import inferred_config
from ..codec.records import Records

WINDOW = 1 << 20  # Spark takes rows from batches of some thousand cheaper than from larger ones
PIECE = 16 << 20  # of a log, when only some of its times are wanted
_PIECE = 1 << 20  # read at once while looking for something
NEVER = (1 << 63) - 1  # a time after that of any record
_ZEROES = bytes(_PIECE)
_MAGICS = (MAGIC_V1.to_bytes(4, "big"), MAGIC_V2.to_bytes(4, "big"))


class LogRange(NamedTuple):
    """Records that begin from `begin` to `end` of one log file."""

    store: str
    begin: int
    end: int
    file_bytes: int
    is_last: bool  # of the log: bytes that were never written are its end


class Damage(NamedTuple):
    """Bytes that are no whole record."""

    store: str
    position: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"{self.store}: {self.end - self.position} bytes at {self.position} are no record: {self.reason}"


def plan(store: str, least: int, piece: int = 128 << 20) -> list[LogRange]:
    """Return the log of a store in pieces, at least about `least` of them. ConfigError, DiskError if it is no store."""
    with _opened(store) as log:
        size = log.file_bytes
        begun = [base for base in log.bases if not _is_empty(log.read(base, BLANK_BYTES))]
        last = max(begun, default=0)  # behind it are files that were made ahead and hold nothing yet
        ends = {base: _written_end(log, base) if base >= last else base + size for base in log.bases}
        total = sum(end - base for base, end in ends.items())
        piece = max(1 << 20, min(piece, -(-total // max(1, least))))
        return [
            LogRange(store, begin, min(begin + piece, end), size, base >= last)
            for base, end in ends.items()
            for begin in range(base, end, piece)
        ]


def stored_within(parts: Sequence[LogRange], low: int | None, high: int | None) -> list[LogRange]:
    """Return those pieces of one log, in their order, that may hold records stored from `low` on and before `high`.

    Store times grow with positions, so some twenty records of a large log are looked at, and no more.
    """
    begin, end = 0, len(parts)

    def stored(number: int) -> int:
        """Return when the first record from this piece on was stored: a piece may lie within a record, or be empty."""
        return next((time for part in parts[number:] if (time := _first_stored(part)) is not None), NEVER)

    if low is not None:  # the piece before the first one that begins in time may end in time
        begin = max(0, bisect_left(range(len(parts)), low, key=stored) - 1)
    if high is not None:
        end = bisect_left(range(len(parts)), high, key=stored)
    return list(parts[begin:end])


def _first_stored(part: LogRange) -> int | None:
    if part.is_last and part.begin % part.file_bytes == 0:
        with _opened(part.store, part.file_bytes) as log:
            if _is_empty(log.read(part.begin, BLANK_BYTES)):
                return None  # made ahead: the log ends before it
    for found in RangeScan(part, verify=False, window=FIXED_BYTES):
        if isinstance(found, Records):
            time: int = found.int64(found.store_time_at[:1]).item()
            return time
    return None


@contextmanager
def _opened(store: str, file_bytes: int = 0) -> Iterator[FileSequence]:
    disk = read_only(RealDisk(store))
    if not disk.is_folder(COMMIT_LOG):
        raise DiskError(f"{store} is not a store: it has no folder {COMMIT_LOG}. Name the broker's storePathRootDir")
    # The index says nothing about the log's files, and a damaged one need not stop us.
    file_bytes = file_bytes or inferred_config(disk, StoreConfig(index_enabled=False)).commit_log_file_bytes
    opened = OpenFiles(disk, 4)
    log = FileSequence(disk, opened, COMMIT_LOG, file_bytes)
    log.load()
    try:
        yield log
    finally:
        opened.close()


def _written(log: FileSequence, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the stretches of one file that were written: it is allocated whole, and the rest is not read."""
    found = log.written(log.base_of(begin))
    return [(max(first, begin), until) for first, until in found if until > begin and first < end]


def _written_end(log: FileSequence, base: int) -> int:
    """Return where the last stretch of a file ends; its beginning if nothing was written there."""
    return max((end for _, end in _written(log, base, base + log.file_bytes)), default=base)


class RangeScan:
    """Iterate once: chunks of intact records, and damage, in order of position."""

    def __init__(self, part: LogRange, *, verify: bool = True, window: int = WINDOW) -> None:
        self._part = part
        self._verify = verify
        self._window = window
        base = part.begin - part.begin % part.file_bytes
        self._file_end = base + part.file_bytes
        self._written: list[tuple[int, int]] = []

    def __iter__(self) -> Iterator[Records | Damage]:
        with _opened(self._part.store, self._part.file_bytes) as log:
            self._written = _written(log, self._part.begin, self._file_end)
            position: int | None = self._part.begin
            if self._part.begin % self._part.file_bytes:
                position = self._next_record(log, self._part.begin, self._part.end)
            while position is not None and position < self._part.end:
                raw = self._read(log, position, self._window)
                starts, length = walk_log(raw, position, self._part.end - position, self._verify)
                if starts:
                    yield Records(raw, np.frombuffer(starts, np.int64))
                    position += length
                    continue
                if len(raw) >= BLANK_BYTES and BLANK.unpack_from(raw)[1] == MAGIC_BLANK:
                    return
                found = check_at(memoryview(raw), 0, position, {})
                if isinstance(found, Placed):  # so odd that a kernel left it to this
                    yield Records(raw, np.zeros(1, np.int64))
                    position += found.size
                else:
                    position = yield from self._step_over(log, position, found.reason)

    def _step_over(self, log: FileSequence, position: int, why: str) -> Generator[Damage, None, int | None]:
        """Yield the damage up to the next record, and return where that is; None if there is none in this file."""
        found = self._next_record(log, position + 1, self._file_end)
        end = self._file_end if found is None else found
        if found is None and self._part.is_last and not self._anything(log, position, end):
            return None  # never written: the end of the log
        yield Damage(self._part.store, position, end, why)
        return found

    def _read(self, log: FileSequence, position: int, length: int) -> bytes:
        """Return at least `length` bytes, and at least the record that begins there. Never beyond the file."""
        raw = log.read(position, min(length, self._file_end - position))
        if len(raw) >= BLANK_BYTES:
            size = BLANK.unpack_from(raw)[0]
            if len(raw) < size <= self._file_end - position:
                raw = log.read(position, size)
        return raw

    def _next_record(self, log: FileSequence, begin: int, end: int) -> int | None:
        """Return the first position from `begin` on where a whole record lies that holds its own position."""
        at = begin + 4  # where its magic may stand
        while (at := self._skipped(at, end + 4)) < end + 4:
            chunk = log.read(at, min(_PIECE, self._file_end - at))
            if len(chunk) < 4:
                return None
            hits = [] if _is_empty(chunk) else [hit for magic in _MAGICS if (hit := chunk.find(magic)) >= 0]
            if not hits:
                at += len(chunk) - 3
                continue
            candidate = at + min(hits) - 4
            if candidate >= end:
                return None
            raw = self._read(log, candidate, FIXED_BYTES)
            if isinstance(check_at(memoryview(raw), 0, candidate, {}), Placed):
                return candidate
            at = candidate + 5
        return None

    def _skipped(self, position: int, end: int) -> int:
        """Return the next place where anything was written; `end` if there is none."""
        at = next((max(position, low) for low, high in self._written if high > position), end)
        return min(at, end)

    def _anything(self, log: FileSequence, position: int, end: int) -> bool:
        while (position := self._skipped(position, end)) < end:
            chunk = log.read(position, min(_PIECE, end - position))
            if not chunk:
                return False
            if not _is_empty(chunk):
                return True
            position += len(chunk)
        return False


def _is_empty(chunk: bytes) -> bool:
    """Return whether the chunk is all zeroes. A comparison is the fastest way to see that."""
    return chunk == (_ZEROES if len(chunk) == _PIECE else _ZEROES[: len(chunk)])
