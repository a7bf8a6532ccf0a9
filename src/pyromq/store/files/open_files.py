"""A bounded number of open files by name: 50,000 queues must not hold 50,000 descriptors.

Writer's thread only. A helper thread opens files for itself, so that none is closed under it.
"""

from __future__ import annotations

from collections import OrderedDict

from .disk import Disk, DiskFile, TooManyFiles
from .read_mode import ReadMode
from .removals import Removals


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
