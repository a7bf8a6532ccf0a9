"""Bugs on purpose: each makes the store break one promise, so that the harness can show that it would notice.

A bug is a change of one function for the time of a test. None of them can be switched on in the product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyromq.kernel.python import scan
from pyromq.kernel.state import QueueTail
from pyromq.store import message_store, opening
from pyromq.store.files import file_sequence, open_files
from pyromq.store.files.disk import Disk, folder_of, make_folder_durably
from pyromq.store.flushing import StoreFlusher
from pyromq.store.index.index_file import IndexCommit, IndexFile
from pyromq.store.log import commit_log, flush, whole_crc
from pyromq.store.log.watermarks import Watermarks
from pyromq.store.opening import StoreParts
from pyromq.store.queues.consume_queue import ConsumeQueue
from pyromq.store.recovery import checkpoint, log_scan, recovery
from pyromq.store.recovery import store_state as marks
from pyromq.store.tables import json_tables as tables
from pyromq.testing.simulated_disk import SimulatedDisk

Bug = Callable[[pytest.MonkeyPatch], None]


def nothing(*_: Any, **__: Any) -> None:
    """In place of something that matters."""


def log_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(flush.LogFlush, "sync", nothing)


def flushed_moves_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    async def early(self: StoreFlusher) -> None:
        plan = self.parts.planner.plan_log(self.watermarks.flushed.value)
        self.watermarks.flushed_to(plan.until)

    patch.setattr(StoreFlusher, "flush_log", early)


def failed_sync_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """Issues 2706, 3129, 3349, 5235, 9713 of RocketMQ."""
    real = SimulatedDisk.sync_many

    def swallow(self: SimulatedDisk, names: Any) -> None:
        try:
            real(self, names)
        except Exception:
            return

    patch.setattr(SimulatedDisk, "sync_many", swallow)


def failed_sync_is_tried_again(patch: pytest.MonkeyPatch) -> None:
    real = SimulatedDisk.sync_many

    def again(self: SimulatedDisk, names: Any) -> None:
        names = list(names)
        try:
            real(self, names)
        except Exception:
            real(self, names)

    patch.setattr(SimulatedDisk, "sync_many", again)


def new_log_file_has_no_durable_name(patch: pytest.MonkeyPatch) -> None:
    def prepare(disk: Disk, name: str, length: int) -> None:
        make_folder_durably(disk, folder_of(name))
        file = disk.open(name, create=True)
        file.allocate(0, length)
        file.sync()
        file.close()

    patch.setattr(commit_log, "prepare_whole", prepare)


def table_is_renamed_before_it_is_synced(patch: pytest.MonkeyPatch) -> None:
    def unsynced(disk: Disk, name: str, content: bytes) -> str:
        aside = name + ".tmp"
        file = disk.open(aside, create=True)
        file.truncate(0)
        file.pwrite(0, content)
        return aside

    patch.setattr(tables, "write_temporary", unsynced)


def table_s_folder_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    real = SimulatedDisk.sync_folder
    patch.setattr(
        SimulatedDisk, "sync_folder", lambda self, folder="": None if folder == "config" else real(self, folder)
    )


def crc_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scan, "check_crc", nothing)
    patch.setattr(scan, "whole_record_crc", lambda properties: None)


def checkpoint_is_written_before_the_queues(patch: pytest.MonkeyPatch) -> None:
    """Issues 405 and 678 of RocketMQ."""

    def wrong_order(
        self: flush.FullFlush, disk: Disk, file: checkpoint.CheckpointFile, synced: checkpoint.SyncedFile, *_: Any
    ) -> None:
        self.log.sync(disk)
        file.save(self.checkpoint)
        synced.save(self.log.until)
        self.unsynced.sync(disk)
        for commit in self.commits:
            commit.write(disk)

    patch.setattr(flush.FullFlush, "sync", wrong_order)


def synced_mark_is_ahead(patch: pytest.MonkeyPatch) -> None:
    real = checkpoint.SyncedFile.save
    patch.setattr(checkpoint.SyncedFile, "save", lambda self, position: real(self, position + 500))


def queues_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(open_files.UnsyncedFiles, "sync", nothing)


def stop_is_marked_before_the_last_flush(patch: pytest.MonkeyPatch) -> None:
    real = opening.stop_cleanly

    def stop_cleanly(parts: StoreParts, *arguments: Any) -> None:
        checkpoint.mark_stopped(parts.files.disk)
        real(parts, *arguments)

    patch.setattr(message_store, "stop_cleanly", stop_cleanly)


def unclean_stop_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(marks, "was_stopped_cleanly", lambda disk: True)


def torn_queue_entries_are_trusted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumeQueue, "discard_from", nothing)


def rest_of_the_log_is_not_zeroed(patch: pytest.MonkeyPatch) -> None:
    """Issues 10017, 10018, 10666, 10816 of RocketMQ: stale bytes behind a truncation are taken up again."""
    patch.setattr(file_sequence, "zero_from", nothing)


def unsynced_records_are_not_written_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery.Recovery, "_write_again", nothing)


def record_without_its_end_is_kept(patch: pytest.MonkeyPatch) -> None:
    """Issue 7437 of RocketMQ: the body's CRC fits, the properties are torn."""
    patch.setattr(log_scan.LogScan, "_lost_its_end", lambda self, placed: False)
    patch.setattr(whole_crc.CrcRanges, "lacks", lambda self, position, properties: False)


def names_of_a_killed_process_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedDisk, "sync_all", nothing)


def index_is_not_taken_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IndexFile, "cut", nothing)


def index_slots_are_not_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IndexCommit, "write", nothing)


def readers_see_what_is_not_flushed(patch: pytest.MonkeyPatch) -> None:
    """Issues 2830, 8239, 8240 of RocketMQ: a consumer of SYNC_FLUSH reads what a power cut takes back."""
    real = Watermarks.publish

    def readable_at_once(self: Watermarks, queues: Sequence[QueueTail], end: int) -> None:
        real(self, queues, end)
        self.arrivals.advance(end)

    patch.setattr(Watermarks, "publish", readable_at_once)


def dispatch_is_skipped_in_recovery(patch: pytest.MonkeyPatch) -> None:
    """Issues 467, 501, 1434 of RocketMQ."""
    patch.setattr(recovery.Recovery, "_dispatch", nothing)


BUGS: list[Bug] = [
    log_is_not_synced,
    flushed_moves_before_the_sync,
    failed_sync_is_ignored,
    failed_sync_is_tried_again,
    new_log_file_has_no_durable_name,
    table_is_renamed_before_it_is_synced,
    table_s_folder_is_not_synced,
    crc_is_not_checked,
    checkpoint_is_written_before_the_queues,
    synced_mark_is_ahead,
    queues_are_not_synced,
    stop_is_marked_before_the_last_flush,
    unclean_stop_is_not_noticed,
    torn_queue_entries_are_trusted,
    rest_of_the_log_is_not_zeroed,
    unsynced_records_are_not_written_again,
    record_without_its_end_is_kept,
    names_of_a_killed_process_are_not_synced,
    index_is_not_taken_back,
    index_slots_are_not_written,
    readers_see_what_is_not_flushed,
    dispatch_is_skipped_in_recovery,
]
