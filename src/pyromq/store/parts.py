"""What an open store consists of: made by opening.py, shared by reading.py, flushing.py and expiry.py."""

from __future__ import annotations

from dataclasses import dataclass

from .. import logs
from .config import StoreConfig
from .files.disk import Disk, DiskLock
from .files.open_files import OpenFiles
from .files.read_mode import ReadMode
from .files.removals import Removals
from .index.key_index import Index
from .log.commit_log import CommitLog
from .log.flush import CheckpointFiles, FlushPlanner
from .queues.queue_table import QueueTable
from .recovery.recovery import RecoveryReport


@dataclass(frozen=True, slots=True)
class StoreParts:
    """The files of an open store by what they hold; recovery is done."""

    disk: Disk
    config: StoreConfig
    lock: DiskLock
    read_mode: ReadMode
    files: OpenFiles  # of queues and index
    removals: Removals
    commit_log: CommitLog
    queues: QueueTable
    index: Index | None  # None: there is none by configuration
    planner: FlushPlanner
    checkpoints: CheckpointFiles
    report: RecoveryReport
    limited_log: logs.Limited  # for lines that a full disk would repeat twice a second
