"""The storage seam: everything that the store does to files goes through `Disk` and `DiskFile`.

Two implementations: `real_disk.RealDisk` over the operating system, and `pyromq.testing.simulated_disk.SimulatedDisk`
that keeps written and synced state apart. Names are paths relative to the disk's root, with "/" between the parts. All
calls block; the caller chooses the thread. `sync`, `sync_many`, `allocate`, `pread` and `remove` may run in a helper
thread beside the calls of the writer.

What a caller may rely on after a power cut: bytes that a successful `sync` covered, and names that a successful
`sync_folder` of their folder covered. Nothing else.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from contextlib import closing
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


class AccessDenied(DiskError):
    """The file is there, and this user may not use it. It says nothing about what is in it. Names the cure."""


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
        """Return the used share, rounded up to whole percents as RocketMQ does."""
        return -(-self.used * 100 // self.total) / 100 if self.total else 1.0


class DiskFile(Protocol):
    """One open file. Stays usable until `close`, also after a `remove` of its name."""

    @property
    def name(self) -> str: ...

    @property
    def open_file(self) -> OpenFile | None:
        """Return the descriptor for a kernel that reads and writes by itself; None: it must use the calls below."""
        ...

    def size(self) -> int: ...

    def pread(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes; fewer only at the end of the file."""
        ...

    def written(self) -> list[tuple[int, int]]:
        """Return the stretches that may hold anything but zeroes: a file system knows what of a file was never written.

        Ask before anything is read: what has been read once counts as written. All of it where nobody knows.
        """
        ...

    def pread_resident(self, offset: int, length: int) -> bytes | None:
        """Return what `pread` does if all of it is in the page cache, else None. Never waits for the medium."""
        ...

    def pwrite(self, offset: int, data: Bytes) -> None: ...

    def pwritev(self, offset: int, buffers: Sequence[Bytes]) -> None:
        """Write the buffers one after another, in one call where the system allows it."""
        ...

    def allocate(self, offset: int, length: int) -> None:
        """Reserve space on the medium for this range; the file grows if it was shorter. Keeps what is there."""
        ...

    def truncate(self, length: int) -> None:
        """Cut the file, or grow it by a hole without space reserved."""
        ...

    def sync(self) -> None:
        """Return once bytes and length are on the medium (fdatasync). Raises SyncFailed."""
        ...

    def expect_random(self, random: bool) -> None:
        """Tell the system whether reads will jump about, so that reading ahead is a waste. Ends with `close`."""
        ...

    def close(self) -> None: ...


class DiskLock(Protocol):
    """A held lock; `release` or the end of the process gives it up."""

    def release(self) -> None: ...


class Disk(Protocol):
    """The files below one root folder."""

    @property
    def root(self) -> str:
        """Return the root folder for messages to people, never to build paths from."""
        ...

    def open(self, name: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open a file. `create` makes an empty one if there is none; its folder must exist. Raises FileMissing."""
        ...

    def exists(self, name: str) -> bool: ...

    def is_folder(self, name: str) -> bool: ...

    def list(self, folder: str = "") -> list[str]:
        """Return the bare names in a folder, sorted; none if there is no such folder."""
        ...

    def size(self, name: str) -> int: ...

    def modified_ms(self, name: str) -> int: ...

    def stamps(self, names: Iterable[str]) -> Sequence[Stamp]:
        """Return the stamps of many files and folders at once.

        Equal stamps: nobody wrote to the file, or made or removed a name in the folder, in between.
        """
        ...

    def make_folder(self, name: str) -> None:
        """Make a folder with its parents, if it is not there. Durable only once the parents are synced."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file; `new` is replaced in one step."""
        ...

    def link(self, name: str, second: str) -> None:
        """Give the file a second name, which must be free."""
        ...

    def remove(self, name: str) -> None: ...

    def remove_folder(self, name: str) -> None:
        """Remove a folder, which must be empty."""
        ...

    def sync_folder(self, folder: str = "") -> None:
        """Return once creations, renames and removals in this folder are on the medium."""
        ...

    def sync_many(self, names: Iterable[str]) -> None:
        """Sync many files together, open or not. The files' names are not covered."""
        ...

    def sync_all(self) -> None:
        """Return once everything that was written or named below the root, by whomever, is on the medium."""
        ...

    def usage(self) -> DiskUsage: ...

    def lock(self, name: str) -> DiskLock:
        """Take the POSIX write lock on byte 0 of the file, as RocketMQ does. Raises StoreLocked.

        Nobody else in this process may open that file: closing any descriptor of it would drop the lock.
        """
        ...

    def is_locked(self, name: str) -> bool:
        """Return whether another process holds that lock, without taking it."""
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
    """Remove a file, or a folder with everything in it."""
    if not disk.is_folder(name):
        disk.remove(name)
        return
    for inner in disk.list(name):
        remove_tree(disk, f"{name}/{inner}")
    disk.remove_folder(name)


def remove_durably(disk: Disk, name: str) -> None:
    """Remove a file, if it is there, so that a power cut does not bring it back."""
    if disk.exists(name):
        disk.remove(name)
        disk.sync_folder(folder_of(name))


def read_whole(disk: Disk, name: str) -> bytes:
    with closing(disk.open(name, writable=False)) as file:
        return file.pread(0, file.size())


def read_if_there(disk: Disk, name: str) -> bytes | None:
    try:
        return read_whole(disk, name)
    except FileMissing:
        return None


def read_range(disk: Disk, name: str, offset: int, length: int) -> bytes:
    """Return up to `length` bytes, read with a descriptor of its own: any thread may call it."""
    with closing(disk.open(name, writable=False)) as file:
        return file.pread(offset, length)


def write_temporary(disk: Disk, name: str, content: Bytes) -> str:
    """Write and sync the content beside the file, and return the name to rename from."""
    aside = name + ".tmp"
    with closing(disk.open(aside, create=True)) as file:
        file.truncate(0)
        file.pwrite(0, content)
        file.sync()
    return aside


def replace_durably(disk: Disk, name: str, content: Bytes) -> None:
    """Replace a file, and make its folder: after a power cut it is the old one or the new one."""
    make_folder_durably(disk, folder_of(name))
    disk.rename(write_temporary(disk, name, content), name)
    disk.sync_folder(folder_of(name))


def sealed(text: bytes) -> bytes:
    """Return text behind its own CRC32: 8 hex digits, a space, the text. A torn one is then not taken for a whole."""
    return b"%08x %s" % (zlib.crc32(text), text)


def unsealed(data: bytes) -> bytes | None:
    """Return the text of `sealed`; None if it is not whole."""
    checksum, _, text = data.partition(b" ")
    return text if checksum == b"%08x" % zlib.crc32(text) else None
