"""A disk that cannot be changed: what verify, info, dump and the source side of a backup are handed.

Files are opened for reading only, so they also work on stores of another user and on read-only mounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from .disk import Disk, DiskError, DiskFile, DiskLock, DiskUsage, Stamp


class ReadOnlyDisk:
    """Passes questions on and refuses everything else."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    @property
    def root(self) -> str:
        return self._disk.root

    def open(self, name: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        return self._disk.open(name, writable=False)

    def exists(self, name: str) -> bool:
        return self._disk.exists(name)

    def is_folder(self, name: str) -> bool:
        return self._disk.is_folder(name)

    def list(self, folder: str = "") -> list[str]:
        return self._disk.list(folder)

    def size(self, name: str) -> int:
        return self._disk.size(name)

    def modified_ms(self, name: str) -> int:
        return self._disk.modified_ms(name)

    def stamps(self, names: Iterable[str]) -> Sequence[Stamp]:
        return self._disk.stamps(names)

    def usage(self) -> DiskUsage:
        return self._disk.usage()

    def is_locked(self, name: str) -> bool:
        return self._disk.is_locked(name)

    def make_folder(self, name: str) -> None:
        self._refuse("make folder", name)

    def rename(self, old: str, new: str) -> None:
        self._refuse("rename", old)

    def link(self, name: str, second: str) -> None:
        self._refuse("link", name)

    def remove(self, name: str) -> None:
        self._refuse("remove", name)

    def remove_folder(self, name: str) -> None:
        self._refuse("remove folder", name)

    def sync_folder(self, folder: str = "") -> None:
        self._refuse("sync folder", folder)

    def sync_many(self, names: Iterable[str]) -> None:
        self._refuse("sync", ", ".join(names))

    def sync_all(self) -> None:
        self._refuse("sync", "")

    def lock(self, name: str) -> DiskLock:
        self._refuse("lock", name)

    def _refuse(self, action: str, name: str) -> NoReturn:
        raise DiskError(f"cannot {action} {self.root}/{name}: the store was opened for reading only")
