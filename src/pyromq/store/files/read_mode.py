"""Reads that must not wait: queries run on the event loop, and a cold page there would stop everyone.

`MessageStore.ask` runs a query with `resident_only`; what is not in the page cache raises NotResident, is fetched in a
helper thread (`warm`), and the query is asked again. So a query is plain synchronous code, the same for loop and tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .disk import Disk, DiskError, DiskFile, read_range


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
