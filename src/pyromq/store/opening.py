"""Opening a store: claim it, refuse what must not be opened, recover, and hand out parts that are ready for appends.

`MessageStore` calls `open_parts` once, and `close_parts` in the end. Both block: nobody is served before or after them.
Nothing is written before everything that is refused has been refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from .. import logs
from ..ambient import Clock
from ..machine.budget import Budget
from ..machine.descriptors import Shares
from .config import StoreConfig
from .cutting import finish_cut
from .files.disk import Disk, DiskFull, DiskLock, remove_durably
from .files.free_space import warn_if_no_file_fits
from .log.commit_log import CommitLog
from .log.flush import CheckpointFiles, FlushPlanner
from .log.whole_crc import ranges_that_count, read_ranges, save_ranges
from .queues.java_queues import drop_extensions
from .queues.queue_table import RESERVED_FILE
from .queues.unchanged_queues import describe_queues, folder_stamps
from .recovery.catalogue import Catalogue, encode_queues, write_catalogue
from .recovery.checkpoint import SYNCED_FILE, CheckpointFile, SyncedFile, mark_running, mark_stopped, read_checkpoint
from .recovery.claim import claim_store
from .recovery.derived_files import DERIVED_FILE, DerivedFiles, reopen_derived, write_derived
from .recovery.recovery import RecoveryReport, recover
from .recovery.store_state import StoreState, read_state_to_open
from .store_files import StoreFiles, make_store_files
from .tables.json_tables import table_names

log = logs.get("pyromq.store")

_WARN_AGAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class StoreParts:
    """Its files, recovered, and what keeps them flushed."""

    files: StoreFiles
    lock: DiskLock
    planner: FlushPlanner
    checkpoints: CheckpointFiles
    report: RecoveryReport
    limited_log: logs.Limited  # for lines that a full disk would repeat twice a second


def open_parts(
    disk: Disk,
    config: StoreConfig,
    clock: Clock,
    is_batch_topic: Callable[[str], bool],
    lock: DiskLock | None,
    shares: Shares | None,
    on_scan: Callable[[int], None],
) -> StoreParts:
    """Open and recover. Takes the store's lock unless the caller has it; it is released if this raises."""
    lock = lock or claim_store(disk)
    try:
        finish_cut(disk, config, clock, is_batch_topic, shares)
        files = make_store_files(disk, config, clock, is_batch_topic, shares or Budget().shares)
        parts = _recovered(files, lock, logs.Limited(log, clock, _WARN_AGAIN_S), on_scan)
    except BaseException:
        lock.release()
        raise
    if not files.commit_log.sequence.bases:
        warn_if_no_file_fits(disk, config.commit_log_file_bytes)
    return parts


def _recovered(
    files: StoreFiles, lock: DiskLock, limited_log: logs.Limited, on_scan: Callable[[int], None]
) -> StoreParts:
    disk, commit_log = files.disk, files.commit_log
    state = read_state_to_open(disk, files.config)
    commit_log.whole_crc = ranges_that_count(disk, files.config, state.ours)
    _mark_running(disk, state)
    report = recover(files, state, on_scan)
    planner = FlushPlanner(commit_log, files.index, files.unsynced, state.checkpoint)
    checkpoints = _sync_recovered(files, state, report, planner, limited_log)
    log.info(
        "store opened",
        root=disk.root,
        clean_stop=report.clean_stop,
        end=report.end,
        scanned=report.records,
        damaged=len(report.damage),
        rebuilt=len(report.rebuilt),
        as_left=report.is_as_left,
    )
    return StoreParts(files, lock, planner, checkpoints, report, limited_log)


def _mark_running(disk: Disk, state: StoreState) -> None:
    if state.synced is None:
        if disk.exists(SYNCED_FILE):
            log.warning("our marks do not count: another broker wrote to this store since, or they are damaged")
        remove_durably(disk, SYNCED_FILE)
        remove_durably(disk, DERIVED_FILE)
    mark_running(disk, os.getpid())


def _sync_recovered(
    files: StoreFiles, state: StoreState, report: RecoveryReport, planner: FlushPlanner, limited_log: logs.Limited
) -> CheckpointFiles:
    """Sync what recovery wrote and cut before anything new is acked behind it, then say so in the small files."""
    disk, log_start = files.disk, files.commit_log.start
    checkpoint, synced = CheckpointFile(disk), SyncedFile(disk)
    kept: DerivedFiles | None = None
    if report.is_as_left and state.catalogue is not None:
        kept = reopen_derived(disk, state.catalogue.derived, limited_log)
    if not state.clean_stop:
        # A killed process leaves files and names that nobody has synced, and nobody remembers which.
        disk.sync_all()
    planner.plan_full(max(report.start, log_start)).sync(disk, checkpoint, synced, kept)
    remove_durably(disk, RESERVED_FILE)  # the queues have what it says
    if files.index is not None:
        files.index.warm()
    synced.raise_start(log_start)
    _open_whole_crc(disk, files.config, files.commit_log)
    drop_extensions(disk)
    if kept is None:
        index_names = [] if files.index is None else [file.name for file in files.index.files]
        kept = write_derived(disk, [*files.queues.file_names(), *index_names], limited_log)
    return CheckpointFiles(checkpoint, synced, kept)


def _open_whole_crc(disk: Disk, config: StoreConfig, commit_log: CommitLog) -> None:
    """Write down that appends have a CRC from here on, durably before the first one."""
    if config.whole_record_crc:
        commit_log.whole_crc = commit_log.whole_crc.opened_at(commit_log.end, commit_log.start)
    try:
        save_ranges(disk, commit_log.whole_crc)
    except DiskFull:
        if not config.whole_record_crc and read_ranges(disk).open_from is not None:
            raise  # what is written without CRC would count as damaged
        log.warning("no room to write down where records have their own CRC")


def stop_cleanly(parts: StoreParts, flush: Callable[[], None], minimums_from: int) -> None:
    """Sync everything and mark the stop, so that the next start looks at the end of the log alone.

    `minimums_from`: the start of the log that the queues' minimums follow. Raises DiskFull if there is no space to mark
    it: the next start then recovers as after a kill."""
    disk, commit_log, index = parts.files.disk, parts.files.commit_log, parts.files.index
    parts.files.removals.carry_out()
    if index is not None:
        index.tidy()
    flush()
    # Closed, the ranges count even if someone else writes behind them.
    save_ranges(disk, commit_log.whole_crc.closed_at(commit_log.end, commit_log.tail.last_position))
    write_catalogue(disk, _catalogue(parts, minimums_from))
    commit_log.close()
    parts.checkpoints.close()
    mark_stopped(disk)


def _catalogue(parts: StoreParts, minimums_from: int) -> Catalogue:
    disk, queues, index = parts.files.disk, parts.files.queues, parts.files.index
    known = [*queues.unchanged, *describe_queues(disk, list(queues.loaded()))]
    return Catalogue(
        read_checkpoint(disk).pack(),
        parts.files.config.file_sizes,
        encode_queues(known),
        None if index is None else index.known_files(),
        list(table_names(disk)),
        folder_stamps(disk, known),
        minimums_from,
        parts.checkpoints.derived.left(),
    )


def close_parts(parts: StoreParts) -> None:
    """Close the files and release the lock, however the store was stopped."""
    if parts.files.index is not None:
        parts.files.index.close()
    parts.files.open_files.close()
    parts.lock.release()
