"""Getting bytes onto the medium: the log for `flushed`, and now and then everything derived, then the checkpoint.

Each flush has two halves: a plan made on the writer's thread, which says what is to be synced and up to where, and the
sync itself, which blocks and runs elsewhere. Marks move only after a sync that succeeded; one that fails ends writing
for good, since a second try that succeeds proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from ..files.disk import Disk
from ..files.open_files import UnsyncedFiles
from ..index.index_file import IndexCommit
from ..index.key_index import Index
from ..recovery.checkpoint import Checkpoint, CheckpointFile, SyncedFile
from ..recovery.derived_files import DerivedFiles
from .commit_log import CommitLog


@dataclass(frozen=True, slots=True)
class LogFlush:
    """Log files that hold bytes up to `until` which were not synced when it was planned."""

    names: list[str]
    until: int
    turn: Lock = field(default_factory=Lock, compare=False)

    def sync(self, disk: Disk) -> None:
        """Sync the files. Blocking. One fdatasync a file serves every writer that waits for a position up to `until`.

        Syncs take turns: a second one of the same file would hold its last page until the first has written it, and the
        next append waits for that page."""
        with self.turn:
            disk.sync_many(self.names)


@dataclass(frozen=True, slots=True)
class FullFlush:
    """Log, queues, index, then the files that speak of them: in this order, or those would be ahead of the truth."""

    log: LogFlush
    unsynced: UnsyncedFiles
    commits: list[IndexCommit]
    checkpoint: Checkpoint

    def sync(self, disk: Disk, checkpoint: CheckpointFile, synced: SyncedFile, derived: DerivedFiles | None) -> None:
        """Sync all of it. Blocking. `derived` is None while an opening has yet to write that list as a whole."""
        self.log.sync(disk)
        self.unsynced.sync(disk)  # queue entries and index entries
        for commit in self.commits:  # slots and headers that lead to those entries
            commit.write(disk)
        if derived is not None:
            derived.note(self.unsynced.names)
        checkpoint.save(self.checkpoint)
        synced.save(self.log.until)


class CheckpointFiles(NamedTuple):
    """The files that say how far the store is on the medium, and which derived files there are."""

    checkpoint: CheckpointFile
    synced: SyncedFile
    derived: DerivedFiles

    def close(self) -> None:
        for file in self:
            file.close()


class FlushPlanner:
    """Writer's thread only. Knows what changed since the last flush."""

    def __init__(self, log: CommitLog, index: Index | None, unsynced: UnsyncedFiles, before: Checkpoint) -> None:
        self._log = log
        self._index = index
        self._unsynced = unsynced
        self._before = before
        self._turn = Lock()  # of those who sync the log
        self._saved_confirmed = before.confirmed
        self.confirmed: Callable[[], int] = lambda: before.confirmed  # what the checkpoint says of other copies

    def plan_log(self, flushed: int) -> LogFlush:
        return LogFlush(self._log.names_between(flushed, self._log.end), self._log.end, self._turn)

    def has_work(self, flushed: int) -> bool:
        """Return False where nothing changed since the last full flush: an idle store does not touch the disk."""
        index_changed = self._index is not None and any(file.tail.is_changed for file in self._index.files)
        unsynced = self._unsynced
        is_unsynced = flushed < self._log.end or unsynced.files or unsynced.folders or unsynced.names
        return bool(is_unsynced or index_changed or self.confirmed() != self._saved_confirmed)

    def plan_full(self, flushed: int) -> FullFlush:
        """Plan a flush of everything dispatched so far. One call: nothing may be appended between the plan's parts."""
        commits = self._index.take_commits() if self._index is not None else []
        return FullFlush(self.plan_log(flushed), self._unsynced.take(), commits, self._checkpoint())

    def _checkpoint(self) -> Checkpoint:
        self._saved_confirmed = self.confirmed()
        return Checkpoint(
            log_time_ms=self._log.tail.last_time,
            queues_time_ms=self._log.tail.last_time,
            index_time_ms=self._index.full_until_time if self._index is not None else self._before.index_time_ms,
            master_flushed=self._before.master_flushed,
            confirmed=self._saved_confirmed,
            queues_position=self._log.tail.last_position,
        )
