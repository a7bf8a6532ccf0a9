"""Stores inside of each other: a new one must neither lie in the store of a broker that runs nor above it.

Asked by who is about to make folders: `pyromq up` for its data, the broker for its store. Never takes a lock.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..files.disk import DiskError
from ..files.real_disk import RealDisk
from .claim import LOCK_FILE


def check_not_inside(store: Path) -> None:
    """Raise DiskError if a folder above this store is the store of a broker that runs."""
    for above in store.resolve().parents:
        if _is_live(above):
            raise DiskError(f"{store} would lie in {above}, the store of a broker that runs: name a folder outside")


def check_not_above(folder: Path, is_own: Callable[[str], bool] = lambda name: False) -> None:
    """Raise DiskError if a broker that runs has its store below this folder, at most two folders down.

    `is_own`: whether a name in the folder is one of its own stores; who opens those finds out by their locks."""
    for pattern in (f"*/{LOCK_FILE}", f"*/*/{LOCK_FILE}"):
        for below in (found.parent for found in folder.glob(pattern)):
            if not is_own(below.relative_to(folder).parts[0]) and _is_live(below):
                raise DiskError(
                    f"{folder} has {below} in it, the store of a broker that runs: name a folder of its own"
                )


def _is_live(folder: Path) -> bool:
    try:
        return (folder / LOCK_FILE).is_file() and RealDisk(folder).is_locked(LOCK_FILE)
    except (OSError, DiskError):  # it may not even be looked into
        return False
