"""`store rebuild`: queues and index anew from the log. The one tool that writes; takes the store's lock.

What is derived is removed and the store opened as after a crash, so that the same recovery writes it that always does.
A rebuild that is cut off leaves a store that opening rebuilds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, cast

from ...ambient import Clock
from ..config import StoreConfig
from ..files.disk import Disk, DiskFile, remove_durably, remove_tree
from ..files.segment import parse_segment_name
from ..layout import BATCH_QUEUES, COMMIT_LOG, INDEX, QUEUES
from ..log.whole_crc import ranges_that_count, save_ranges
from ..message_store import MessageStore
from ..queues.reserved_offsets import queue_ends, write_reserved
from ..recovery.checkpoint import SYNCED_FILE, Checkpoint, CheckpointFile, SyncedFile, mark_running
from ..recovery.derived_files import DERIVED_FILE
from ..recovery.lock import claim_store
from ..recovery.recovery import RecoveryReport
from ..recovery.store_state import read_store_state, refuse_missing_log, refuse_missing_tables, refuse_other_sizes
from .verify import Progress, verify_store


def rebuild_store(
    disk: Disk,
    config: StoreConfig,
    clock: Clock,
    process_id: int,
    progress: Progress = lambda position, end: None,
) -> RecoveryReport:
    """Rebuild queues and index. Blocking.

    Raises StoreLocked if a broker has it, UnknownStoreKind if we do not read it, ConfigError if it was written with
    other file sizes; then nothing has changed."""
    lock = claim_store(disk)
    try:
        state = read_store_state(disk)
        refuse_other_sizes(disk, config, state)  # before anything is removed
        refuse_missing_log(disk, config, state)
        refuse_missing_tables(disk, state)
        # The queues may be all that tells damage from the end of the log (in a store of Java's), so the end is fixed
        # while they are there.
        found = verify_store(disk, config, lambda position, whole: progress(position // 2, whole)).log_end
        end = max(found, state.synced or 0)  # what was synced and is no record any more is damage, not a torn end
        batch_topics = set(disk.list(BATCH_QUEUES))
        save_ranges(disk, ranges_that_count(disk, config, state.ours))  # from here on it looks like one of ours
        if state.synced is None:
            remove_durably(disk, SYNCED_FILE)  # its position may speak of records that are no longer there
        write_reserved(disk, queue_ends(disk, config, state.catalogue, end))
        _forget_derived(disk, end, process_id)
    finally:
        lock.release()
    watched = _WatchedDisk(disk, lambda position: progress((end + min(position, end)) // 2, end))
    store = MessageStore(cast(Disk, watched), config, clock, is_batch_topic=batch_topics.__contains__)
    store.close()
    return store.recovery


def _forget_derived(disk: Disk, end: int, process_id: int) -> None:
    """Remove the small files, then the derived files: at every moment the store is one that opening completes."""
    disk.sync_all()
    remove_durably(disk, DERIVED_FILE)
    mark_running(disk, process_id)
    with closing(SyncedFile(disk)) as synced:
        synced.save(end)
    with closing(CheckpointFile(disk)) as checkpoint:
        checkpoint.save(Checkpoint())
    for root in (QUEUES, BATCH_QUEUES, INDEX):
        for name in disk.list(root):
            remove_tree(disk, f"{root}/{name}")
        if disk.is_folder(root):
            disk.sync_folder(root)


class _WatchedDisk:
    """The same disk; tells how far the log was read."""

    def __init__(self, disk: Disk, on_read: Callable[[int], None]) -> None:
        self._disk = disk
        self._on_read = on_read

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def open(self, name: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        file = self._disk.open(name, create=create, writable=writable)
        folder, _, base = name.rpartition("/")
        position = parse_segment_name(base)
        if folder != COMMIT_LOG or position is None:
            return file
        return cast(DiskFile, _WatchedFile(file, position, self._on_read))


class _WatchedFile:
    def __init__(self, file: DiskFile, base: int, on_read: Callable[[int], None]) -> None:
        self._file = file
        self._base = base
        self._on_read = on_read

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def pread(self, offset: int, length: int) -> bytes:
        self._on_read(self._base + offset)
        return self._file.pread(offset, length)
