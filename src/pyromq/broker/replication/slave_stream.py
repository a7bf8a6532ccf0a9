"""A slave's end of one classic stream: what the master sends goes to the log, what is here is reported.

Bytes and moments in, reports out: no socket, no clock. `follower.py` has both, and makes one of these per connection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...protocol.replication.classic import ChunkReader, encode_report
from ...store.log.following import Following, NotFollowed


@dataclass(slots=True, eq=False, repr=False)
class SlaveStream:
    """Event loop only. `reached` says up to where this slave has the log, as far as it answers for it."""

    following: Following
    reached: Callable[[], int]
    heartbeat_s: float  # a report leaves at least so often (haSendHeartbeatInterval)
    silence_s: float  # without a byte for so long the master is gone (haHousekeepingInterval)
    _reader: ChunkReader = field(default_factory=ChunkReader, init=False)
    _reported: int = field(default=-1, init=False)
    _report_due: float = field(default=0.0, init=False)
    _silent_at: float = field(default=0.0, init=False)

    def begin(self, now: float) -> bytes:
        """Return the first report, which says where the master begins: at this log's end."""
        self.following.restart()
        self._silent_at = now + self.silence_s
        return self._report(self.following.position, now)

    def receive(self, data: bytes, now: float) -> None:
        """Take what came. NotFollowed, ProtocolError or an error of the store: this stream has to end."""
        self._silent_at = now + self.silence_s
        for chunk in self._reader.receive(data):
            if chunk.data:
                self.following.take(chunk.position, chunk.data)
            elif chunk.position != self.following.position:
                raise NotFollowed(f"the master is at {chunk.position}, this log at {self.following.position}")

    def report(self, now: float) -> bytes:
        """Return the report that is to leave now: the log has grown, or it is time to say that this slave lives."""
        reached = max(self.reached(), self._reported)
        return self._report(reached, now) if reached > self._reported or now >= self._report_due else b""

    def _report(self, position: int, now: float) -> bytes:
        self._reported = position
        self._report_due = now + self.heartbeat_s
        return encode_report(position)

    def is_silent(self, now: float) -> bool:
        return now >= self._silent_at

    @property
    def due(self) -> float:
        """Return when to look again: a report is due then, or the master has been silent for too long."""
        return min(self._report_due, self._silent_at)
