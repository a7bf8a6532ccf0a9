"""What the small files beside the data say of a store before anything is opened, and what is refused because of it.

Opening, rebuild and verify ask here, so that they judge alike. Nothing in this file changes anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...errors import ConfigError
from ..config import StoreConfig
from ..errors import StoreDamaged
from ..files.disk import Disk
from ..files.file_sequence import parse_segment_name
from ..layout import COMMIT_LOG, QUEUES
from .catalogue import Catalogue, read_catalogue
from .checkpoint import Checkpoint, read_checkpoint, read_log_start, read_synced, was_running_ours, was_stopped_cleanly
from .derived_files import read_derived
from .sizes import inferred_config

_LOG_SIZE = "mappedFileSizeCommitLog"


@dataclass(frozen=True, slots=True)
class StoreState:
    """What the small files beside the data say."""

    checkpoint: Checkpoint
    synced: int | None  # None: only Java wrote this store
    clean_stop: bool
    ours: bool = False  # nobody else wrote since we did
    log_start: int | None = None  # the log should begin here; None: not known
    catalogue: Catalogue | None = None  # of the last clean stop, if nobody else wrote since
    gone: frozenset[str] = frozenset()  # derived files that were there before an unclean stop of ours
    sizes: dict[str, int] | None = None  # that the files were written with, as our last clean stop says
    missing_tables: tuple[str, ...] = ()  # they were there at our last clean stop, now neither they nor their .bak are

    @property
    def is_ours_after_a_kill(self) -> bool:
        """Return whether the list of derived files counts: we ran last and were killed."""
        return self.synced is not None and not self.clean_stop


def read_store_state(disk: Disk) -> StoreState:
    """Read the small files, and decide whether they count.

    If a Java broker wrote after us, our synced position may speak of records that it replaced: the store is then one of
    Java's. After a clean stop of ours the catalogue fits the checkpoint, after an unclean one `abort` is our own."""
    checkpoint, clean_stop = read_checkpoint(disk), was_stopped_cleanly(disk)
    catalogue = read_catalogue(disk)
    fits = clean_stop and catalogue is not None and catalogue.fits(checkpoint)
    ours = fits if clean_stop else was_running_ours(disk)
    synced = read_synced(disk) if ours else None
    gone: frozenset[str] = frozenset()
    if synced is not None and not clean_stop:
        gone = frozenset(name for name in read_derived(disk) if not disk.exists(name))
    log_start = None if synced is None else read_log_start(disk)
    tables = catalogue.tables if ours and catalogue is not None else ()
    lacking = tuple(name for name in tables if not disk.exists(name) and not disk.exists(name + ".bak"))
    left, sizes = (catalogue if fits else None), (None if catalogue is None else catalogue.sizes)
    return StoreState(checkpoint, synced, clean_stop, ours, log_start, left, gone, sizes, lacking)


def refuse_other_sizes(disk: Disk, config: StoreConfig, state: StoreState) -> None:
    """Refuse a store that was written with other file sizes: it must not be stretched to ours.

    Our own catalogue knows the sizes; those of Java's stores are read off the files."""
    if state.sizes is not None:
        written = state.sizes
    elif state.synced is None:
        written = inferred_config(disk, config).file_sizes
    else:
        return
    if state.synced == 0 and not disk.list(COMMIT_LOG):  # not a byte was stored: no file has a size to be kept
        written = {**written, _LOG_SIZE: config.file_sizes[_LOG_SIZE]}
    for key, size in config.file_sizes.items():
        if written.get(key, size) != size:
            raise ConfigError(f"{key} = {size}: the store in {disk.root} was written with {written[key]}; set it so")


def read_state_to_open(disk: Disk, config: StoreConfig) -> StoreState:
    """Read the small files, and refuse a store that must not be opened. Changes nothing."""
    state = read_store_state(disk)
    refuse_other_sizes(disk, config, state)
    refuse_missing_log(disk, config, state)
    refuse_missing_tables(disk, state)
    return state


TABLE_REMEDY = (
    "put it back from a backup or a slave; to begin with an empty table, and lose what it held, write {} into the file"
)


def refuse_missing_tables(disk: Disk, state: StoreState | None = None) -> None:
    """Refuse a store whose tables are gone: starting without them would forget topics, groups or offsets.

    Opening a store asks, and whoever makes tables before that."""
    state = state or read_store_state(disk)
    if state.missing_tables:
        names = ", ".join(state.missing_tables)
        raise StoreDamaged(
            f"{disk.root}: {names}: there at the last clean stop and gone now, with its .bak. Is a disk not mounted? "
            f"{TABLE_REMEDY[0].upper()}{TABLE_REMEDY[1:]}. Nothing was changed"
        )


class MissingRange(NamedTuple):
    """Bytes of the log that were synced and have no file any more."""

    start: int
    end: int


def missing_log(disk: Disk, config: StoreConfig, state: StoreState) -> list[MissingRange]:
    """Return the parts of the log that were on the medium and whose file is removed, cut short or not mounted.

    Damage inside a file is another matter: it costs its records, and everything else goes on.
    """
    if not state.synced:
        return []
    sizes = log_file_sizes(disk, config)
    size = config.commit_log_file_bytes
    start = state.log_start if state.log_start is not None else min(sizes, default=0)
    found: list[MissingRange] = []
    for base in range(start - start % size, state.synced, size):
        there, wanted = base + sizes.get(base, 0), min(base + size, state.synced)
        if there >= wanted:
            continue
        if found and found[-1].end == there:
            found[-1] = MissingRange(found[-1].start, wanted)
        else:
            found.append(MissingRange(there, wanted))
    return found


def log_file_sizes(disk: Disk, config: StoreConfig) -> dict[int, int]:
    """Return the length of each log file by its base."""
    bases = {name: parse_segment_name(name) for name in disk.list(COMMIT_LOG)}
    return {
        base: disk.size(f"{COMMIT_LOG}/{name}")
        for name, base in bases.items()
        if base is not None and base % config.commit_log_file_bytes == 0 and not disk.is_folder(f"{COMMIT_LOG}/{name}")
    }


def refuse_missing_log(disk: Disk, config: StoreConfig, state: StoreState) -> None:
    """Refuse a log that lacks a part: whether that part is lost for good is for the owner to say.

    Of a store that only Java wrote nobody knows how long its log was; but queues with entries had one.
    """
    if state.synced is None and not log_file_sizes(disk, config) and _has_queue_files(disk):
        raise StoreDamaged(
            f"{disk.root}/{COMMIT_LOG}: there is no file of the log, but {QUEUES} has queues. Is a disk not mounted, "
            "or is the log in another folder (storePathCommitLog)? Put it back, or link that folder here. If it is "
            f"gone for good, move {disk.root}/{QUEUES} away. Nothing was changed"
        )
    missing = missing_log(disk, config, state)
    if missing:
        ranges = ", ".join(f"{one.start} to {one.end}" for one in missing)
        raise StoreDamaged(
            f"{disk.root}/{COMMIT_LOG}: the log was synced from {state.log_start or 0} to {state.synced}, but its "
            f"files lack {ranges}. Is a disk not mounted? Put the files back from a backup or a slave. If they are "
            f"gone for good, `pyromq store accept-loss {disk.root}` lets the broker start without these records. "
            "Nothing was changed"
        )


def _has_queue_files(disk: Disk) -> bool:
    folders = (f"{QUEUES}/{topic}" for topic in disk.list(QUEUES))
    return any(disk.list(f"{folder}/{queue}") for folder in folders for queue in disk.list(folder))
