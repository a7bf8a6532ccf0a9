"""The index against the log, for `store verify`: every key of every record, in order, and chains that hold together.

Entries are written in the order of the records, so one pass over both compares everything in bounded memory.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from ...kernel.records import TAG_MARK, Placed, index_hash, keys_of
from ...model.wire_text import whole_number
from ..config import StoreConfig
from ..files.disk import Disk, DiskFile
from ..index.index_file import ENTRY, ENTRY_BYTES, HEADER, HEADER_BYTES
from ..index.slot_table import SLOT_BYTES
from ..layout import INDEX
from ..log.log_walk import Gap
from ..recovery.missing_files import damaged_index_files
from ..recovery.store_state import StoreState
from .findings import REBUILD, Level, Report, remedy_of_missing

_BATCH = 4096  # entries read at once


class _IndexEntry(NamedTuple):
    name: str
    offset: int
    key_hash: int
    position: int


class IndexChecks:
    """All index files. Without any there is nothing to check: a broker may run with messageIndexEnable=false."""

    def __init__(self, disk: Disk, config: StoreConfig, report: Report, state: StoreState, log_start: int) -> None:
        self._clean_stop = state.clean_stop
        self._disk = disk
        self._config = config
        self._report = report
        self._with_tags: bool | None = None  # told by the first record that has one: older brokers do not index them
        lost = damaged_index_files(disk, config, state, log_start)
        for name, what in sorted(lost.items()):
            report.add(Level.REPAIRABLE, name, None, what, "open the store: the index is written again from the log")
        self._entries = iter(()) if lost else self._all_entries()  # what is written anew need not be right
        self._next = next(self._entries, None)
        self._exists = self._next is not None
        self._missing: tuple[int, int, int, Level] | None = None  # first and last record, number, level

    def check(self, placed: Placed, level: Level, gaps: Sequence[Gap] = ()) -> None:
        """Compare a record's keys with the index; `level` is what a missing one would mean.

        `gaps`: entries that lead there belong to damaged records, and stay."""
        if not self._exists:
            return
        while self._next is not None and self._next.position < placed.position:
            position = self._next.position
            if not any(gap.position <= position < gap.end for gap in gaps):
                self._stray(self._next, placed)
            self._next = next(self._entries, None)
        found = []
        while self._next is not None and self._next.position == placed.position:
            found.append(self._next.key_hash)
            self._next = next(self._entries, None)
        if found != self._expected(placed, found):
            self._add_missing(placed.position, level)
        elif found:
            self._close_missing()

    def _expected(self, placed: Placed, found: list[int]) -> list[int]:
        if not placed.in_index:
            return []
        keys = keys_of(placed.properties, self._config.index_tags)
        if self._with_tags is None and found and any(key.startswith(TAG_MARK) for key in keys):
            self._with_tags = len(found) == len(keys)
        if self._with_tags is False:
            keys = [key for key in keys if not key.startswith(TAG_MARK)]
        return [index_hash(placed.topic, key) for key in keys]

    def _stray(self, entry: _IndexEntry, placed: Placed) -> None:
        if entry.position >= self._report.log_start:
            what = f"an entry points at {entry.position}, which is no record; the next one is at {placed.position}"
            self._report.add(Level.DAMAGE, entry.name, entry.offset, what, REBUILD)

    def _add_missing(self, position: int, level: Level) -> None:
        if self._missing is not None and self._missing[3] == level:
            first, _, count, _ = self._missing
            self._missing = (first, position, count + 1, level)
        else:
            self._close_missing()
            self._missing = (position, position, 1, level)

    def _close_missing(self) -> None:
        if self._missing is not None:
            first, last, count, level = self._missing
            what = f"keys of {count} records from {first} to {last} of the log are missing or differ"
            self._report.add(level, INDEX, None, what, remedy_of_missing(level))
            self._missing = None

    def finish(self, log_end: int, gaps: Sequence[Gap]) -> None:
        """Check the entries behind the last record: they lead into a gap, or beyond the end. One finding a file."""
        self._close_missing()
        beyond: dict[str, tuple[int, int]] = {}  # by file: where the first is, how many
        while self._next is not None:
            name, offset, _, position = self._next
            if not any(gap.position <= position < gap.end for gap in gaps):
                first, count = beyond.get(name, (offset, 0))
                beyond[name] = (first, count + 1)
            self._next = next(self._entries, None)
        for name, (first, count) in beyond.items():
            what = f"{count} entries point behind {log_end}, where the log ends"
            self._report.add(Level.REPAIRABLE, name, first, what, "open the store: recovery takes them back")

    def _all_entries(self) -> Iterator[_IndexEntry]:
        for name in self._disk.list(INDEX):
            path = f"{INDEX}/{name}"
            if whole_number(name) is None:
                self._report.add(Level.NOTE, path, None, "does not belong here", "look at it; it is not used")
                continue
            with closing(self._disk.open(path, writable=False)) as file:
                yield from self._entries_of(path, file)

    def _entries_of(self, name: str, file: DiskFile) -> Iterator[_IndexEntry]:
        entries_at = HEADER_BYTES + self._config.index_slots * SLOT_BYTES
        expected = entries_at + self._config.index_entries * ENTRY_BYTES
        if file.size() != expected:
            what = f"has {file.size()} bytes instead of {expected}"
            self._report.add(Level.REPAIRABLE, name, None, what, "open the store, or run `store rebuild`")
            return
        self._report.index_files += 1
        raw_header = file.pread(0, HEADER_BYTES)
        if not any(raw_header):
            return  # made, and never used
        next_entry = HEADER.unpack(raw_header)[5]
        if not 1 <= next_entry <= self._config.index_entries:
            what = f"the header counts {next_entry} entries, the file has room for {self._config.index_entries}"
            self._report.add(Level.DAMAGE, name, 36, what, REBUILD)
            return
        heads = array("I", bytes(self._config.index_slots * SLOT_BYTES))
        for first in range(1, next_entry, _BATCH):
            count = min(_BATCH, next_entry - first)
            raw = file.pread(entries_at + first * ENTRY_BYTES, count * ENTRY_BYTES)
            for number, (key_hash, position, _, previous) in enumerate(ENTRY.iter_unpack(raw), first):
                self._report.index_entries += 1
                offset = entries_at + number * ENTRY_BYTES
                slot = key_hash % self._config.index_slots
                if previous != heads[slot]:
                    what = f"entry {number} leads to {previous}, the one before it in its slot is {heads[slot]}"
                    self._report.add(Level.DAMAGE, name, offset, what, REBUILD)
                heads[slot] = number
                yield _IndexEntry(name, offset, key_hash, position)
        self._check_slots(name, file, heads)

    def _check_slots(self, name: str, file: DiskFile, heads: array[int]) -> None:
        slots = array("I")
        slots.frombytes(file.pread(HEADER_BYTES, self._config.index_slots * SLOT_BYTES))
        if sys.byteorder == "little":
            slots.byteswap()
        if slots != heads:
            slot = next(number for number, (a, b) in enumerate(zip(slots, heads, strict=True)) if a != b)
            what = f"slot {slot} leads to entry {slots[slot]}, its newest is {heads[slot]}"
            # A crash between the slots and the header leaves slots ahead of it: recovery leads them back.
            level = Level.DAMAGE if self._clean_stop else Level.REPAIRABLE
            self._report.add(level, name, HEADER_BYTES + slot * SLOT_BYTES, what, remedy_of_missing(level))
