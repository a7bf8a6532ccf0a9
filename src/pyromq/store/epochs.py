"""The epochs of a replicated log on disk: Java's file `epochFileCheckpoint`.

The file is written aside, synced and renamed, so that a power cut leaves the old list or the new one; Java rewrites it
in place and keeps the old content as `.bak`. Whoever becomes master saves its epoch before it appends under it, a
follower saves an epoch before it takes bytes of it, and after a cut the list is saved last (cutting.py).
"""

from __future__ import annotations

from typing import Protocol

from ..errors import ProtocolError
from ..protocol.replication.epochs import EpochList, MasterEpoch, decode_epochs
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


class LogBounds(Protocol):
    """From where to where a log goes: the commit log."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


class EpochFile:
    """The epochs of an open store. One writer. What changes them blocks, and is durable when it returns.

    `list` never speaks of more than the log has: an entry behind its end is that of bytes which never came, or which a
    power cut took."""

    def __init__(self, disk: Disk, log: LogBounds) -> None:
        self._disk = disk
        self._log = log
        self.list = load_epochs(disk).within(log.end)

    def begin(self, number: int) -> None:
        """Begin an epoch as its master, at the end of the log: before the first append under it.

        A log that has records and no epochs was a lone broker's: those become epoch 0, so that followers get them."""
        start, end = self._log.start, self._log.end
        before = self.list
        if not before.entries and start < end:
            before = EpochList((MasterEpoch(0, start),))
        self.keep(before.begun(number, end))

    def learn(self, epoch: MasterEpoch) -> None:
        """Take over an epoch of the master, before any byte of it is taken. Raises ProtocolError for one that cannot
        follow those that are here."""
        if not self.list.entries or self.list.entries[-1] != epoch:
            self.keep(self.list.learned(*epoch))

    def keep(self, epochs: EpochList) -> None:
        """Have these from here on, without those that have expired."""
        kept = epochs.without_expired(self._log.start)
        save_epochs(self._disk, kept)
        self.list = kept
