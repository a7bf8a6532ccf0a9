"""`store cut`: the log of a store ends at a place that its owner names. Takes the store's lock.

What recovery would do first is done first: the log is cut as it stands after a clean stop. A cut that is interrupted is
finished by whoever opens the store next (`store/cutting.py`).
"""

from __future__ import annotations

from ...ambient import Clock
from ..config import StoreConfig
from ..cutting import CutPlan, Progress, begin_cut, plan_cut
from ..files.disk import Disk
from ..files.read_only import read_only
from ..layout import BATCH_QUEUES
from ..message_store import MessageStore
from ..recovery.claim import claimed, refuse_unknown_kinds
from ..recovery.store_state import read_state_to_open


def preview_cut(
    disk: Disk, config: StoreConfig, position: int, progress: Progress = lambda done, whole: None
) -> CutPlan:
    """Return what a cut would take away. Changes nothing. Raises StoreError if the log cannot be cut there."""
    refuse_unknown_kinds(disk)
    return plan_cut(read_only(disk), config, position, progress)


def cut_store(
    disk: Disk, config: StoreConfig, clock: Clock, position: int, progress: Progress = lambda done, whole: None
) -> str:
    """Cut the log, and return the name of the copy of what went; empty: nothing did. Blocking.

    The store is as a clean stop leaves it. Raises StoreLocked if a broker has it, DiskFull if there is no room for the
    copy; then nothing has changed."""
    with claimed(disk):
        read_state_to_open(disk, config)  # before anything is changed
    _open_and_close(disk, config, clock)  # finishes an earlier cut, and recovers
    with claimed(disk):
        plan = plan_cut(disk, config, position)
        if not plan.bytes:
            return ""
        mark = begin_cut(disk, config, plan, None, progress)
    _open_and_close(disk, config, clock)
    return mark.copy


def _open_and_close(disk: Disk, config: StoreConfig, clock: Clock) -> None:
    batch_topics = set(disk.list(BATCH_QUEUES))
    MessageStore(disk, config, clock, is_batch_topic=batch_topics.__contains__).close()
