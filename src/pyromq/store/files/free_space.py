"""Whether there is space on disk: for the first log file, and for the last message that was put.

The store's writer watches with it how room is made for a put; the broker's health shows the reason.
"""

from __future__ import annotations

from types import TracebackType

from ... import logs
from .disk import Disk, DiskFull

log = logs.get("pyromq.store")


def warn_if_no_file_fits(disk: Disk, log_file_bytes: int) -> None:
    """Warn of a store without a log file whose first message would be refused, however ready the broker looks."""
    usage = disk.usage()
    if usage.total - usage.used < log_file_bytes:
        log.warning(
            "the disk has no room for the first log file, sends will be refused: free some space, or start with a "
            "lower mappedFileSizeCommitLog",
            root=disk.root,
            mappedFileSizeCommitLog=log_file_bytes,
            total=usage.total,
            used=usage.used,
        )


class FreeSpace:
    """Event loop only. Around a put it notes whether a full disk refused that; light enough for every put."""

    __slots__ = ("_disk", "_used", "refused")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.refused: str | None = None
        self._used = 0

    def __enter__(self) -> None:
        """Do nothing: what counts is how the put ends."""

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(fault, DiskFull):
            self.refused = str(fault)
            self._used = self._disk.usage().used
        elif self.refused is not None and fault is None:
            self.refused = None

    def refusal(self) -> str | None:
        """Return why the last message was refused; None once there is space, or something was removed."""
        if self.refused is not None and self._disk.usage().used < self._used:
            self.refused = None
        return self.refused
