"""Queue and index files that are gone or cut short. Opening and `store verify` ask here, so that they judge alike.

An index file that is lost cannot be had again alone: the index is then written anew as a whole, from the log. Queue
files are known by the catalogue of a clean stop, after a kill by the list of derived files; in a store that only Java
wrote nobody knows them. Nothing is changed.
"""

from __future__ import annotations

from functools import cached_property

from ...model.wire_text import whole_number
from ..config import StoreConfig
from ..files.disk import Disk, folder_of, read_range
from ..files.file_sequence import parse_segment_name
from ..index.index_file import HEADER, HEADER_BYTES, index_file_bytes
from ..layout import BATCH_QUEUES, INDEX, QUEUES
from .catalogue import KnownQueue
from .derived_files import read_derived
from .store_state import StoreState


def damaged_index_files(disk: Disk, config: StoreConfig, state: StoreState, log_start: int) -> dict[str, str]:
    """Return what is wrong with each damaged file, by name; none if there is no index by configuration."""
    if not config.index_enabled:
        return {}
    lost = {name: "it is gone" for name in state.gone if name.startswith(f"{INDEX}/")}
    known = state.catalogue.index_files if state.catalogue is not None else None
    for file in known or ():
        if file.end_position >= log_start and not disk.exists(file.name):
            lost[file.name] = "it is gone"
    listed = read_derived(disk) if state.is_ours_after_a_kill else None
    for name, size in short_index_files(disk, config).items():
        if listed is None or name in listed or _has_entries(disk, name):
            lost[name] = f"it has {size} bytes instead of {_length(config)}"
    return lost


def short_index_files(disk: Disk, config: StoreConfig) -> dict[str, int]:
    """Return the length of each file that lacks its end; one that nobody counts on may just have been made."""
    paths = [f"{INDEX}/{name}" for name in disk.list(INDEX) if whole_number(name) is not None]
    sizes = {path: disk.size(path) for path in paths if not disk.is_folder(path)}
    return {path: size for path, size in sizes.items() if size < _length(config)}


def _length(config: StoreConfig) -> int:
    return index_file_bytes(config.index_slots, config.index_entries)


def _has_entries(disk: Disk, name: str) -> bool:
    head = read_range(disk, name, 0, HEADER_BYTES)
    return len(head) == HEADER_BYTES and HEADER.unpack(head)[5] > 1


class MissingQueues:
    """Asked only about queues that lack entries, so a clean store is not looked at twice."""

    def __init__(self, disk: Disk, state: StoreState) -> None:
        self._disk = disk
        self._state = state

    def is_missing(self, topic: str, queue_id: int) -> bool:
        """Return whether a queue without any file had some."""
        folders = {f"{root}/{topic}/{queue_id}" for root in (QUEUES, BATCH_QUEUES)}
        return (topic, queue_id) in self._known or not folders.isdisjoint(self._folders_gone)

    def is_file_missing(self, topic: str, queue_id: int, name: str) -> bool:
        """Return whether this file of a queue that has others was there."""
        if name in self._state.gone:
            return True
        known = self._known.get((topic, queue_id))
        base = parse_segment_name(name.rpartition("/")[2])
        if known is None or known.state is None or base is None or self._disk.exists(name):
            return False
        return known.state.first_file <= base <= known.state.last_file

    @cached_property
    def _known(self) -> dict[tuple[str, int], KnownQueue]:
        left = self._state.catalogue
        queues = [] if left is None else left.known_queues()
        return {(known.topic, known.queue_id): known for known in queues if known.next_offset}

    @cached_property
    def _folders_gone(self) -> set[str]:
        return {folder_of(name) for name in self._state.gone}
