"""Opening a store: claim it, refuse what must not be opened, recover, and hand out parts that are ready for appends.

`MessageStore` calls `open_parts` once, and `close_parts` in the end. Both block: nobody is served before or after them.
Nothing is written before everything that is refused has been refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from .. import logs
from ..ambient import Clock
from ..machine.budget import Budget
from ..machine.descriptors import Shares
from .config import StoreConfig
from .files.changes import Changes
from .files.disk import Disk, DiskFull, DiskLock
from .files.free_space import say_if_none_fits
from .files.open_files import OpenFiles
from .files.reads import Reads
from .files.removals import Removals
from .index.key_index import Index
from .log.commit_log import CommitLog
from .log.deleted_topics import DeletedTopics
from .log.flush import FlushPlanner, Marks
from .log.whole_crc import ranges_that_count, read_ranges, save_ranges
from .parts import StoreParts
from .queues.extension import drop_extensions
from .queues.queue_table import QueueTable
from .queues.reserved_offsets import forget_taken
from .queues.unchanged_queues import note_folders, note_queues
from .recovery.catalogue import Catalogue, encode_queues, write_catalogue
from .recovery.checkpoint import (
    SYNCED_FILE,
    CheckpointFile,
    SyncedFile,
    forget_synced,
    mark_running,
    mark_stopped,
    read_checkpoint,
)
from .recovery.derived_files import DerivedFiles, forget_derived, keep_derived, write_derived
from .recovery.lock import claim_store
from .recovery.recovery import Recovery, RecoveryReport
from .recovery.store_state import (
    MarksFound,
    find_marks,
    refuse_missing_log,
    refuse_missing_tables,
    refuse_other_sizes,
)
from .tables.json_tables import table_names

log = logs.get("pyromq.store")

_WARN_AGAIN_S = 60.0


def open_parts(
    disk: Disk,
    config: StoreConfig,
    clock: Clock,
    is_batch_topic: Callable[[str], bool],
    lock: DiskLock | None,
    shares: Shares | None,
) -> StoreParts:
    """Open and recover. Takes the store's lock unless the caller has it; it is released if this raises."""
    lock = lock or claim_store(disk)
    try:
        parts = _recovered(disk, config, clock, is_batch_topic, lock, shares or Budget().shares)
    except BaseException:
        lock.release()
        raise
    _say_what_has_no_effect(config)
    if not parts.commit_log.sequence.bases:
        say_if_none_fits(disk, config.commit_log_file_bytes)
    return parts


def _recovered(
    disk: Disk,
    config: StoreConfig,
    clock: Clock,
    is_batch_topic: Callable[[str], bool],
    lock: DiskLock,
    shares: Shares,
) -> StoreParts:
    changes, reads = Changes(), Reads()
    files = OpenFiles(disk, min(config.max_open_queue_files, shares.queue_files), reads)
    commit_log = CommitLog(disk, config, reads, shares.log_files)
    deleted = DeletedTopics(disk)

    def note_deleted(topic: str) -> None:
        """Its records up to here never get a queue again."""
        deleted.note(topic, commit_log.end, commit_log.start)

    queues = QueueTable(disk, files, changes, config, is_batch_topic, note_deleted)
    index = Index(disk, config, changes, clock.now_ms, reads, files) if config.index_enabled else None
    few = logs.Limited(log, clock, _WARN_AGAIN_S)
    found = _found(disk, config)
    commit_log.whole_crc = ranges_that_count(disk, config, found.ours)
    _mark_running(disk, found)
    report = Recovery(disk, config, commit_log, queues, index, changes, found, deleted).run()
    planner = FlushPlanner(commit_log, index, changes, found.checkpoint)
    marks = _sync_recovered(disk, config, found, report, planner, commit_log, queues, index, few)
    removals = Removals(disk)  # recovery is done: from here on a helper removes files
    files.removals = removals
    commit_log.remove_by(removals)
    log.info(
        "store opened",
        root=disk.root,
        clean_stop=report.clean_stop,
        end=report.end,
        scanned=report.records,
        damaged=len(report.damage),
        rebuilt=len(report.rebuilt),
        as_left=report.as_left,
    )
    return StoreParts(
        disk, config, lock, reads, files, removals, commit_log, queues, index, planner, marks, report, few
    )


