"""Extension files of consume queues (Java's enableConsumeQueueExt): recognised and done away with, never written.

With them a queue entry holds an address in `consumequeue_ext/` instead of the tag's hash, and would match no tag. What
it should hold is in the log, so opening writes such entries anew (recovery.py) and then removes the extensions: nothing
leads to them any more. Java opens the result, with the setting on or off.
"""

from __future__ import annotations

from ... import logs
from ..files.disk import Disk, remove_tree
from ..layout import EXTENSIONS

log = logs.get("pyromq.store")

_LARGEST_ADDRESS = -(1 << 31) - 1  # tag hashes have 32 bits, so no hash is so small; delivery times are positive


def has_extensions(disk: Disk) -> bool:
    return disk.is_folder(EXTENSIONS) and bool(disk.list(EXTENSIONS))


def is_address(tag_code: int) -> bool:
    """Return whether the tag code of a queue entry is an address in the extension files."""
    return tag_code <= _LARGEST_ADDRESS


def drop_extensions(disk: Disk) -> None:
    """Remove the extension files, after the queues were written again and synced."""
    if has_extensions(disk):
        remove_tree(disk, EXTENSIONS)
        disk.sync_folder()
        log.warning("extension files of consume queues are gone: the queues have tag hashes again", folder=EXTENSIONS)
