"""Files as the writer's thread has them open: a bounded number, since 50,000 queues must not hold 50,000 descriptors.

Reads that must not wait: queries run on the event loop, and a cold page there would stop everyone. `AsyncReader.ask`
runs a query with `resident_only`; what is not in the page cache raises NotResident, is fetched in a helper thread
(`warm`), and the query is asked again. So a query is plain synchronous code, the same for loop and tools.

Removals: freeing a large file takes long. The writer gives a name up in one step (nobody finds the file any more), adds
it to `Removals`, and lets `carry_out` run elsewhere. Nothing is ever truncated: readers may have the file open.
`UnsyncedFiles` gathers what changed in derived files since the last flush.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

from .disk import Disk, DiskError, DiskFile, FileMissing, TooManyFiles, read_range


class NotResident(Exception):
    """A range that would have to come from the medium. Never leaves the store."""

    def __init__(self, name: str, offset: int, length: int) -> None:
        super().__init__(name, offset, length)
        self.place = (name, offset, length)

    def warm(self, disk: Disk) -> None:
        """Read the range into the page cache. For a helper thread: with a descriptor of its own."""
        name, offset, length = self.place
        with suppress(DiskError):  # it went meanwhile, or is damaged: whoever reads it will see
            read_range(disk, name, offset, length)


class ReadMode:
    """How the writer's thread reads files: it waits for the medium, except inside `resident_only`."""

    __slots__ = ("_waits",)

    def __init__(self) -> None:
        self._waits = True

    @contextmanager
    def resident_only(self) -> Iterator[None]:
        """Read without waiting, by raising NotResident. Nothing may be awaited inside."""
        self._waits = False
        try:
            yield
        finally:
            self._waits = True

    def pread(self, file: DiskFile, offset: int, length: int) -> bytes:
        if self._waits:
            return file.pread(offset, length)
        data = file.pread_resident(offset, length)
        if data is None:
            raise NotResident(file.name, offset, length)
        return data


class Removals:
    """`add` and `holds` in the writer's thread, `carry_out` in any."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._names: deque[str] = deque()
        self._at_work = ""  # the name that goes right now
        self._one_at_a_time = Lock()

    def holds(self, beginning: str = "") -> bool:
        """Return whether a name that begins so is still to be removed."""
        # The queue before the one at work: a name is noted there before it leaves the queue.
        return any(name.startswith(beginning) for name in (*tuple(self._names), self._at_work) if name)

    def add(self, name: str) -> None:
        self._names.append(name)

    def carry_out(self) -> None:
        """Remove everything that was added before. Blocking. A removal that fails is not tried again."""
        with self._one_at_a_time:
            try:
                while self._names:
                    self._at_work = self._names[0]
                    self._names.popleft()
                    self._disk.remove(self._at_work)
            finally:
                self._at_work = ""


class OpenFiles:
    """Opens on first use, closes the one used longest ago. A file from `get` is good until the next call of `get`."""

    def __init__(
        self, disk: Disk, limit: int, read_mode: ReadMode | None = None, removals: Removals | None = None
    ) -> None:
        """Open at most `limit` files. With `removals`, files that are dropped wait there for a helper thread."""
        self._disk = disk
        self.removals = removals
        self.read_mode = read_mode or ReadMode()  # how what is opened here is read
        self._limit = limit
        self._open: OrderedDict[str, DiskFile] = OrderedDict()
        self._random = False

    def expect_random(self, random: bool) -> None:
        """Tell the system how the files are read that are open, and those to come."""
        self._random = random
        for file in self._open.values():
            file.expect_random(random)

    def get(self, name: str, *, create: bool = False) -> DiskFile:
        file = self._open.get(name)
        if file is not None:
            self._open.move_to_end(name)
            return file
        if create:
            self.finish_removals(name)
        file = self._opened(name, create)
        self._open[name] = file
        if self._random:
            file.expect_random(True)
        if len(self._open) > self._limit:
            self._open.popitem(last=False)[1].close()
        return file

    def _opened(self, name: str, create: bool) -> DiskFile:
        """Open a file. Where no descriptor is free, files that were kept open for later are closed first."""
        while True:
            try:
                return self._disk.open(name, create=create)
            except TooManyFiles:
                if not self._open:
                    raise
                self._open.popitem(last=False)[1].close()

    def forget(self, name: str) -> None:
        """Close the file if it is open: its name is about to go."""
        file = self._open.pop(name, None)
        if file is not None:
            file.close()

    def drop(self, name: str) -> None:
        """Remove a file: now, or as soon as a helper thread comes to it."""
        self.forget(name)
        if self.removals is None:
            self._disk.remove(name)
        else:
            self.removals.add(name)

    def finish_removals(self, beginning: str) -> None:
        """Finish removals before a name that begins so is used again, or its folder goes. Usually there are none."""
        if self.removals is not None and self.removals.holds(beginning):
            self.removals.carry_out()

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def __len__(self) -> int:
        return len(self._open)


class UnsyncedFiles:
    """Writer's thread only, except that what `take` returned belongs to the flush that asked."""

    __slots__ = ("files", "folders", "names")

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.folders: set[str] = set()
        self.names: dict[str, bool] = {}  # files that were made (True) or went (False)

    def folders_above(self, folder: str) -> None:
        """Note every folder up to the root: one was made, maybe with parents, so each may have gained a name."""
        while folder:
            folder = folder.rpartition("/")[0]
            self.folders.add(folder)

    def take(self) -> UnsyncedFiles:
        """Return what has gathered so far, and begin again with nothing."""
        gathered = UnsyncedFiles()
        gathered.files.update(self.files)
        self.files.clear()  # the tails of queues hold this very set
        gathered.folders, self.folders = self.folders, set()
        gathered.names, self.names = self.names, {}
        return gathered

    def sync(self, disk: Disk) -> None:
        """Sync the files, then the folders. Blocking. A folder that was removed meanwhile has nothing to keep."""
        disk.sync_many(sorted(self.files))
        for folder in sorted(self.folders, reverse=True):
            with suppress(FileMissing):
                disk.sync_folder(folder)
