"""Replies that a kernel has ready but that must not leave before the log is readable up to their position."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ...ambient import Clock, Timer


class FrameWriter(Protocol):
    """The connection that a reply goes to."""

    def send_frames(self, frames: bytes) -> None: ...

    def replies_pending(self, change: int) -> None: ...

    def abort(self, reason: str) -> None: ...


class ReplyTimeout(NamedTuple):
    """How long a reply may wait, and what is said in its place then."""

    seconds: Callable[[], float]
    late: Callable[[int, bytes], bytes]  # of a position and the frames that did not leave in time


class Passage(NamedTuple):
    """Where the log may be readable before a reply is handed in, and a reply may have to say how that came."""

    readable: Callable[[], int]
    judged: Callable[[int, bytes], bytes]  # what leaves for a position that has become readable


class _PendingReply(NamedTuple):
    position: int
    replies: bytes
    writer: FrameWriter
    deadline: float


@dataclass(slots=True, eq=False, repr=False)
class PendingReplies:
    """In the order in which they were handed in; positions never go down, so the front is the next to leave.

    Should a feed break that promise, a reply leaves late, never early. Without `timeout` replies wait as long as it
    takes; `gone` is called after some left because they had waited too long.
    """

    clock: Clock
    gone: Callable[[], None]
    timeout: ReplyTimeout | None
    passage: Passage | None = None
    _replies: deque[_PendingReply] = field(default_factory=deque)
    _timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._replies)

    def add(self, position: int, replies: bytes, writer: FrameWriter) -> None:
        """Keep a reply until it may leave; where it may already, it does."""
        if self.passage is not None and position <= self.passage.readable():
            writer.send_frames(self.passage.judged(position, replies))
            return
        deadline = 0.0
        if self.timeout is not None:
            seconds = self.timeout.seconds()
            deadline = self.clock.monotonic() + seconds
            if self._timer is None:
                self._timer = self.clock.call_later(seconds, self._expire)
        self._replies.append(_PendingReply(position, replies, writer, deadline))
        writer.replies_pending(len(replies))

    def _expire(self) -> None:
        """Answer in place of replies that waited too long. One timer for all, not moved when replies leave."""
        self._timer = None
        now, timeout = self.clock.monotonic(), self.timeout
        while self._replies and timeout is not None:
            first = self._replies[0]
            if first.deadline > now:
                self._timer = self.clock.call_later(first.deadline - now, self._expire)
                break
            self._replies.popleft()
            first.writer.send_frames(timeout.late(first.position, first.replies))
            first.writer.replies_pending(-len(first.replies))
        self.gone()

    def abort_all(self, reason: str) -> None:
        """Cut off whoever waits: the log will never be readable up to there, and that is how they learn it."""
        while self._replies:
            one = self._replies.popleft()
            one.writer.replies_pending(-len(one.replies))
            one.writer.abort(reason)

    def release(self, readable: int) -> None:
        """Send what waits for positions up to `readable`. A writer that is gone meanwhile drops its own."""
        replies = self._replies
        while replies and replies[0].position <= readable:
            one = replies.popleft()
            one.writer.send_frames(self._leaving(one))
            one.writer.replies_pending(-len(one.replies))

    def _leaving(self, one: _PendingReply) -> bytes:
        return one.replies if self.passage is None else self.passage.judged(one.position, one.replies)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
