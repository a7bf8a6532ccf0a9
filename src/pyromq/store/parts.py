"""What an open store consists of: made by opening.py, shared by flushing.py and expiry.py."""

from __future__ import annotations

from dataclasses import dataclass

from .. import logs
from .files.disk import DiskLock
from .log.flush import CheckpointFiles, FlushPlanner
from .recovery.recovery import RecoveryReport
from .store_files import StoreFiles


@dataclass(frozen=True, slots=True)
class StoreParts:
    """Its files, recovered, and what keeps them flushed."""

    files: StoreFiles
    lock: DiskLock
    planner: FlushPlanner
    checkpoints: CheckpointFiles
    report: RecoveryReport
    limited_log: logs.Limited  # for lines that a full disk would repeat twice a second
