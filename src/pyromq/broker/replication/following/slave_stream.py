"""A slave's end of one classic stream: what the master sends goes to the log, what is here is reported.

Bytes and moments in, reports out: no socket, no clock. `follower.py` has both, and makes one of these per connection.
"""

from __future__ import annotations

from collections.abc import Callable

from ....protocol.replication.classic import ChunkReader, encode_report
from ....store.log.following import Following, NotFollowed
from .reporting import Reporting


class SlaveStream:
    """Event loop only. `reached` says up to where this slave has the log, as far as it answers for it."""

    def __init__(self, following: Following, reached: Callable[[], int], heartbeat_s: float, silence_s: float) -> None:
        self.following = following
        self.reporting = Reporting(reached, encode_report, heartbeat_s, silence_s)
        self._reader = ChunkReader()

    def begin(self, now: float) -> bytes:
        """Return the first report, which says where the master begins: at this log's end."""
        self.following.restart()
        self.reporting.hear(now)
        return self.reporting.first(self.following.position, now)

    def receive(self, data: bytes, now: float) -> None:
        """Take what came. NotFollowed, ProtocolError or an error of the store: this stream has to end."""
        self.reporting.hear(now)
        for chunk in self._reader.receive(data):
            if chunk.data:
                self.following.take(chunk.position, chunk.data)
            elif chunk.position != self.following.position:
                raise NotFollowed(f"the master is at {chunk.position}, this log at {self.following.position}")

    def report(self, now: float) -> bytes:
        """Return the report that is to leave now; empty: none is."""
        return self.reporting.next(now)
