"""Replacing a small file so that a crash at any moment leaves the old content or the new, never a mixture or nothing.

For tables and settings written whole, which only their owner may read: what users store there is theirs, be it a
password. The commit log and its queues have their own rules in store/.
"""

from __future__ import annotations

import os
from pathlib import Path

PRIVATE = 0o600


def replace_file(path: Path, content: bytes, keep_backup: bool = True) -> None:
    """Write aside, sync, rename, sync the folder; the previous content stays as `<name>.bak`. Blocks on the disk."""
    make_folder(path.parent)
    aside = path.with_name(path.name + ".tmp")
    aside.unlink(missing_ok=True)  # left by a failure, maybe with other rights
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if keep_backup and path.exists():
        backup_aside = path.with_name(path.name + ".bak.tmp")
        backup_aside.unlink(missing_ok=True)
        os.link(path, backup_aside)  # a second name for the old content: `path` itself is never absent
        backup_aside.replace(path.with_name(path.name + ".bak"))
    aside.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new files in a folder survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder with its parents, each synced into its own: a file lasts only as long as the names on its path."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode, exist_ok=True)
    try:
        sync_folder(folder.parent)
    except OSError:
        folder.rmdir()  # else the next call would find it there and take it for durable
        raise