def _found(disk: Disk, config: StoreConfig) -> MarksFound:
    """Read what the small files say, and refuse a store that must not be opened. Changes nothing."""
    found = find_marks(disk, read_checkpoint(disk))
    refuse_other_sizes(disk, config, found)
    refuse_missing_log(disk, config, found)
    refuse_missing_tables(disk, found)
    return found


def _mark_running(disk: Disk, found: MarksFound) -> None:
    if found.synced is None:
        if disk.exists(SYNCED_FILE):
            log.warning("our marks do not count: another broker wrote to this store since, or they are damaged")
        forget_synced(disk)
        forget_derived(disk)
    mark_running(disk, os.getpid())


def _sync_recovered(
    disk: Disk,
    config: StoreConfig,
    found: MarksFound,
    report: RecoveryReport,
    planner: FlushPlanner,
    commit_log: CommitLog,
    queues: QueueTable,
    index: Index | None,
    few: logs.Limited,
) -> Marks:
    """Sync what recovery wrote and cut before anything new is acked behind it, then say so in the small files."""
    checkpoint, synced = CheckpointFile(disk), SyncedFile(disk)
    kept: DerivedFiles | None = None
    if report.as_left and found.catalogue is not None:
        kept = keep_derived(disk, found.catalogue.derived, few)
    if not found.clean_stop:
        # A killed process leaves files and names that nobody has synced, and nobody remembers which.
        disk.sync_all()
    planner.plan_full(max(report.start, commit_log.start)).sync(disk, checkpoint, synced, kept)
    forget_taken(disk)
    if index is not None:
        index.warm()
    synced.raise_start(commit_log.start)
    _open_whole_crc(disk, config, commit_log)
    drop_extensions(disk)
    if kept is None:
        kept = write_derived(disk, _derived_names(queues, index), few)
    return Marks(checkpoint, synced, kept)


def _derived_names(queues: QueueTable, index: Index | None) -> list[str]:
    names = list(queues.file_names())
    return names if index is None else names + [file.name for file in index.files]


def _open_whole_crc(disk: Disk, config: StoreConfig, commit_log: CommitLog) -> None:
    """Durable before the first append, which it speaks of."""
    if config.whole_record_crc:
        commit_log.whole_crc = commit_log.whole_crc.opened_at(commit_log.end, commit_log.start)
    try:
        save_ranges(disk, commit_log.whole_crc)
    except DiskFull:
        if not config.whole_record_crc and read_ranges(disk).open_from is not None:
            raise  # what is written without CRC would count as damaged
        log.warning("no room to write down where records have their own CRC")


def _say_what_has_no_effect(config: StoreConfig) -> None:
    for key, wanted in (
        ("transientStorePoolEnable", config.transient_store_pool),
        ("warmMapedFileEnable", config.warm_mapped_files),
    ):
        if wanted:
            log.warning("setting has no effect: appends are plain writes here, see docs/store.md", key=key)


def stop_cleanly(parts: StoreParts, flush: Callable[[], None], minimums_from: int) -> None:
    """Sync everything and mark the stop, so that the next start looks at the end of the log alone.

    `minimums_from`: the start of the log that the queues' minimums follow. Raises DiskFull if there is no room to mark
    it: the next start then recovers as after a kill."""
    disk, commit_log = parts.disk, parts.commit_log
    parts.removals.carry_out()
    if parts.index is not None:
        parts.index.tidy()
    flush()
    # Closed, the ranges count even if someone else writes behind them.
    save_ranges(disk, commit_log.whole_crc.closed_at(commit_log.end, commit_log.last_position))
    write_catalogue(disk, _catalogue(parts, minimums_from))
    commit_log.close()
    parts.marks.close()
    mark_stopped(disk)


def _catalogue(parts: StoreParts, minimums_from: int) -> Catalogue:
    disk, queues = parts.disk, parts.queues
    known = [*queues.resting, *note_queues(disk, list(queues.awake()))]
    return Catalogue(
        read_checkpoint(disk).pack(),
        parts.config.file_sizes,
        encode_queues(known),
        None if parts.index is None else parts.index.known_files(),
        list(table_names(disk)),
        note_folders(disk, known),
        minimums_from,
        parts.marks.derived.left(),
    )


def close_parts(parts: StoreParts) -> None:
    """Close the files and release the lock, however the store was stopped."""
    if parts.index is not None:
        parts.index.close()
    parts.files.close()
    parts.lock.release()
