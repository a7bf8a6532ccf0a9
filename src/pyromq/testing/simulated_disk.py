"""A disk in memory that keeps what was written apart from what was synced, and can be cut off at any call.

Store tests hand it to the store in place of a real disk: `crash(seed)` is a power cut (unsynced sectors and names
survive, vanish or mix as the seed says), `kill()` is a kill -9 (the page cache survives). It can also fill up, fail a
sync once, fail reads and flip bits. The same calls and the same seed give the same disk. One thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeAlias

from ..ambient import Random, seeded_random
from ..store.files.disk import (
    NO_STAMP,
    Bytes,
    DiskError,
    DiskFull,
    DiskUsage,
    FileMissing,
    Stamp,
    StoreLocked,
    SyncFailed,
    checked_name,
    folder_of,
)

SECTOR = 512  # written whole or not at all
PAGE = 4096  # the unit of the page cache and of free space


class PowerCut(BaseException):
    """The simulated machine is off. Not an Exception, so that no handler in the store goes on after it."""


class _Write(NamedTuple):
    moment: int
    offset: int
    data: bytes


class _Resize(NamedTuple):
    moment: int
    length: int


@dataclass(slots=True, eq=False, repr=False)
class _Node:
    """A file's bytes as readers see them, as the medium has them, and the changes between the two."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[_Write | _Resize] = field(default_factory=list)
    pages: set[int] = field(default_factory=set)  # pages that have space on the medium
    modified_ms: int = 0
    bad_sectors: set[int] = field(default_factory=set)
    changed: int = 0  # the operation that changed it last


class _Folder:
    """What a folder's name stands for."""


_FOLDER = _Folder()
_Entry: TypeAlias = _Node | _Folder


class _NameChange(NamedTuple):
    """Entries that appear (or, as None, disappear) in one step."""

    moment: int
    entries: dict[str, _Entry | None]

    def folders(self) -> set[str]:
        return {folder_of(name) for name in self.entries}


