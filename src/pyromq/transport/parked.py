"""Replies that a kernel has ready but that must not leave before the log is readable up to their position."""

from __future__ import annotations

from collections import deque
from typing import Protocol


class FrameWriter(Protocol):
    """The connection that a reply goes to."""

    def send_frames(self, frames: bytes) -> None: ...

    def parked(self, change: int) -> None: ...

    def abort(self, reason: str) -> None: ...


class ParkedReplies:
    """In the order in which they were handed in; positions never go down, so the front is the next to leave.

    Should a feed break that promise, a reply leaves late, never early.
    """

    def __init__(self) -> None:
        self._parked: deque[tuple[int, bytes, FrameWriter]] = deque()

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, position: int, replies: bytes, writer: FrameWriter) -> None:
        self._parked.append((position, replies, writer))
        writer.parked(len(replies))

    def give_up(self, reason: str) -> None:
        """The log will never be readable up to them: whoever waits is cut off, which is what he must know."""
        while self._parked:
            _, replies, writer = self._parked.popleft()
            writer.parked(-len(replies))
            writer.abort(reason)

    def release(self, readable: int) -> None:
        """Send what waits for positions up to `readable`. A writer that is gone meanwhile drops its own."""
        parked = self._parked
        while parked and parked[0][0] <= readable:
            _, replies, writer = parked.popleft()
            writer.send_frames(replies)
            writer.parked(-len(replies))
