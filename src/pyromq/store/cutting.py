"""Cutting the end off a log so that a crash at any moment leaves all of the cut or nothing of it.

A replica cuts what its master never confirmed, and `pyromq store cut` does it by hand. Order, each step durable before
the next: what goes is copied to `pyromq/cut-off/`; the mark `pyromq/cutting` says where the log shall end; everything
that speaks of later records is cut, then the log, then the epochs; the mark goes. Opening that finds a mark cuts again
from the first step behind it (`finish_cut`), before it looks at anything else. Nothing is acked, reported or shown of
a store that has a mark.

The store is closed meanwhile, and its last stop was a clean one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

import msgspec

from .. import logs
from ..ambient import Clock
from ..errors import ProtocolError
from ..kernel.records import Placed
from ..machine.budget import Budget
from ..machine.descriptors import Shares
from ..protocol.replication.epochs import EpochList, decode_epochs
from .config import StoreConfig
from .cut_tables import cut_tables
from .epochs import load_epochs, save_epochs
from .errors import StoreDamaged, StoreError
from .files.disk import (
    Disk,
    DiskFull,
    folder_of,
    make_folder_durably,
    read_if_there,
    remove_durably,
    replace_durably,
    sealed,
    unsealed,
)
from .log.log_walk import LogWalk, opened_log
from .log.whole_crc import NO_RANGES, ranges_that_count, save_ranges
from .queues.queue_table import RESERVED_FILE
from .recovery.checkpoint import CheckpointFile, SyncedFile, mark_running, read_checkpoint
from .recovery.derived_files import DERIVED_FILE
from .recovery.log_scan import CUT_OFF_FOLDER
from .recovery.store_state import read_store_state
from .store_files import StoreFiles, make_store_files

log = logs.get("pyromq.store")

CUT_MARK = "pyromq/cutting"
_PIECE = 1 << 20

Progress = Callable[[int, int], None]  # bytes done, bytes in all


class CutMark(msgspec.Struct, frozen=True, rename="camel"):
    """Where a log shall end, and what is left then: the newest record before that, and the epochs as their file."""

    position: int
    last_position: int = 0
    last_time_ms: int = 0
    epochs: str | None = None  # None: those that the store has, as far as they begin before the position
    copy: str = ""  # the name below `pyromq/cut-off/`; empty: nothing went


@dataclass(slots=True)
class CutPlan:
    """What a cut takes away: the log from `position` to `end`."""

    position: int
    end: int = 0
    records: int = 0
    by_topic: Counter[str] = field(default_factory=Counter)
    first_time_ms: int = 0  # store times of the first and the last record that go
    last_time_ms: int = 0
    kept: Placed | None = None  # the newest record that stays

    @property
    def bytes(self) -> int:
        return self.end - self.position


def plan_cut(disk: Disk, config: StoreConfig, position: int, progress: Progress = lambda done, whole: None) -> CutPlan:
    """Look at what a cut would take. Changes nothing. Raises StoreError if no record ends and none begins there."""
    state = read_store_state(disk)
    with opened_log(disk, config) as sequence:
        if not sequence.start <= position <= sequence.limit:
            raise StoreError(f"{disk.root}: the log starts at {sequence.start}, it cannot be cut to {position}")
        first = max(sequence.base_of(max(position - 1, 0)), sequence.start)  # the newest record that stays is there
        walk = LogWalk(sequence, config.delay_levels, first, whole_crc=ranges_that_count(disk, config, state.ours))
        plan, nearest = CutPlan(position), first
        for found in walk:
            if isinstance(found, Placed):
                progress(found.end - first, sequence.limit - first)
                nearest = max([nearest, *(edge for edge in (found.position, found.end) if edge <= position)])
                _note(plan, found)
            else:
                nearest = max(nearest, found.position) if found.position <= position else nearest
                plan.end = found.position
        plan.end = max(plan.end, state.synced or 0)
        if position % sequence.file_bytes == 0:  # no record spans two files
            nearest = position
    if position > plan.end:
        raise StoreError(f"{disk.root}: the log ends at {plan.end}, there is nothing to cut from {position} on")
    if nearest != position:
        raise StoreError(
            f"{disk.root}: no record begins or ends at {position}. The nearest place before it is {nearest}: cut "
            "there, or see `pyromq store dump` for others"
        )
    return plan


def _note(plan: CutPlan, placed: Placed) -> None:
    if placed.position < plan.position:
        plan.kept = placed if placed.end <= plan.position else plan.kept
        return
    plan.first_time_ms = plan.first_time_ms if plan.records else placed.store_time
    plan.last_time_ms = placed.store_time
    plan.records += 1
    plan.by_topic[placed.topic] += 1


def begin_cut(
    disk: Disk,
    config: StoreConfig,
    plan: CutPlan,
    epochs: EpochList | None = None,
    progress: Progress = lambda done, whole: None,
) -> CutMark:
    """Copy what goes and write the mark: from here on the cut is decided. Raises DiskFull, with nothing changed.

    `epochs`: the list that the log has afterwards, where it is not what is left of the old one."""
    copy = _copy_aside(disk, config, plan, progress) if plan.end > plan.position else ""
    last = (plan.kept.position, plan.kept.store_time) if plan.kept is not None else (0, 0)
    mark = CutMark(plan.position, *last, None if epochs is None else epochs.encode().decode(), copy)
    replace_durably(disk, CUT_MARK, sealed(msgspec.json.encode(mark)))
    return mark


def _copy_aside(disk: Disk, config: StoreConfig, plan: CutPlan, progress: Progress) -> str:
    name = copy = f"{CUT_OFF_FOLDER}/{plan.position:020d}"
    number = 1
    while disk.exists(copy):  # an earlier cut at the same place
        number += 1
        copy = f"{name}.{number}"
    make_folder_durably(disk, CUT_OFF_FOLDER)
    aside = copy + ".tmp"
    with opened_log(disk, config) as sequence, closing(disk.open(aside, create=True)) as file:
        try:
            file.truncate(0)
            done = 0
            for piece in sequence.pieces(plan.position, plan.end, _PIECE):
                file.pwrite(done, piece)
                done += len(piece)
                progress(done, plan.bytes)
            file.sync()
        except DiskFull:
            disk.remove(aside)
            raise
    disk.rename(aside, copy)
    disk.sync_folder(folder_of(copy))
    return copy


def read_cut_mark(disk: Disk) -> CutMark | None:
    """Return the mark of a cut that was begun and not finished; None: there is none. Raises StoreDamaged."""
    content = read_if_there(disk, CUT_MARK)
    if content is None:
        return None
    text = unsealed(content)
    try:
        return msgspec.json.decode(text or b"", type=CutMark)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise StoreDamaged(
            f"{disk.root}/{CUT_MARK}: a cut of the log was begun, and its mark cannot be read ({fault}). Look into "
            f"{CUT_OFF_FOLDER} for the newest copy: its name is the position. Remove the mark, then run `pyromq store "
            f"cut {disk.root} POSITION`"
        ) from None


def finish_cut(
    disk: Disk,
    config: StoreConfig,
    clock: Clock,
    is_batch_topic: Callable[[str], bool] = lambda topic: False,
    shares: Shares | None = None,
) -> CutMark | None:
    """Carry out the cut that the mark says, if there is one, and remove the mark. Blocking; the caller has the lock.

    The store is then one that was killed and is whole: opening it finds the end of the log where it was cut."""
    mark = read_cut_mark(disk)
    if mark is None:
        return None
    _mark_unclean(disk, config, mark)
    files = make_store_files(disk, config, clock, is_batch_topic, shares or Budget().shares)
    try:
        _cut_derived(files, mark.position)
        cut_tables(files, mark.position)
        files.commit_log.load()
        files.commit_log.sequence.cut(mark.position, allocate=True)
        files.removals.carry_out()
    finally:
        files.commit_log.close()
        files.open_files.close()
    disk.sync_all()
    with closing(SyncedFile(disk)) as synced:
        synced.save(mark.position)
    save_epochs(disk, _epochs_after(disk, mark))
    remove_durably(disk, CUT_MARK)
    log.warning("the log was cut", root=disk.root, position=mark.position, copy=mark.copy or None)
    return mark


def _mark_unclean(disk: Disk, config: StoreConfig, mark: CutMark) -> None:
    """Let nobody trust what a clean stop left: list of files, catalogue, checkpoint and CRC ranges."""
    ranges = ranges_that_count(disk, config, read_store_state(disk).ours)
    mark_running(disk, os.getpid())
    save_ranges(disk, ranges.closed_at(mark.position, mark.last_position) if mark.position else NO_RANGES)
    remove_durably(disk, DERIVED_FILE)
    remove_durably(disk, RESERVED_FILE)
    before = read_checkpoint(disk)
    with closing(CheckpointFile(disk)) as checkpoint:
        checkpoint.save(
            before._replace(
                log_time_ms=min(before.log_time_ms, mark.last_time_ms),
                queues_time_ms=min(before.queues_time_ms, mark.last_time_ms),
                index_time_ms=min(before.index_time_ms, mark.last_time_ms),
                master_flushed=min(before.master_flushed, mark.position),
                confirmed=min(before.confirmed, mark.position),
                queues_position=mark.last_position,
            )
        )


def _cut_derived(files: StoreFiles, position: int) -> None:
    """Cut queues and index. A first try may have come to any of them."""
    for queue, _ in files.queues.load():
        queue.discard_from(position, lambda entry: entry.position < position)
    if files.index is not None:
        files.index.load()
        files.index.discard_from(position)
        for commit in files.index.take_commits():
            commit.write(files.disk)
        files.index.close()


def _epochs_after(disk: Disk, mark: CutMark) -> EpochList:
    if mark.epochs is None:
        return load_epochs(disk).cut(mark.position)
    try:
        return decode_epochs(mark.epochs.encode())
    except ProtocolError as fault:
        raise StoreDamaged(f"{disk.root}/{CUT_MARK}: its epochs cannot be read: {fault}") from None
