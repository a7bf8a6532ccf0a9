"""The index by key: files named by the time of their creation, the newest one is written.

Keys are hashed as `topic#key`. Equal hashes are told apart by whoever reads the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from ... import logs
from ...kernel import state
from ...kernel.records import Placed, index_hash, index_keys
from ...kernel.state import IndexState
from ...model.wire_text import whole_number
from ..config import StoreConfig
from ..files.disk import Disk, make_folder_durably
from ..files.open_files import OpenFiles, UnsyncedFiles
from ..layout import INDEX
from ..recovery.catalogue import KnownIndexFile
from .index_file import IndexCommit, IndexFile, index_file_bytes
from .key_search import KeySearch

log = logs.get("pyromq.store")

_STORE_TIME = attrgetter("store_time")
_SPARE_SHARE = 10  # a tenth is left: the next file is made
GATHERED_BYTES = 64 << 10  # of entries that wait at most: a write for each lone message would cost a system call


@dataclass(slots=True, eq=False, repr=False)
class Index:
    """One writer. Records come in order of position; one that is covered already is not put again."""

    disk: Disk
    config: StoreConfig
    unsynced: UnsyncedFiles
    now_ms: Callable[[], int]
    open_files: OpenFiles  # where all files but the one that is written have their descriptors
    files: list[IndexFile] = field(default_factory=list, init=False)
    _spare: IndexFile | None = field(default=None, init=False)  # the next file, made before it is needed
    _spare_name: str = field(default="", init=False)
    _made: IndexFile | None = field(default=None, init=False)  # by a helper thread, and not the writer's yet
    state: IndexState = field(init=False)

    def __post_init__(self) -> None:
        self.state = state.IndexState(self._writable, GATHERED_BYTES)

    # -- loading ------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Load the files.

        One that is cut short goes: it is not to be trusted. Opening a store says what is lost (missing_files.py).
        """
        length = index_file_bytes(self.config.index_slots, self.config.index_entries)
        for name in self.disk.list(INDEX):
            path = f"{INDEX}/{name}"
            if whole_number(name) is None or self.disk.is_folder(path):
                log.warning("stray file in the index folder", name=path)
                continue
            size = self.disk.size(path)
            if size > length:
                log.warning("index file of another size is left alone", name=path, bytes=size, expected=length)
                continue
            if size < length:
                self._forget(path)
                continue
            if self.files:
                self.files[-1].share(self.open_files)
            self.files.append(self._open(path))
        self._drop_empty()
        self._follow_files()

    def _open(self, path: str) -> IndexFile:
        return IndexFile(self.disk, path, self.config, self.open_files.read_mode)

    def _follow_files(self) -> None:
        filled = [file for file in self.files if file.tail.next_entry > 1]
        self.state.covered = filled[-1].tail.end_position if filled else -1
        self.state.tail = self.files[-1].tail if self.files else None

    def warm(self) -> None:
        """Read the slot table, so that the first message after a start does not wait for it."""
        if self.files and not self.files[-1].is_full:
            self.files[-1].have_slots()

    def known_files(self) -> list[KnownIndexFile]:
        """Return the files that hold something, for the catalogue."""
        filled = [file for file in self.files if file.tail.next_entry > 1]
        return [KnownIndexFile(file.name, file.tail.end_position) for file in filled]

    # -- writing ------------------------------------------------------------------------------------------------------

    def reserve(self, entries: int) -> None:
        """Make room for so many entries, in the next file too if they go beyond this one. Raises DiskFull."""
        file = self._writable()
        file.reserve(entries)
        if entries > file.free and self._spare is None:
            self._spare = self._new_file()
            self._spare.reserve(entries)

    def accept(self, places: Sequence[Placed]) -> None:
        """Add the keys of records that are not covered yet."""
        for store_time, group in groupby(places, _STORE_TIME):
            keys = self.hashed(list(group))
            if keys:
                self._writable().have_slots()
                self.state.add(keys, store_time)

    def hashed(self, places: Sequence[Placed]) -> bytes:
        """Return the hashed keys of records behind what is covered, in order of position."""
        return index_keys(places, self.state.covered, self.config.index_tags)

    def _writable(self) -> IndexFile:
        if self.files and not self.files[-1].is_full:
            return self.files[-1]
        following = self._spare or self._new_file()
        if self.files:
            self.files[-1].write_pending()
            self.files[-1].share(self.open_files)
        self.files.append(following)
        self.state.tail = following.tail
        self._spare = None
        return following

    def _new_file(self) -> IndexFile:
        make_folder_durably(self.disk, INDEX)
        file = self._open(self._fresh_name())
        self._note_new(file)
        file.reserve(0)
        return file

    def _note_new(self, file: IndexFile) -> None:
        self.unsynced.folders.add(INDEX)
        self.unsynced.names[file.name] = True

    @property
    def wants_spare(self) -> bool:
        """Return whether the file that is written is nearly full: time for `make_spare`, then `adopt_spare`."""
        nearly = self.config.index_entries // _SPARE_SHARE
        return self._spare is None and bool(self.files) and self.files[-1].free <= nearly

    def name_spare(self) -> str:
        """Return the name of the next file. In the writer's thread, which gives no other file this name."""
        self._spare_name = self._fresh_name()
        return self._spare_name

    def make_spare(self, name: str) -> None:
        """Make the next file: the slow part, for a helper thread."""
        file = self._open(name)
        file.reserve(file.tail.entry_limit)  # all of it: the one before has filled up, and nobody waits for it here
        self._made = file

    def adopt_spare(self) -> None:
        """Adopt the next file, in the writer's thread."""
        made, self._made = self._made, None
        if made is None:
            return
        if self._spare is None and made.name > self.files[-1].name:
            self._spare = made
            self._note_new(made)
        else:  # a burst went beyond the file meanwhile
            self._remove(made)

    def _fresh_name(self) -> str:
        """Return `yyyyMMddHHmmssSSS` in local time, and later than every other: the names are the order."""
        now = self.now_ms()
        stamp = whole_number(datetime.fromtimestamp(now // 1000).strftime("%Y%m%d%H%M%S") + f"{now % 1000:03d}") or 0
        for name in (self._spare_name, self.files[-1].name if self.files else ""):
            if name:
                stamp = max(stamp, (whole_number(name.rpartition("/")[2]) or 0) + 1)
        return f"{INDEX}/{stamp:017d}"

    def take_commits(self) -> list[IndexCommit]:
        """Return slots and headers of what changed; their entries must be synced before these are written."""
        commits = []
        for file in self.files:
            if file.tail.is_changed:
                commits.append(file.take_commit())
                self.unsynced.files.add(file.name)
            elif file is not self.files[-1]:
                file.release_slots()
        return commits

    # -- reading ------------------------------------------------------------------------------------------------------

    def search(self, topic: str, key: str, begin: int, end: int, limit: int) -> KeySearch:
        """Search for positions of records that may have this key, newest first.

        Equal hashes of other keys are among them.
        """
        return KeySearch(self.files, index_hash(topic, key), begin, end, limit)

    @property
    def full_until_time(self) -> int:
        """Return the end time of the newest full file: what Java's checkpoint says of the index."""
        full = [file.tail.end_time for file in self.files if file.is_full]
        return full[-1] if full else 0

    # -- recovery and retention ---------------------------------------------------------------------------------------

    def discard_from(self, position: int) -> None:
        """Take back entries for records at or behind a position: they are about to be put again."""
        for file in self.files:
            if not file.is_full or file.tail.end_position >= position:
                file.cut(position)
        self._drop_empty()
        self._follow_files()

    def _drop_empty(self) -> None:
        """Drop files made ahead of a crash that never got an entry."""
        while self.files and self.files[-1].tail.next_entry == 1:
            self._remove(self.files.pop())

    def drop_newest_from(self, number: int) -> int | None:
        """Remove files from `number` on, and return where the records that they covered begin."""
        dropped = self.files[number:]
        del self.files[number:]
        starts = [file.tail.begin_position for file in dropped if file.tail.next_entry > 1]
        for file in dropped:
            self._remove(file)
        begin = min(starts, default=None)
        if begin is not None and self.files and self.files[-1].tail.end_position >= begin:
            self.files[-1].cut(begin)  # a record whose keys lie in both files is put again as a whole
        self._follow_files()
        return begin

    def give_up_before(self, log_start: int) -> list[str]:
        """Return names of files whose records are all gone, for the caller to remove; the newest stays."""
        names = []
        while len(self.files) > 1 and self.files[0].tail.end_position < log_start:
            file = self.files.pop(0)
            file.close()
            self._note_gone(file.name)
            names.append(file.name)
        return names

    def _remove(self, file: IndexFile) -> None:
        file.close()
        self._forget(file.name)

    def _forget(self, name: str) -> None:
        self._note_gone(name)
        self.disk.remove(name)

    def _note_gone(self, name: str) -> None:
        self.unsynced.files.discard(name)
        self.unsynced.names[name] = False
        self.unsynced.folders.add(INDEX)

    def tidy(self) -> None:
        """Remove files made ahead that hold nothing, before a stop."""
        for file in (self._spare, self._made):
            if file is not None:
                self._remove(file)
        self._spare = self._made = None
        self._drop_empty()
        self._follow_files()

    def close(self) -> None:
        self.tidy()
        for file in self.files:
            file.close()
