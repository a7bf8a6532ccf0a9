"""The small files beside the data, for `store verify`: those that cannot be read, or are gone.

Opening does without each of them and writes it again: it looks at more then, and takes the store for one of another
broker's where the checkpoint, the synced position or the catalogue does not count.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..files.disk import Disk
from ..log.whole_crc import WHOLE_CRC_FILE, are_ranges_readable
from ..recovery.catalogue import CATALOGUE_FILE, read_catalogue
from ..recovery.checkpoint import (
    CHECKPOINT_FILE,
    SYNCED_FILE,
    Checkpoint,
    checkpoint_fault,
    is_synced_position_readable,
)
from ..recovery.derived_files import DERIVED_FILE, damaged_lines
from ..recovery.store_state import StoreState
from .findings import OPEN, Level, Report

_GONE = "it is gone"
_UNREADABLE = "it cannot be read"


def check_state_files(disk: Disk, state: StoreState, report: Report) -> None:
    for name, what in _faults(disk, state):
        report.add(Level.REPAIRABLE, name, None, what, OPEN)


def _faults(disk: Disk, state: StoreState) -> Iterator[tuple[str, str]]:
    has_synced = disk.exists(SYNCED_FILE)
    if disk.exists(CHECKPOINT_FILE):
        fault = checkpoint_fault(disk)
        if fault is not None:
            yield CHECKPOINT_FILE, fault
    elif has_synced:  # a store that was just begun, of any broker, may have none
        yield CHECKPOINT_FILE, _GONE
    if has_synced and not is_synced_position_readable(disk):
        yield SYNCED_FILE, _UNREADABLE
    elif not has_synced and state.catalogue is not None:
        yield SYNCED_FILE, _GONE
    # None at all is right where a broker of ours was killed in its first life and Java went on.
    if disk.exists(CATALOGUE_FILE) and read_catalogue(disk) is None:
        yield CATALOGUE_FILE, _UNREADABLE
    if not are_ranges_readable(disk):
        yield WHOLE_CRC_FILE, f"{_UNREADABLE}: whether a record lost its own CRC is not known for older ones"
    if damaged_lines(disk):
        yield DERIVED_FILE, f"{damaged_lines(disk)} lines of it cannot be read"


def check_times(checkpoint: Checkpoint, newest_ms: int, report: Report) -> None:
    """Report a checkpoint that is ahead of the log. `newest_ms`: store time of the newest record."""
    claimed = max(checkpoint.log_time_ms, checkpoint.queues_time_ms, checkpoint.index_time_ms)
    if claimed > newest_ms:
        what = f"it speaks of a record of the time {claimed}, the newest one in the log is of {newest_ms}"
        report.add(Level.REPAIRABLE, CHECKPOINT_FILE, 0, what, OPEN)
