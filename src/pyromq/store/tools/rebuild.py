"""`store rebuild`: queues and index anew from the log. The one tool that writes; takes the store's lock.

What is derived is removed and the store opened as after a crash, so that the same recovery writes it that always does.
A rebuild that is cut off leaves a store that opening rebuilds.
"""

from __future__ import annotations

from contextlib import closing

from ...ambient import Clock
from ..config import StoreConfig
from ..files.disk import Disk, remove_durably, remove_tree
from ..layout import BATCH_QUEUES, INDEX, QUEUES
from ..log.whole_crc import ranges_that_count, save_ranges
from ..message_store import MessageStore
from ..queues.queue_table import queue_ends, write_reserved
from ..recovery.checkpoint import SYNCED_FILE, Checkpoint, CheckpointFile, SyncedFile, mark_running
from ..recovery.claim import claimed
from ..recovery.derived_files import DERIVED_FILE
from ..recovery.recovery import RecoveryReport
from ..recovery.store_state import read_state_to_open
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
    with claimed(disk):
        state = read_state_to_open(disk, config)  # before anything is removed
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

    def on_scan(position: int) -> None:
        progress((end + min(position, end)) // 2, end)

    store = MessageStore(disk, config, clock, is_batch_topic=batch_topics.__contains__, on_scan=on_scan)
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
