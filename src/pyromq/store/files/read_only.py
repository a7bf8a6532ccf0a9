"""A disk that cannot be changed: what verify, info, dump and the source side of a backup are handed.

Files are opened for reading only, so they also work on stores of another user and on read-only mounts.
"""

from __future__ import annotations

from typing import Any, NoReturn, cast

from .disk import Disk, DiskError, DiskFile

_QUESTIONS = {"root", "exists", "is_folder", "list", "size", "modified_ms", "stamps", "usage", "is_locked"}


def read_only(disk: Disk) -> Disk:
    """Return a disk that passes questions on and refuses everything else."""
    return cast(Disk, _ReadOnlyDisk(disk))


class _ReadOnlyDisk:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def open(self, name: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        return self._disk.open(name, writable=False)

    def __getattr__(self, call: str) -> Any:
        if call in _QUESTIONS:
            return getattr(self._disk, call)

        def refuse(*names: object) -> NoReturn:
            what = " ".join((call.replace("_", " "), *map(str, names)))
            raise DiskError(f"cannot {what} in {self._disk.root}: the store was opened for reading only")

        return refuse
