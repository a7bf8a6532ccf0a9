"""Whether there is room on disk: for the first log file, and for the last message, as a broker's health shows it."""

from __future__ import annotations

from types import TracebackType

from ... import logs
from .disk import Disk, DiskFull

log = logs.get("pyromq.store")


def warn_if_no_file_fits(disk: Disk, log_file_bytes: int) -> None:
    """Of a store without a log file: its first message would be refused, however ready the broker looks."""
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
    """Event loop only. A context manager by `watched`, light enough for every put."""

    __slots__ = ("_disk", "_used", "refused")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.refused: str | None = None
        self._used = 0

    def watched(self) -> FreeSpace:
        """Around a put: it was refused for want of room, or there is some."""
        return self

    def __enter__(self) -> None:
        """Nothing yet."""

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(fault, DiskFull):
            self.refused = str(fault)
            self._used = self._disk.usage().used
        elif self.refused is not None and fault is None:
            self.refused = None

    def refusal(self) -> str | None:
        """Return why there is no room; None once there is, or something was removed."""
        if self.refused is not None and self._disk.usage().used < self._used:
            self.refused = None
        return self.refused
