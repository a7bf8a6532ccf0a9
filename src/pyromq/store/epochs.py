"""The epochs of a replicated log on disk: Java's file `epochFileCheckpoint`.

The file is written aside, synced and renamed, so that a power cut leaves the old list or the new one; Java rewrites it
in place and keeps the old content as `.bak`. Whoever becomes master saves its epoch before it appends under it, a
follower saves an epoch before it takes bytes of it, and after a cut the list is saved last (cutting.py).
"""

from __future__ import annotations

from ..errors import ProtocolError
from ..protocol.replication.epochs import EpochList, decode_epochs
from .errors import StoreDamaged
from .files.disk import Disk, read_if_there, remove_durably, replace_durably

EPOCH_FILE = "epochFileCheckpoint"
_BACKUP = EPOCH_FILE + ".bak"


def load_epochs(disk: Disk) -> EpochList:
    """Return the list; an empty one in a store that was never replicated. Raises StoreDamaged.

    Java's `.bak` counts where Java itself would take it: the file is missing or cannot be read. There is none once we
    have written."""
    faults = []
    for name in (EPOCH_FILE, _BACKUP):
        content = read_if_there(disk, name)
        if content is None:
            continue
        try:
            return decode_epochs(content)
        except ProtocolError as fault:
            faults.append(f"{name}: {fault}")
    if faults:
        raise StoreDamaged(
            f"{disk.root}: {'; '.join(faults)}. Without its epochs this log cannot be compared with those of other "
            "replicas. Put the file back from a backup, or seed the store anew from another replica"
        )
    return EpochList()


def save_epochs(disk: Disk, epochs: EpochList) -> None:
    """Save the list durably; nothing is written if the file says so already. Blocking."""
    if not epochs.entries:
        remove_durably(disk, EPOCH_FILE)
    elif read_if_there(disk, EPOCH_FILE) != epochs.encode():
        replace_durably(disk, EPOCH_FILE, epochs.encode())
    remove_durably(disk, _BACKUP)  # else it would count, older than ours, once the file is damaged
