"""`store backup`: a consistent copy of a store, also while a broker (ours or Java's) writes to it.

The copy is as of one position of the log. What speaks of records is copied before that position is chosen (tables),
what is derived from them afterwards (queues, index), and the copy is opened as if the broker had been killed there:
that cuts off entries beyond the position and writes those that are missing, as after every crash. Only the
source's small files and the order of the copies matter, so nothing has to stand still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from ...ambient import Clock
from ...errors import PyroError
from ...kernel.records import Placed
from ..config import StoreConfig
from ..files.disk import Disk, FileMissing, folder_of, make_folder_durably, read_if_there
from ..files.file_sequence import parse_segment_name
from ..files.read_only import read_only
from ..layout import BATCH_QUEUES, COMMIT_LOG
from ..log.log_walk import LogWalk, Tail, opened_log
from ..log.whole_crc import WHOLE_CRC_FILE, ranges_that_count, save_ranges
from ..message_store import MessageStore
from ..recovery.catalogue import CATALOGUE_FILE
from ..recovery.checkpoint import ABORT_FILE, CHECKPOINT_FILE, SYNCED_FILE, SyncedFile, mark_running, read_checkpoint
from ..recovery.claim import LOCK_FILE, refuse_unknown_kinds
from ..recovery.derived_files import DERIVED_FILE
from ..recovery.store_state import read_store_state
from ..tables.table_journal import JOURNAL_FOLDER

Progress = Callable[[int, int], None]  # bytes copied, bytes to copy

_CHUNK = 4 << 20
_SPARSE = 64 << 10  # blocks of zeroes of this size are left out
_OF_THE_SOURCE = (
    CATALOGUE_FILE,
    SYNCED_FILE,
    DERIVED_FILE,
    WHOLE_CRC_FILE,
    JOURNAL_FOLDER,
)  # they speak of what changes while it is copied
_NOT_COPIED = (LOCK_FILE, ABORT_FILE, ABORT_FILE + ".bak", CHECKPOINT_FILE)


class TargetNotEmpty(PyroError):
    """A backup goes into an empty folder, so that it never mixes with something else."""


@dataclass(slots=True)
class Backup:
    """What was copied."""

    log_start: int = 0
    log_end: int = 0
    files: int = 0
    bytes: int = 0


def backup_store(
    source: Disk,
    target: Disk,
    config: StoreConfig,
    clock: Clock,
    process_id: int,
    progress: Progress = lambda copied, whole: None,
    leave_out: tuple[str, ...] = (),
) -> Backup:
    """Copy the store, but for names that begin as one to `leave_out`. Blocking. When this returns the target is
    durable, and as a clean stop leaves it."""
    done = _Copy(read_only(source), target, config, progress, leave_out).run(process_id)
    batch_topics = set(target.list(BATCH_QUEUES))
    MessageStore(target, config, clock, is_batch_topic=batch_topics.__contains__).close()
    return done


class _Copy:
    def __init__(
        self, source: Disk, target: Disk, config: StoreConfig, progress: Progress, leave_out: tuple[str, ...]
    ) -> None:
        refuse_unknown_kinds(source)
        if target.list():
            raise TargetNotEmpty(f"{target.root} is not empty: name a new folder for the backup")
        self._source = source
        self._target = target
        self._config = config
        self._progress = progress
        self._left_out = (*_OF_THE_SOURCE, *leave_out)
        self._done = Backup()
        self._whole = 0
        self._folders: set[str] = set()
        self._whole_crc = ranges_that_count(source, config, read_store_state(source).ours)

    def run(self, process_id: int) -> Backup:
        mark_running(self._target, process_id)  # until it was opened, the copy is that of a killed broker
        # The journals first: a table that is written meanwhile holds what they say.
        if self._source.is_folder(JOURNAL_FOLDER):
            self._copy_tree(JOURNAL_FOLDER)
        self._copy_tree("config")
        # Read before the queues are copied: their copies then hold at least what it says.
        checkpoint = read_if_there(self._source, CHECKPOINT_FILE)
        end = self._end_of_log()
        others = [name for name in self._source.list() if name not in ("config", COMMIT_LOG, *_NOT_COPIED)]
        names = [name for other in others for name in self._tree(other) if not name.startswith(self._left_out)]
        self._whole = sum(self._size(name) for name in names) + end
        for name in names:
            self._copy(name)
        self._copy_log(end)
        if checkpoint:
            self._write(CHECKPOINT_FILE, [(0, checkpoint)], len(checkpoint))
        with closing(SyncedFile(self._target)) as synced:
            synced.save(end)
        save_ranges(self._target, self._whole_crc)
        for folder in sorted(self._folders, reverse=True):
            self._target.sync_folder(folder)
        self._target.sync_folder()
        return self._done

    def _end_of_log(self) -> int:
        """Return the end of the last record that is whole now, by a walk from where the checkpoint says all is well."""
        checked = read_checkpoint(self._source).queues_position
        with opened_log(self._source, self._config) as log:
            start = max(log.start, log.base_of(checked)) if log.has(log.base_of(checked)) else log.start
            end = self._done.log_start = log.start
            for found in LogWalk(log, self._config.delay_levels, start, whole_crc=self._whole_crc):
                if isinstance(found, Placed):
                    end = found.end
                elif isinstance(found, Tail) and found.position > end and not found.leftovers:
                    end = found.position
        self._done.log_end = end
        return end

    def _copy_log(self, end: int) -> None:
        size = self._config.commit_log_file_bytes
        for name in self._source.list(COMMIT_LOG):
            base = parse_segment_name(name)
            if base is None or base >= end:
                continue
            try:
                self._copy(f"{COMMIT_LOG}/{name}", upto=end - base, length=size)
            except FileMissing:
                self._done.log_start = base + size  # it expired meanwhile

    def _copy_tree(self, name: str) -> None:
        for file in self._tree(name):
            self._copy(file)

    def _tree(self, name: str) -> Iterator[str]:
        if not self._source.is_folder(name):
            yield name
            return
        for inner in self._source.list(name):
            if not inner.endswith(".tmp"):
                yield from self._tree(f"{name}/{inner}")

    def _size(self, name: str) -> int:
        try:
            return self._source.size(name)
        except FileMissing:
            return 0

    def _copy(self, name: str, upto: int | None = None, length: int | None = None) -> None:
        """Copy a file up to `upto`. `length`: of the copy, where it is not that of the source."""
        try:
            size = self._source.size(name) if length is None else length
        except FileMissing:
            return  # removed meanwhile
        self._write(name, self._chunks(name, upto), size)

    def _chunks(self, name: str, upto: int | None) -> Iterator[tuple[int, bytes]]:
        with closing(self._source.open(name, writable=False)) as file:
            at, end = 0, file.size() if upto is None else min(upto, file.size())
            while at < end:
                data = file.pread(at, min(_CHUNK, end - at))
                if not data:
                    return
                yield at, data
                at += len(data)

    def _write(self, name: str, chunks: Iterator[tuple[int, bytes]] | list[tuple[int, bytes]], size: int) -> None:
        folder = folder_of(name)
        if folder and folder not in self._folders:
            make_folder_durably(self._target, folder)
            self._folders.add(folder)
        with closing(self._target.open(name, create=True)) as file:
            file.truncate(size)
            for at, data in chunks:
                for inside in range(0, len(data), _SPARSE):
                    block = data[inside : inside + _SPARSE]
                    if block.strip(b"\0"):
                        file.pwrite(at + inside, block)
                self._done.bytes += len(data)
                self._progress(self._done.bytes, max(self._whole, self._done.bytes))
            file.sync()
        self._done.files += 1
