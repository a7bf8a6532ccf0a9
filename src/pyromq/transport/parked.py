"""Replies that a kernel has ready but that must not leave before the log is readable up to their position."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from ..kernel.seam import Waiting


class FrameWriter(Protocol):
    def send_frames(self, frames: bytes) -> None: ...


class ParkedReplies:
    """In the order in which they were handed in; positions never go down, so the front is the next to leave.

    Should a feed break that promise, a reply leaves late, never early.
    """

    def __init__(self) -> None:
        self._parked: deque[tuple[int, bytes, FrameWriter]] = deque()

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, writer: FrameWriter, waiting: Sequence[Waiting]) -> None:
        for position, replies in waiting:
            self._parked.append((position, replies, writer))

    def release(self, readable: int) -> None:
        """Send what waits for positions up to `readable`. A writer that is gone meanwhile drops its own."""
        parked = self._parked
        while parked and parked[0][0] <= readable:
            _, replies, writer = parked.popleft()
            writer.send_frames(replies)
