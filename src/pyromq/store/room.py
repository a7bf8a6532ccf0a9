"""Whether the last message found room on disk: what a broker's health shows, long before the next one is tried."""

from __future__ import annotations

from types import TracebackType

from .disk import Disk, DiskFull


class Room:
    """Event loop only. A context manager by `watched`, light enough for every put."""

    __slots__ = ("_disk", "_used", "refused")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.refused: str | None = None
        self._used = 0

    def watched(self) -> Room:
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
        """Why there is no room; None once there is, or something was removed."""
        if self.refused is not None and self._disk.usage().used < self._used:
            self.refused = None
        return self.refused
