"""What a consumer holds of one queue: messages pulled and not done yet, and from that the offset to commit.

The offset is the lowest that is not done, so a crash repeats messages and never skips one. The queue's own tasks call
this on the event loop; there are no awaits here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from ...model.message import StoredMessage

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLimits:
    """Above these, no more is pulled for the queue until handlers have caught up.

    `bytes` are those of the bodies as they are held, decompressed; one more pull may add an eighth and one message.
    """

    messages: int = 1000
    bytes: int = 100 * _MIB
    span: int = 2000  # lowest to highest offset: one stuck message must not let thousands pile up behind it


class ProcessQueue:
    """Messages enter in the order of their offsets, leave in any. After `drop` nothing that is still done counts."""

    def __init__(self, limits: FlowLimits, is_orderly: bool = False) -> None:
        self._limits = limits
        self._is_orderly = is_orderly
        self._open: dict[int, StoredMessage] = {}  # in the order of offsets, since they arrive so
        self._waiting: deque[StoredMessage] = deque()  # of these: not handed to a handler yet
        self.bytes = 0
        self._next = -1  # one past the highest offset ever held
        self.is_dropped = False
        self.times_full = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def room(self) -> int:
        """Return how many bytes one pull may add, at least an eighth of the limit: one message costs as much."""
        return max(self._limits.bytes - self.bytes, self._limits.bytes // 8)

    @property
    def first(self) -> int:
        """Return the lowest open offset; -1 where there is none."""
        return next(iter(self._open), -1)

    @property
    def last(self) -> int:
        return next(reversed(self._open), -1)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(self, messages: Iterable[StoredMessage]) -> None:
        held, wait, size, beyond = self._open, self._waiting.append, self.bytes, self._next
        for message in messages:
            offset = message.queue_offset
            if offset < beyond:
                continue  # a broker that went back; what was handed out once is not handed out again
            held[offset] = message
            wait(message)
            size += len(message.body)
            beyond = offset + 1
        self.bytes, self._next = size, beyond

    def skip_to(self, offset: int) -> None:
        """Expect nothing below this offset: the broker found no match up to it."""
        self._next = max(self._next, offset)

    def take(self, most: int = 1) -> list[StoredMessage]:
        waiting = self._waiting
        if most == 1:  # nearly every handler's
            return [waiting.popleft()] if waiting else []
        return [waiting.popleft() for _ in range(min(most, len(waiting)))]

    def give_back(self, messages: Iterable[StoredMessage]) -> None:
        """Let these wait again, in their places: they were not handled after all."""
        returned = [message for message in messages if message.queue_offset in self._open]
        self._waiting = deque(sorted((*returned, *self._waiting), key=lambda message: message.queue_offset))

    def done(self, messages: Iterable[StoredMessage]) -> None:
        for message in messages:
            if self._open.pop(message.queue_offset, None) is not None:
                self.bytes -= len(message.body)

    def drop(self) -> None:
        """Forget the queue: it belongs to another consumer now, or its offset was set anew."""
        self.is_dropped = True
        self._waiting.clear()

    def commit_offset(self) -> int | None:
        """Return the lowest offset that is not done; None if there was never a message, or the queue was dropped."""
        if self.is_dropped or self._next < 0:
            return None
        return next(iter(self._open), self._next)

    def full(self) -> str | None:
        """Return the limit that stops the pulls, None if none does. Counted, for one log line in a thousand."""
        limits = self._limits
        if len(self._open) > limits.messages:
            reason = f"{len(self._open)} messages, the limit is {limits.messages}"
        elif self.bytes > limits.bytes:
            reason = f"{self.bytes} bytes, the limit is {limits.bytes}"
        elif not self._is_orderly and self._open and self.last - self.first > limits.span:
            reason = f"offsets {self.first} to {self.last} are open, the limit is a span of {limits.span}"
        else:
            return None
        self.times_full += 1
        return reason
