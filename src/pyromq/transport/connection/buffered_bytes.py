"""Bytes that are held for peers, over all listeners of a daemon: unfinished frames and requests, answers not read.

Connections tell each change. Above the limit somebody has to go: first who has stalled longest, so that a peer whose
frames come to their end and who reads its answers goes on while others fill the memory. Event loop only.
"""

from __future__ import annotations

from itertools import islice
from typing import Protocol

_LOOKED_AT = 1024  # holders that one search for who has to go looks at: a bounded part of a pass of the loop
_AT_ONCE = 64  # connections that are cut off before others have their turn; the next change goes on with it
_LEAST_MARK = 64 << 10  # netty's own high-water mark


class Holder(Protocol):
    """A connection as it is seen from here."""

    held: int
    is_open: bool

    def stalled_since(self) -> float:
        """When it began to send a frame that has not ended, or to leave its answers unread; infinity: it does not."""
        ...

    def violation(self, event: str, **fields: object) -> None: ...


class BufferedBytes:
    """Invariant: `total` is what the holders hold together; while it is above `limit`, each change cuts some off."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._holders: dict[Holder, None] = {}  # in the order in which they began to hold something
        self._next: list[tuple[float, Holder]] = []  # who has to go, the next one last, as found by the last search
        self._streams = 0

    def change(self, holder: Holder, change: int) -> None:
        """Count bytes that a connection holds more or fewer; over the limit, cut off who is to blame."""
        self.total += change
        holder.held += change
        if change > 0:
            self._holders[holder] = None
            if self.total > self.limit:
                self._cut_off(self.total - self.limit, "too much held for peers")
        elif not holder.held:
            self._holders.pop(holder, None)

    def joined(self, most: int) -> int:
        """A stream begins. Returns the number of unread bytes above which it is not served on: `most` while there are
        few, less where all of them together could hold more than is allowed."""
        self._streams += 1
        return min(most, max(_LEAST_MARK, self.limit // (2 * self._streams)))

    def left(self) -> None:
        self._streams -= 1

    def shed(self) -> None:
        """The process got no memory: half of what is held goes, by those who have stalled longest."""
        self._cut_off(self.total // 2, "no memory: too much is held for peers")

    def _cut_off(self, excess: int, event: str) -> None:
        for _ in range(_AT_ONCE):
            if excess <= 0 or (holder := self._to_blame()) is None:
                return
            excess -= holder.held  # what is in work is counted on until that has come to its end
            holder.violation(event, limit="held_bytes", value=self.limit, held=holder.held)

    def _to_blame(self) -> Holder | None:
        """Who has stalled longest; among those who have not, who holds most."""
        while True:
            if not self._next:
                found = [holder for holder in islice(self._holders, _LOOKED_AT) if holder.is_open]
                found.sort(key=lambda holder: (holder.stalled_since(), -holder.held), reverse=True)
                self._next = [(holder.stalled_since(), holder) for holder in found]
            if not self._next:
                return None
            since, holder = self._next.pop()
            if holder.is_open and holder.held and holder.stalled_since() == since:
                return holder
