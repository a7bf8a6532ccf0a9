"""A patient walk over a commit log: every record that is whole, and what lies between those that are not.

For tools that look at all of a store (verify, dump, backup) and for recovery, whose own rules say what to keep; a walk
only finds. Reads through a buffer of bounded size, so the log may be larger than memory and on a failing medium.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import InitVar, dataclass, field
from typing import NamedTuple

from ...kernel.records import DelayLevels, Fault, Placed, check_at, whole_places
from ...protocol.record import BLANK, BLANK_BYTES, FIXED_BYTES, MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from ..config import StoreConfig
from ..files.disk import Disk, DiskError
from ..files.file_sequence import FileSequence
from ..files.open_files import OpenFiles
from ..layout import COMMIT_LOG
from .whole_crc import NO_RANGES, CrcRanges

_OPEN_FILES = 16
_WINDOW = 1 << 20
_MAGICS = (MAGIC_V1.to_bytes(4, "big"), MAGIC_V2.to_bytes(4, "big"))
_SIZE_BYTES = 4  # a record's magic stands behind its size


@contextmanager
def opened_log(disk: Disk, config: StoreConfig) -> Iterator[FileSequence]:
    """Give a tool the files of a log to read; they are closed in the end."""
    files = OpenFiles(disk, _OPEN_FILES)
    log = FileSequence(disk, files, COMMIT_LOG, config.commit_log_file_bytes)
    log.load()
    try:
        yield log
    finally:
        files.close()


class Gap(NamedTuple):
    """Bytes that are no record although records follow."""

    position: int
    end: int
    reason: str


class Tail(NamedTuple):
    """Where the records end, and what is behind them: nothing, or bytes that are no whole record."""

    position: int
    reason: str
    leftovers: bool


@dataclass(slots=True, eq=False, repr=False)
class LogWalk:
    """Iterate once: `Placed` and `Gap` in order of position, then one `Tail`; `runs` gives the records in lists.

    `ends_at(fault)` may end the walk at the first bytes that are no record, before anything behind them is searched.
    `whole_crc`: where a record without its own CRC is no whole record. `window_bytes`: read at once, at least.
    """

    log: FileSequence
    delays: DelayLevels
    start: InitVar[int | None] = None
    ends_at: Callable[[Fault], bool] = lambda fault: False
    whole_crc: CrcRanges = NO_RANGES
    window_bytes: int = _WINDOW
    _position: int = field(init=False)
    _window: bytes = field(default=b"", init=False)
    _window_at: int = field(default=0, init=False)  # position of its first byte
    _written: dict[int, list[tuple[int, int]]] = field(default_factory=dict, init=False)  # by file: the rest is zeroes

    def __post_init__(self, start: int | None) -> None:
        self._position = self.log.start if start is None else start

    def raw(self, placed: Placed) -> bytes:
        """Return the bytes of the record that was yielded last."""
        at = placed.position - self._window_at
        return self._window[at : at + placed.size]

    def __iter__(self) -> Iterator[Placed | Gap | Tail]:
        for found in self.runs():
            if isinstance(found, list):
                yield from found
            else:
                yield found

    def runs(self) -> Iterator[list[Placed] | Gap | Tail]:
        """Yield records that follow each other without anything between, some at a time."""
        lost: Gap | None = None  # begun, its end not known yet
        for base in [base for base in self.log.bases if base + self.log.file_bytes > self._position]:
            if base > self._position and lost is None:
                if self.ends_at(Fault(self._position, "the file is missing", False)):
                    yield Tail(self._position, "the file is missing", True)
                    return
                lost = Gap(self._position, base, "the file is missing")
            self._position = max(self._position, base)
            with suppress(DiskError):  # then nothing is known of it, and all is read
                self._written[base] = self.log.written(base)
            while self._position < base + self.log.file_bytes:
                if lost is None:  # the ordinary case: many whole records at once
                    run = self._whole_records()
                    if run:
                        yield run
                        self._position = run[-1].end
                    if self._position >= base + self.log.file_bytes:
                        break
                found = self._check(base)
                if isinstance(found, Placed):
                    if lost is not None:
                        yield lost._replace(end=found.position)
                        lost = None
                    yield [found]
                    self._position += found.size
                    continue
                if found is None:  # a blank record: the rest of the file holds nothing
                    if lost is not None:
                        yield lost._replace(end=self._position)
                        lost = None
                    self._position = base + self.log.file_bytes
                    continue
                if lost is None and self.ends_at(found):
                    yield Tail(found.position, found.reason, not found.is_end)
                    return
                lost = lost or Gap(found.position, found.position, found.reason)
                self._position = self._next_record(base)
        yield self._tail(lost)

    def _whole_records(self) -> list[Placed]:
        """Return the whole records from here on that lie in the window. `_check` says what ends them."""
        at = self._position - self._window_at
        if not 0 <= at <= len(self._window) - FIXED_BYTES:
            return []
        view = memoryview(self._window)[at:]
        places, sealed = whole_places(view, self._position)
        for number in range(sealed, len(places)):
            if self.whole_crc.lacks(places[number].position, places[number].properties):
                return places[:number]
        return places

    def _check(self, base: int) -> Placed | Fault | None:
        """Return the record here, or what is wrong; None for a blank record."""
        end = base + self.log.file_bytes
        if end - self._position < BLANK_BYTES:
            return Fault(self._position, "too few bytes are left in the file", True)
        try:
            self._fill(BLANK_BYTES)
            at = self._position - self._window_at
            if len(self._window) - at < BLANK_BYTES:
                return Fault(self._position, "the file ends here", False)
            size, magic = BLANK.unpack_from(self._window, at)
            if magic == MAGIC_BLANK and size == end - self._position:
                return None
            self._fill(min(max(size, FIXED_BYTES), end - self._position))
        except DiskError as fault:
            return Fault(self._position, str(fault), False)
        at = self._position - self._window_at
        found = check_at(memoryview(self._window), at, self._position, self.delays)
        if isinstance(found, Placed) and self.whole_crc.lacks(found.position, found.properties):
            return Fault(self._position, "its whole-record CRC (property __CRC32#) is gone", False)
        return found

    def _fill(self, length: int) -> None:
        """Read so that the window has `length` bytes from the position on, as far as the file has them."""
        at = self._position - self._window_at
        if at >= 0 and at + length <= len(self._window):
            return
        left = self.log.file_bytes - self._position % self.log.file_bytes
        self._window = b""
        self._window = self.log.read(self._position, min(left, max(length, self.window_bytes)))
        self._window_at = self._position

    def _next_record(self, base: int) -> int:
        """Return the first place behind here where a whole record starts; the end of the file if there is none."""
        end = base + self.log.file_bytes
        at = self._position + 1 + _SIZE_BYTES  # where the magic of the next candidate may stand
        while (at := self._next_written(base, at)) < end:
            try:
                chunk = self.log.read(at, min(_WINDOW, end - at))
            except DiskError:
                at += _WINDOW
                continue
            if len(chunk) < 4:
                break
            hits = [hit for hit in (chunk.find(magic) for magic in _MAGICS) if hit >= 0]
            if hits:
                self._position = at + min(hits) - _SIZE_BYTES
                if isinstance(self._check(base), Placed):
                    return self._position
                at = self._position + _SIZE_BYTES + 1
            else:
                at += len(chunk) - 3
        return end

    def _next_written(self, base: int, position: int) -> int:
        """Return the first place from here on that may hold anything but zeroes; the end of the file if none does."""
        whole = [(base, base + self.log.file_bytes)]
        stretches = self._written.get(base, whole)
        return next((max(first, position) for first, end in stretches if end > position), whole[0][1])

    def _tail(self, lost: Gap | None) -> Tail:
        if lost is None:
            return Tail(self._position, "the last file is full", False)
        return Tail(lost.position, lost.reason, self._anything_behind(lost.position))

    def _anything_behind(self, position: int) -> bool:
        while self.log.has(position):
            position = self._next_written(self.log.base_of(position), position)
            if not self.log.has(position):
                break
            left = self.log.file_bytes - position % self.log.file_bytes
            chunk = self.log.read(position, min(left, _WINDOW))
            if chunk.strip(b"\0"):
                return True
            position += max(len(chunk), 1) if len(chunk) == min(left, _WINDOW) else left
        return False
