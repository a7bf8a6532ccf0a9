"""The files of a store: the log and what is derived from it. Made by opening.py, recovered, then used by every part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ambient import Clock
from ..machine.descriptors import Shares
from .config import StoreConfig
from .files.disk import Disk
from .files.open_files import OpenFiles, ReadMode, Removals, UnsyncedFiles
from .index.key_index import Index
from .log.commit_log import CommitLog
from .log.deleted_topics import DeletedTopics
from .queues.queue_table import QueueTable


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """One writer. Nothing is read before recovery loads it."""

    disk: Disk
    config: StoreConfig
    read_mode: ReadMode
    open_files: OpenFiles  # of queues and index
    removals: Removals  # files of log, queues and index that are still to be removed
    unsynced: UnsyncedFiles
    commit_log: CommitLog
    deleted: DeletedTopics
    queues: QueueTable
    index: Index | None  # None: there is none by configuration


def make_store_files(
    disk: Disk, config: StoreConfig, clock: Clock, is_batch_topic: Callable[[str], bool], shares: Shares
) -> StoreFiles:
    read_mode, removals = ReadMode(), Removals(disk)
    unsynced, deleted = UnsyncedFiles(), DeletedTopics(disk)
    open_files = OpenFiles(disk, min(config.max_open_queue_files, shares.queue_files), read_mode, removals)
    commit_log = CommitLog(disk, config, OpenFiles(disk, shares.log_files, read_mode, removals))

    def note_deleted(topic: str) -> None:
        """Keep the topic's records up to here from ever getting a queue again."""
        deleted.note(topic, commit_log.end, commit_log.start)

    queues = QueueTable(disk, open_files, unsynced, config, is_batch_topic, note_deleted)
    index = Index(disk, config, unsynced, clock.now_ms, open_files) if config.index_enabled else None
    return StoreFiles(disk, config, read_mode, open_files, removals, unsynced, commit_log, deleted, queues, index)
