"""`store accept-loss`: the owner's word that a part of the log is gone for good; the broker may then start without it.

What is missing is put back as empty files: its records then count as damaged ones, which nobody is shown, while their
positions and queue offsets stay reserved. So no offset is given out twice, and everything else goes on. Files that are
missing at the front of the log count as expired.
"""

from __future__ import annotations

from contextlib import closing

from ..config import StoreConfig
from ..files.disk import Disk, make_folder_durably
from ..files.segment import segment_name
from ..layout import COMMIT_LOG
from ..recovery.checkpoint import SyncedFile
from ..recovery.claim import claim_store
from ..recovery.store_state import MissingRange, log_file_sizes, missing_log, read_store_state, refuse_other_sizes


def accept_loss(disk: Disk, config: StoreConfig, *, dry_run: bool = False) -> list[MissingRange]:
    """Put missing parts back as empty files, and return them. Blocking. Takes the store's lock."""
    lock = claim_store(disk)
    try:
        state = read_store_state(disk)
        refuse_other_sizes(disk, config, state)
        missing = missing_log(disk, config, state)
        if missing and state.synced is not None and not dry_run:
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
    with closing(SyncedFile(disk)) as synced_file:
        synced_file.raise_start(first)


def _fill(disk: Disk, name: str, size: int, *, whole: bool) -> None:
    """Fill a file with zeroes up to its full length; without space reserved on disk where nothing will be written."""
    with closing(disk.open(name, create=True)) as file:
        if whole:
            file.allocate(0, size)
        else:
            file.truncate(size)
        file.sync()
