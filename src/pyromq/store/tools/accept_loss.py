"""`store accept-loss`: the owner's word that a part of the log is gone for good; the broker may then start without it.

What is missing is put back as empty files: its records then count as damaged ones, which nobody is shown, while their
positions and queue offsets stay taken. So no offset is given out twice, and everything else goes on. Files that are
missing at the front of the log are taken for expired.
"""

from __future__ import annotations

from ..config import StoreConfig
from ..files.disk import Disk, make_folder_durably
from ..files.segment import segment_name
from ..layout import COMMIT_LOG
from ..recovery.checkpoint import SyncedFile, read_checkpoint
from ..recovery.lock import claim_store
from ..recovery.store_state import MissingRange, log_file_sizes, missing_log, read_store_state, refuse_other_sizes


def accept_loss(disk: Disk, config: StoreConfig, *, only_look: bool = False) -> list[MissingRange]:
    """Blocking. Takes the store's lock. Returns what was missing; nothing is changed if nothing is."""
    lock = claim_store(disk)
    try:
        state = read_store_state(disk, read_checkpoint(disk))
        refuse_other_sizes(disk, config, state)
        missing = missing_log(disk, config, state)
        if missing and state.synced is not None and not only_look:
            _put_back_empty(disk, config, missing, state.synced)
        return missing
    finally:
        lock.release()


def _put_back_empty(disk: Disk, config: StoreConfig, missing: list[MissingRange], synced: int) -> None:
    size = config.commit_log_file_bytes
    make_folder_durably(disk, COMMIT_LOG)
    last = (synced - 1) // size * size  # the file that is written next
    first = min((*log_file_sizes(disk, config), last))
    for one in missing:
        for base in range(max(one.start // size * size, first), one.end, size):
            _fill(disk, f"{COMMIT_LOG}/{segment_name(base)}", size, whole=base == last)
    disk.sync_folder(COMMIT_LOG)
    mark = SyncedFile(disk)
    mark.raise_start(first)
    mark.close()


def _fill(disk: Disk, name: str, size: int, *, whole: bool) -> None:
    """Zeroes up to the full length; without room on disk behind them where nothing will be written."""
    file = disk.open(name, create=True)
    try:
        if whole:
            file.allocate(0, size)
        else:
            file.truncate(size)
        file.sync()
    finally:
        file.close()
