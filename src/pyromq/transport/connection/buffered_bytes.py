"""Bytes that are kept for peers, over all listeners of a daemon: unfinished frames and requests, answers not read.

Connections report each change. Above the limit somebody has to go: first who has stalled longest, so that a peer whose
frames come to their end and who reads its answers goes on while others fill the memory. Event loop only.
"""

from __future__ import annotations

from itertools import islice
from typing import Protocol

_SEARCHED = 1024  # peers among which one search finds who has to go: a bounded part of a pass of the loop
_AT_ONCE = 64  # connections that are cut off before others have their turn; the next change goes on with it
_LEAST_MARK = 64 << 10  # netty's own high-water mark


class BufferedPeer(Protocol):
    """A connection as it is seen from here."""

    buffered: int
    is_open: bool

    def stalled_since(self) -> float:
        """Return when it began a frame that has not ended, or to leave its answers unread; infinity: neither."""

    def violation(self, event: str, **fields: object) -> None: ...


class BufferedBytes:
    """Invariant: `total` is what is kept for all peers; while it is above `limit`, each change cuts some off."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._peers: dict[BufferedPeer, None] = {}  # in the order in which something was kept for them first
        self._next: list[tuple[float, BufferedPeer]] = []  # who has to go, the next one last, as of the last search
        self._streams = 0

    def change(self, peer: BufferedPeer, change: int) -> None:
        """Count bytes that are kept for a peer, more or fewer; over the limit, cut off who is to blame."""
        self.total += change
        peer.buffered += change
        if change > 0:
            self._peers[peer] = None
            if self.total > self.limit:
                self._cut_off(self.total - self.limit, "too much held for peers")
        elif not peer.buffered:
            self._peers.pop(peer, None)

    def add_stream(self, most: int) -> int:
        """Return the number of unread bytes above which a new stream is not served on: `most` while there are few
        streams, less where all of them together could keep more than is allowed."""
        self._streams += 1
        return min(most, max(_LEAST_MARK, self.limit // (2 * self._streams)))

    def remove_stream(self) -> None:
        self._streams -= 1

    def free_half(self) -> None:
        """Free half of what is kept, by cutting off those who have stalled longest: the process got no memory."""
        self._cut_off(self.total // 2, "no memory: too much is held for peers")

    def _cut_off(self, excess: int, event: str) -> None:
        for _ in range(_AT_ONCE):
            if excess <= 0 or (peer := self._to_blame()) is None:
                return
            excess -= peer.buffered  # what is in work is counted on until that has come to its end
            peer.violation(event, limit="held_bytes", value=self.limit, held=peer.buffered)

    def _to_blame(self) -> BufferedPeer | None:
        """Return who has stalled longest; among those who have not, for whom most is kept."""
        while True:
            if not self._next:
                found = [peer for peer in islice(self._peers, _SEARCHED) if peer.is_open]
                found.sort(key=lambda peer: (peer.stalled_since(), -peer.buffered), reverse=True)
                self._next = [(peer.stalled_since(), peer) for peer in found]
            if not self._next:
                return None
            since, peer = self._next.pop()
            if peer.is_open and peer.buffered and peer.stalled_since() == since:
                return peer
