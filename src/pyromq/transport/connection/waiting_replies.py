"""Replies that a kernel has ready but that must not leave before the log is readable up to their position."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ...ambient import Clock, Timer


class FrameWriter(Protocol):
    """The connection that a reply goes to."""

    def send_frames(self, frames: bytes) -> None: ...

    def parked(self, change: int) -> None: ...

    def abort(self, reason: str) -> None: ...


class Patience(NamedTuple):
    """How long a reply may wait, and what is said in its place then."""

    seconds: Callable[[], float]
    late: Callable[[bytes], bytes]  # of the frames that did not leave in time


class _Parked(NamedTuple):
    position: int
    replies: bytes
    writer: FrameWriter
    deadline: float


class ParkedReplies:
    """In the order in which they were handed in; positions never go down, so the front is the next to leave.

    Should a feed break that promise, a reply leaves late, never early.
    """

    def __init__(self, clock: Clock, gone: Callable[[], None]) -> None:
        """`gone` is called after replies left because they had waited too long."""
        self._clock = clock
        self._gone = gone
        self._parked: deque[_Parked] = deque()
        self._patience: Patience | None = None
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._parked)

    def wait_at_most(self, patience: Patience) -> None:
        """Without, they wait for as long as it takes."""
        self._patience = patience

    def park(self, position: int, replies: bytes, writer: FrameWriter) -> None:
        deadline = 0.0
        if self._patience is not None:
            seconds = self._patience.seconds()
            deadline = self._clock.monotonic() + seconds
            if self._timer is None:
                self._timer = self._clock.call_later(seconds, self._look)
        self._parked.append(_Parked(position, replies, writer, deadline))
        writer.parked(len(replies))

    def _look(self) -> None:
        """One timer for all, which is not moved when replies leave: it finds the first that is still there."""
        self._timer = None
        now, patience = self._clock.monotonic(), self._patience
        while self._parked and patience is not None:
            first = self._parked[0]
            if first.deadline > now:
                self._timer = self._clock.call_later(first.deadline - now, self._look)
                break
            self._parked.popleft()
            first.writer.send_frames(patience.late(first.replies))
            first.writer.parked(-len(first.replies))
        self._gone()

    def give_up(self, reason: str) -> None:
        """The log will never be readable up to them: whoever waits is cut off, which is what he must know."""
        while self._parked:
            one = self._parked.popleft()
            one.writer.parked(-len(one.replies))
            one.writer.abort(reason)

    def release(self, readable: int) -> None:
        """Send what waits for positions up to `readable`. A writer that is gone meanwhile drops its own."""
        parked = self._parked
        while parked and parked[0].position <= readable:
            one = parked.popleft()
            one.writer.send_frames(one.replies)
            one.writer.parked(-len(one.replies))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