@dataclass(slots=True, eq=False, repr=False)
class SimulatedFile:
    """An open file of a simulated disk."""

    open_file: ClassVar[None] = None  # everything goes through the calls below
    disk: SimulatedDisk
    name: str
    node: _Node
    writable: bool

    def size(self) -> int:
        return len(self.node.content)

    def pread(self, offset: int, length: int) -> bytes:
        self.disk.check_power()
        if self.node.bad_sectors:
            touched = range(offset // SECTOR, -(-(offset + length) // SECTOR))
            if not self.node.bad_sectors.isdisjoint(touched):
                raise DiskError(f"cannot read {self.name} at {offset}: Input/output error")
        return bytes(self.node.content[offset : offset + length])

    def written(self) -> list[tuple[int, int]]:
        return [(0, self.size())]

    def pread_resident(self, offset: int, length: int) -> bytes | None:
        data = self.pread(offset, length)
        return data if len(data) == length else None

    def pwrite(self, offset: int, data: Bytes) -> None:
        content = bytes(data)
        self._extend("write", offset, len(content))
        self.node.content[offset : offset + len(content)] = content
        self._changed(_Write(self.disk.operations + 1, offset, content))

    def pwritev(self, offset: int, buffers: Sequence[Bytes]) -> None:
        self.pwrite(offset, b"".join(buffers))

    def allocate(self, offset: int, length: int) -> None:
        self._extend(f"allocate {length} bytes for", offset, length)
        self.disk.count_operation()

    def truncate(self, length: int) -> None:
        self._check_writable()
        _set_length(self.node.content, length)
        self.disk.free_pages(self.node, length)
        self._changed(_Resize(self.disk.operations + 1, length))

    def expect_random(self, random: bool) -> None:
        """Do nothing: all reads cost the same here."""

    def sync(self) -> None:
        self.disk.sync_node(self.name, self.node)

    def close(self) -> None:
        """Give nothing back; never raise, since it also runs while a power cut unwinds."""

    def _extend(self, action: str, offset: int, length: int) -> None:
        """Give these bytes space on the medium, and the file the length to hold them."""
        self._check_writable()
        self.disk.allocate_pages(action, self.name, self.node, offset, length)
        if offset + length > len(self.node.content):
            self.node.pending.append(_Resize(self.disk.operations + 1, offset + length))
            _set_length(self.node.content, offset + length)

    def _changed(self, change: _Write | _Resize) -> None:
        self.node.pending.append(change)
        self.node.modified_ms = self.disk.now_ms()
        self.node.changed = change.moment
        self.disk.count_operation()

    def _check_writable(self) -> None:
        self.disk.check_power()
        if not self.writable:
            raise DiskError(f"cannot write {self.name}: it was opened for reading")


@dataclass(frozen=True, slots=True)
class SimulatedLock:
    locks: set[str]
    name: str

    def release(self) -> None:
        self.locks.discard(self.name)


class SimulatedDisk:
    """See the file's head. `capacity` in bytes; `now_ms` gives the modification times."""

    def __init__(self, capacity: int = 1 << 40, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.capacity = capacity
        self.operations = 0  # calls so far that change something: the range for `cut_power_after`
        self.now_ms = now_ms
        self._names: dict[str, _Entry] = {}
        self._durable_names: dict[str, _Entry] = {}
        self._name_changes: list[_NameChange] = []
        self._folder_changes: dict[str, int] = {}  # the operation that changed a folder's names last
        self._pages_used = 0
        self._locks: set[str] = set()
        self._off = False
        self._cut_at: int | None = None
        self._sync_failures: list[str] = []

    @property
    def root(self) -> str:
        return "simulated disk"

    # Faults

    def cut_power_after(self, operations: int) -> None:
        """Raise PowerCut in the changing call of that number from now (1 is the next); `crash` says how far it got."""
        self._cut_at = self.operations + operations

    def heal(self) -> None:
        """Take back a power cut and sync failures that were asked for and have not happened."""
        self._cut_at = None
        self._sync_failures.clear()

    def fail_sync_once(self, name_part: str = "") -> None:
        """Let the next sync of a file or folder fail whose name contains this; its pages are forgotten as ext4 does."""
        self._sync_failures.append(name_part)

    def fail_reads(self, name: str, offset: int) -> None:
        """Make the sector around this offset unreadable."""
        self._node(name).bad_sectors.add(offset // SECTOR)

    def flip_bit(self, name: str, offset: int, bit: int = 0) -> None:
        """Flip bits, on the medium and in what readers see."""
        node = self._node(name)
        node.content[offset] ^= 1 << bit
        if offset < len(node.durable):
            node.durable[offset] ^= 1 << bit

    def kill(self) -> SimulatedDisk:
        """Let the process die while the machine goes on: everything written stays, unsynced things stay unsynced."""
        self._off = True
        return self._successor(self._names, self._durable_names, list(self._name_changes))

    def crash(self, seed: int) -> SimulatedDisk:
        """Return what a power cut now would leave on the medium: one of the outcomes that the sync calls allow.

        This disk stays as it is, so that one run can be asked for many outcomes.
        """
        rng = seeded_random(seed)
        chaos = rng.random() < 0.7
        pending = [*self._name_changes, *(change for node in _files(self._names) for change in node.pending)]
        moments = sorted({change.moment for change in pending})
        last_moment = rng.choice([0, *moments]) if moments else 0
        share = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0]) if chaos else 0.0

        names = dict(self._durable_names)
        for change in self._name_changes:
            if change.moment <= last_moment or rng.random() < share:
                _apply_names(names, change)
        names = {name: entry for name, entry in names.items() if _reachable(names, name)}
        survivors = {node: _after_power_cut(node, rng, last_moment, share) for node in _files(names)}
        surviving = {name: survivors[entry] if isinstance(entry, _Node) else entry for name, entry in names.items()}
        return self._successor(surviving, dict(surviving), [])

    def _successor(
        self, names: dict[str, _Entry], durable: dict[str, _Entry], changes: list[_NameChange]
    ) -> SimulatedDisk:
        disk = SimulatedDisk(self.capacity, self.now_ms)
        disk._names, disk._durable_names, disk._name_changes = names, durable, changes
        disk._pages_used = sum(len(node.pages) for node in _files(names))
        disk.operations = self.operations
        disk._folder_changes = dict(self._folder_changes)
        return disk

    # Disk

    def open(self, name: str, *, create: bool = False, writable: bool = True) -> SimulatedFile:
        self.check_power()
        entry = self._names.get(checked_name(name))
        if entry is None:
            if not create:
                raise FileMissing(f"cannot open {name}: no such file")
            self._need_folder(folder_of(name))
            entry = _Node(modified_ms=self.now_ms(), changed=self.operations + 1)
            self._change_names({name: entry})
        if not isinstance(entry, _Node):
            raise DiskError(f"cannot open {name}: it is a folder")
        return SimulatedFile(self, name, entry, writable)

    def exists(self, name: str) -> bool:
        return checked_name(name) in self._names

    def is_folder(self, name: str) -> bool:
        return name == "" or isinstance(self._names.get(checked_name(name)), _Folder)

    def list(self, folder: str = "") -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self._names if folder_of(name) == folder)

    def size(self, name: str) -> int:
        return len(self._node(name).content)

    def modified_ms(self, name: str) -> int:
        return self._node(name).modified_ms

    def stamps(self, names: Iterable[str]) -> Sequence[Stamp]:
        return [self._stamp(name) for name in names]

    def _stamp(self, name: str) -> Stamp:
        entry = self._names.get(name)
        if isinstance(entry, _Node):
            return len(entry.content), entry.changed
        return NO_STAMP if entry is None else (0, self._folder_changes.get(name, 0))

    def make_folder(self, name: str) -> None:
        parts = checked_name(name).split("/")
        for count in range(1, len(parts) + 1):
            folder = "/".join(parts[:count])
            entry = self._names.get(folder)
            if entry is None:
                self._change_names({folder: _FOLDER})
            elif isinstance(entry, _Node):
                raise DiskError(f"cannot make folder {name}: {folder} is a file")

    def rename(self, old: str, new: str) -> None:
        node = self._node(old)
        self._need_folder(folder_of(checked_name(new)))
        self._free_file(new)
        self._change_names({old: None, new: node})

    def link(self, name: str, second: str) -> None:
        if self.exists(second):
            raise DiskError(f"cannot link {name} as {second}: File exists")
        self._need_folder(folder_of(second))
        self._change_names({second: self._node(name)})

    def remove(self, name: str) -> None:
        self._node(name)
        self._free_file(name)
        self._change_names({name: None})

    def remove_folder(self, name: str) -> None:
        if not self.is_folder(name):
            raise FileMissing(f"cannot remove folder {name}: no such folder")
        if self.list(name):
            raise DiskError(f"cannot remove folder {name}: it is not empty")
        self._change_names({name: None})

    def sync_folder(self, folder: str = "") -> None:
        self.count_operation()
        self._need_folder(folder)
        self._maybe_fail_sync(folder)
        kept = []
        for change in self._name_changes:
            if folder in change.folders():
                _apply_names(self._durable_names, change)
            else:
                kept.append(change)
        self._name_changes = kept

    def sync_many(self, names: Iterable[str]) -> None:
        for name in names:
            entry = self._names.get(name)
            if isinstance(entry, _Node):
                self.sync_node(name, entry)

    def sync_all(self) -> None:
        for name, entry in list(self._names.items()):
            if isinstance(entry, _Node):
                self.sync_node(name, entry)
        for folder in ["", *(name for name, entry in self._names.items() if isinstance(entry, _Folder))]:
            self.sync_folder(folder)

    def usage(self) -> DiskUsage:
        return DiskUsage(total=self.capacity, used=self._pages_used * PAGE)

    def lock(self, name: str) -> SimulatedLock:
        if name in self._locks:
            raise StoreLocked(f"{name} is held already")
        self.open(name, create=True)
        self._locks.add(name)
        return SimulatedLock(self._locks, name)

    def is_locked(self, name: str) -> bool:
        return False  # one process has this disk

    # What files ask of their disk

    def check_power(self) -> None:
        if self._off:
            raise PowerCut("this simulated machine is off")

    def sync_node(self, name: str, node: _Node) -> None:
        self.count_operation()
        try:
            self._maybe_fail_sync(name)
        except SyncFailed:
            # As ext4 does: the pages count as clean from now on, though the medium never got them.
            node.pending = [change for change in node.pending if isinstance(change, _Resize)]
            raise
        for change in node.pending:
            if isinstance(change, _Resize):
                _set_length(node.durable, change.length)
            else:
                node.durable[change.offset : change.offset + len(change.data)] = change.data
        node.pending.clear()

    # Inside

    def count_operation(self) -> None:
        """Count a changing call, and cut the power in it if this is the one."""
        self.check_power()
        self.operations += 1
        if self.operations == self._cut_at:
            self._off = True
            raise PowerCut(f"power cut in operation {self.operations}")

    def _change_names(self, entries: dict[str, _Entry | None]) -> None:
        self.check_power()
        change = _NameChange(self.operations + 1, entries)
        self._name_changes.append(change)
        _apply_names(self._names, change)
        for folder in change.folders():
            self._folder_changes[folder] = change.moment
        self.count_operation()

    def _maybe_fail_sync(self, name: str) -> None:
        for part in self._sync_failures:
            if part in name:
                self._sync_failures.remove(part)
                raise SyncFailed(f"sync of {name or 'the root folder'} failed: Input/output error")

    def allocate_pages(self, action: str, name: str, node: _Node, offset: int, length: int) -> None:
        pages = {page for page in range(offset // PAGE, -(-(offset + length) // PAGE)) if page not in node.pages}
        if (self._pages_used + len(pages)) * PAGE > self.capacity:
            used = self._pages_used * PAGE
            raise DiskFull(
                f"cannot {action} {name} at {offset}: No space left on device; "
                f"{used} of {self.capacity} bytes are used. Free some space"
            )
        node.pages |= pages
        self._pages_used += len(pages)

    def free_pages(self, node: _Node, length: int) -> None:
        """Take the pages behind this length from the file."""
        kept = {page for page in node.pages if page * PAGE < length}
        self._pages_used -= len(node.pages) - len(kept)
        node.pages = kept

    def _free_file(self, name: str) -> None:
        entry = self._names.get(name)
        if isinstance(entry, _Node) and sum(other is entry for other in self._names.values()) == 1:
            self._pages_used -= len(entry.pages)

    def _node(self, name: str) -> _Node:
        self.check_power()
        entry = self._names.get(checked_name(name))
        if not isinstance(entry, _Node):
            raise FileMissing(f"{name}: no such file")
        return entry

    def _need_folder(self, folder: str) -> None:
        if not self.is_folder(folder):
            raise FileMissing(f"{folder}: no such folder")


def _files(names: dict[str, _Entry]) -> Iterable[_Node]:
    """Return each file once, in the order of the first of its names."""
    return dict.fromkeys(entry for entry in names.values() if isinstance(entry, _Node))


def _apply_names(names: dict[str, _Entry], change: _NameChange) -> None:
    for name, entry in change.entries.items():
        if entry is None:
            names.pop(name, None)
        else:
            names[name] = entry


def _reachable(names: dict[str, _Entry], name: str) -> bool:
    """Return whether the entry's folders survived: a file goes with its folder."""
    folder = folder_of(name)
    return not folder or (isinstance(names.get(folder), _Folder) and _reachable(names, folder))


def _set_length(data: bytearray, length: int) -> None:
    if length <= len(data):
        del data[length:]
    else:
        data.extend(bytes(length - len(data)))


def _after_power_cut(node: _Node, rng: Random, last_moment: int, share: float) -> _Node:
    """Return the file on the medium: changes up to a moment whole, later ones by the sector as chance has it.

    A sector that reaches the medium does so as the page cache had it at some time: never a later write without an
    earlier one to the same sector. Lengths reach it in order.
    """
    unit = rng.choice([SECTOR, PAGE])
    cached = bytearray(node.durable)
    medium = bytearray(node.durable)
    lengths_kept = True
    for change in node.pending:
        kept = change.moment <= last_moment
        if isinstance(change, _Resize):
            _set_length(cached, change.length)
            lengths_kept = lengths_kept and (kept or rng.random() < share)
            if lengths_kept:
                _set_length(medium, change.length)
            continue
        end = change.offset + len(change.data)
        cached[change.offset : end] = change.data
        for start in range(change.offset // unit * unit, end, unit):
            if kept or rng.random() < share:
                stop = min(start + unit, len(medium), len(cached))
                if start < stop:
                    medium[start:stop] = cached[start:stop]
    pages = {page for page in node.pages if page * PAGE < len(medium)}
    return _Node(bytearray(medium), medium, [], pages, node.modified_ms, set(node.bad_sectors), node.changed)
