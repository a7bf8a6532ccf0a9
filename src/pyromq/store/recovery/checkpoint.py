"""The small files beside the data: `checkpoint` and `abort` as the Java broker keeps them, and our own synced position.

The flusher writes checkpoint and synced position, always after the data that they speak of is synced: they may lag
behind the truth and must never be ahead of it. Recovery reads them. Each is rewritten in place inside one sector, which
a disk writes whole or not at all.
"""

from __future__ import annotations

import struct
import zlib
from contextlib import closing
from threading import Lock
from typing import NamedTuple

from ..files.disk import (
    Disk,
    DiskFile,
    DiskFull,
    folder_of,
    make_folder_durably,
    read_if_there,
    read_whole,
    replace_durably,
)

CHECKPOINT_FILE = "checkpoint"
ABORT_FILE = "abort"
SYNCED_FILE = "pyromq/synced"
_KEPT_ABORT = "pyromq/abort"  # what `abort` is called while no broker runs: taking it back needs no room on disk
_OURS = "pyromq"  # stands behind the process id in our `abort`

_CHECKPOINT = struct.Struct(">qqqqqq")
_CHECKPOINT_FILE_BYTES = 4096
_POSITION = struct.Struct(">q")
# Position and CRC32 of its bytes, twice in the file: up to where the log is synced, and where it starts.
_SYNCED = struct.Struct(">qI")


class Checkpoint(NamedTuple):
    """What was on disk when it was written. Zeroes mean "nothing known": recovery then starts at the beginning.

    | store time (8) of the last record synced in the log | ... in the queues | ... in full index files |
    | master's flushed position (8) | confirmed position (8) | start (8) of the last record with a synced queue entry |
    """

    log_time_ms: int = 0
    queues_time_ms: int = 0
    index_time_ms: int = 0
    master_flushed: int = 0
    confirmed: int = 0
    queues_position: int = 0  # Java 5.5 and later; 0 in stores of older ones

    def pack(self) -> bytes:
        return _CHECKPOINT.pack(*self)


def read_checkpoint(disk: Disk) -> Checkpoint:
    """Return the checkpoint. A missing or senseless file is the empty one: recovery then checks more, never less."""
    data = read_if_there(disk, CHECKPOINT_FILE) or b""
    return Checkpoint() if _fault_in(data) is not None else Checkpoint(*_CHECKPOINT.unpack_from(data))


def checkpoint_fault(disk: Disk) -> str | None:
    """Return why a checkpoint that is there says nothing."""
    return _fault_in(read_whole(disk, CHECKPOINT_FILE))


def _fault_in(data: bytes) -> str | None:
    if len(data) < _CHECKPOINT.size:
        return f"it has {len(data)} bytes, {_CHECKPOINT.size} are needed"
    return "it has negative times or positions" if min(_CHECKPOINT.unpack_from(data)) < 0 else None


def read_synced(disk: Disk) -> int | None:
    """Return the position up to which the log was synced for certain, or None in a store that only Java wrote."""
    return _position_in(disk, 0)


def read_log_start(disk: Disk) -> int | None:
    """Return where the log starts, as far as retention has gone; None if it was never written down."""
    return _position_in(disk, _SYNCED.size)


def is_synced_position_readable(disk: Disk) -> bool:
    """Return whether a synced position that is there can be read. Its second half may be empty: not known."""
    start = read_whole(disk, SYNCED_FILE)[_SYNCED.size : 2 * _SYNCED.size]
    return read_synced(disk) is not None and (not any(start) or read_log_start(disk) is not None)


def _position_in(disk: Disk, at: int) -> int | None:
    data = (read_if_there(disk, SYNCED_FILE) or b"")[at : at + _SYNCED.size]
    if len(data) < _SYNCED.size:
        return None
    position, checksum = _SYNCED.unpack(data)
    return position if checksum == zlib.crc32(data[: _POSITION.size]) and position >= 0 else None


class SectorFile:
    """A file of one sector that is overwritten in place and synced. One writer."""

    def __init__(self, disk: Disk, name: str, size: int) -> None:
        fresh = not disk.exists(name)
        if fresh and folder_of(name):
            make_folder_durably(disk, folder_of(name))
        self._file: DiskFile = disk.open(name, create=True)
        if self._file.size() < size:
            self._file.allocate(0, size)
            self._file.sync()
        if fresh:
            disk.sync_folder(folder_of(name))

    def write(self, data: bytes) -> None:
        self._file.pwrite(0, data)
        self._file.sync()

    def close(self) -> None:
        self._file.close()


class CheckpointFile(SectorFile):
    """The `checkpoint` file, open for writing."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk, CHECKPOINT_FILE, _CHECKPOINT_FILE_BYTES)

    def save(self, checkpoint: Checkpoint) -> None:
        self.write(checkpoint.pack())


class SyncedFile(SectorFile):
    """Our synced position, which tells damage (below it) from a torn tail (at or above it), and the log's start, which
    tells files that have expired from files that are gone. Several threads."""

    def __init__(self, disk: Disk) -> None:
        self._one_at_a_time = Lock()
        self._synced, self._start = read_synced(disk) or 0, read_log_start(disk)
        super().__init__(disk, SYNCED_FILE, 512)

    def save(self, position: int) -> None:
        with self._one_at_a_time:
            self._synced = position
            self._save()

    def raise_start(self, start: int) -> None:
        """Write the log's start down before the files in front of it go: from here on nobody misses them."""
        with self._one_at_a_time:
            if self._start is None or self._start < start:
                self._start = start
                self._save()

    def _save(self) -> None:
        known = [self._synced] if self._start is None else [self._synced, self._start]
        packed = [_POSITION.pack(position) for position in known]
        self.write(b"".join(data + zlib.crc32(data).to_bytes(4, "big") for data in packed))


def reset_checkpoint(disk: Disk, before: Checkpoint) -> None:
    """Let recovery start at the log's beginning after a crash: something older than the checkpoint is taken apart."""
    with closing(CheckpointFile(disk)) as file:
        file.save(Checkpoint(master_flushed=before.master_flushed, confirmed=before.confirmed))


def was_stopped_cleanly(disk: Disk) -> bool:
    return not disk.exists(ABORT_FILE)


def mark_running(disk: Disk, process_id: int) -> None:
    """Mark the store as running, durably before the first append: a stop without `mark_stopped` is then unclean.

    The mark is never torn: an empty one would not say whose it is. A full disk keeps nobody from starting where a
    broker of ours ran before.
    """
    try:
        replace_durably(disk, ABORT_FILE, f"{process_id} {_OURS}".encode())
    except DiskFull:
        if not was_running_ours(disk):
            if not disk.exists(_KEPT_ABORT):
                raise
            disk.rename(_KEPT_ABORT, ABORT_FILE)
            disk.sync_folder()
        if disk.exists(ABORT_FILE + ".tmp"):
            disk.remove(ABORT_FILE + ".tmp")


def was_running_ours(disk: Disk) -> bool:
    """Return whether the process that did not stop cleanly was one of ours: Java writes its process id alone."""
    return _OURS.encode() in (read_if_there(disk, ABORT_FILE) or b"")


def mark_stopped(disk: Disk) -> None:
    """Mark a clean stop, as its last step, after everything is synced."""
    if disk.exists(ABORT_FILE):
        make_folder_durably(disk, folder_of(_KEPT_ABORT))
        disk.rename(ABORT_FILE, _KEPT_ABORT)
        disk.sync_folder(folder_of(_KEPT_ABORT))
    disk.sync_folder()
