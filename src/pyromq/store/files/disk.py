"""The storage seam: everything that the store does to files goes through `Disk` and `DiskFile`.

Two implementations: `real_disk.RealDisk` over the operating system, and `pyromq.testing.simulated_disk.SimulatedDisk`
that keeps written and synced state apart. Names are paths relative to the disk's root, with "/" between the parts. All
calls block; the caller chooses the thread. `sync`, `sync_many`, `allocate`, `pread` and `remove` may run in a helper
thread beside the calls of the writer.

What a caller may rely on after a power cut: bytes that a successful `sync` covered, and names that a successful
`sync_folder` of their folder covered. Nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ...errors import PyroError
from ...kernel.state import OpenFile

# What may be written: anything with the buffer protocol that we hand around.
Bytes: TypeAlias = bytes | bytearray | memoryview


class DiskError(PyroError):
    """A file operation failed. The text names the file, the operation and the system's reason."""


class FileMissing(DiskError):
    """The file or folder is not there."""


class DiskFull(DiskError):
    """No room left. Nothing that was already written is touched; reads go on. Names path, use and limit."""


class TooManyFiles(DiskError):
    """No descriptor is free. Nothing was changed; once somebody closes a file, the same call succeeds."""


class SyncFailed(DiskError):
    """A sync failed: the kernel may have dropped the pages, so a second try that succeeds proves nothing.

    Fatal for writing: never retried, nothing that waits for it is acked.
    """


class StoreLocked(DiskError):
    """Another process holds the lock."""


# Length, and a number that every change makes another one; (-1, -1): there is no such name.
Stamp: TypeAlias = tuple[int, int]
NO_STAMP: Stamp = (-1, -1)


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """Bytes of the file system below the root, as an unprivileged writer sees them."""

    total: int
    used: int

    @property
    def ratio(self) -> float:
        """The used share, rounded up to whole percents as RocketMQ does."""
        return -(-self.used * 100 // self.total) / 100 if self.total else 1.0


class DiskFile(Protocol):
    """One open file. Stays usable until `close`, also after a `remove` of its name. Views outlive `close`."""

    @property
    def name(self) -> str: ...

    @property
    def open_file(self) -> OpenFile | None:
        """For a kernel that reads and writes by itself; None: through the calls below alone."""
        ...

    def size(self) -> int: ...

    def pread(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        ...

    def pread_resident(self, offset: int, length: int) -> bytes | None:
        """The same bytes if all of them are in the page cache, else None: never waits for the medium."""
        ...

    def view(self, offset: int, length: int) -> memoryview:
        """A read-only window on the file, for ranges known to be resident. It sees later writes."""
        ...

    def pwrite(self, offset: int, data: Bytes) -> None: ...

    def pwritev(self, offset: int, buffers: Sequence[Bytes]) -> None:
        """The buffers one after another, in one call where the system allows it."""
        ...

    def allocate(self, offset: int, length: int) -> None:
        """Make sure that this range has room on the medium; the file grows if it was shorter. Keeps what is there."""
        ...

    def truncate(self, length: int) -> None:
        """Cut, or grow by a hole of zeroes without room behind it. Refused while a view of the file is alive."""
        ...

    def sync(self) -> None:
        """Bytes and length are on the medium when this returns (fdatasync). Raises SyncFailed."""
        ...

    def expect_random(self, random: bool) -> None:
        """Reads will jump about, so reading ahead is a waste; or, as at first, they will not. For this opening."""
        ...

    def close(self) -> None: ...


class DiskLock(Protocol):
    """A held lock; `release` or the end of the process gives it up."""

    def release(self) -> None: ...


class Disk(Protocol):
    """The files below one root folder."""

    @property
    def root(self) -> str:
        """For messages to people, never to build paths from."""
        ...

    def open(self, name: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        """`create` makes an empty file if there is none; its folder must exist. Raises FileMissing."""
        ...

    def exists(self, name: str) -> bool: ...

    def is_folder(self, name: str) -> bool: ...

    def list(self, folder: str = "") -> list[str]:
        """Bare names in a folder, sorted; empty if there is no such folder."""
        ...

    def size(self, name: str) -> int: ...

    def modified_ms(self, name: str) -> int: ...

    def stamps(self, names: Iterable[str]) -> Sequence[Stamp]:
        """Of many files and folders at once. Equal ones: nobody wrote to the file, or made or removed a name in the
        folder, in between."""
        ...

    def make_folder(self, name: str) -> None:
        """With parents; an existing one is fine. Durable once the parents are synced: see `make_folder_durably`."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Replaces `new` in one step."""
        ...

    def link(self, name: str, second: str) -> None:
        """Give the file a second name, which must be free."""
        ...

    def remove(self, name: str) -> None: ...

    def remove_folder(self, name: str) -> None:
        """An empty folder."""
        ...

    def sync_folder(self, folder: str = "") -> None:
        """Creations, renames and removals in this folder are on the medium when this returns."""
        ...

    def sync_many(self, names: Iterable[str]) -> None:
        """`sync` of many files, open or not, together; the files' names are not covered."""
        ...

    def sync_all(self) -> None:
        """Everything that was written or named below the root, by whomever, is on the medium when this returns."""
        ...

    def usage(self) -> DiskUsage: ...

    def lock(self, name: str) -> DiskLock:
        """Take the POSIX write lock on byte 0 of the file, as RocketMQ does. Raises StoreLocked.

        Nobody else in this process may open that file: closing any descriptor of it would drop the lock.
        """
        ...

    def is_locked(self, name: str) -> bool:
        """Does another process hold that lock? Asks without taking it."""
        ...


def checked_name(name: str) -> str:
    """Refuse names that could leave the root: part by part, before anything touches the system."""
    if name.startswith("/") or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise DiskError(f"{name!r} is not a name inside a store")
    return name


def folder_of(name: str) -> str:
    return name.rpartition("/")[0]


def make_folder_durably(disk: Disk, name: str) -> None:
    """Make a folder and sync every parent that gained an entry."""
    missing = []
    while name and not disk.is_folder(name):
        missing.append(name)
        name = folder_of(name)
    for folder in reversed(missing):
        disk.make_folder(folder)
        try:
            disk.sync_folder(folder_of(folder))
        except SyncFailed:
            # Else the next call would find it there and take it for durable.
            disk.remove_folder(folder)
            raise


def remove_tree(disk: Disk, name: str) -> None:
    """A file, or a folder with all that is in it."""
    if not disk.is_folder(name):
        disk.remove(name)
        return
    for inner in disk.list(name):
        remove_tree(disk, f"{name}/{inner}")
    disk.remove_folder(name)


def read_whole(disk: Disk, name: str) -> bytes:
    file = disk.open(name, writable=False)
    try:
        return file.pread(0, file.size())
    finally:
        file.close()


def write_aside(disk: Disk, name: str, content: Bytes) -> str:
    """Write and sync the content beside the file; returns the name to rename from."""
    aside = name + ".tmp"
    file = disk.open(aside, create=True)
    try:
        file.truncate(0)
        file.pwrite(0, content)
        file.sync()
    finally:
        file.close()
    return aside


def replace_durably(disk: Disk, name: str, content: Bytes) -> None:
    """Write aside, sync, rename, sync the folder: after a power cut the file is the old one or the new one."""
    disk.rename(write_aside(disk, name, content), name)
    disk.sync_folder(folder_of(name))
