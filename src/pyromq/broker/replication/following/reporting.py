"""When a replica reports to its master, and when the master has been silent for too long. Moments in, reports out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False, repr=False)
class Reporting:
    """Of one stream. `reached` says up to where this replica has the log, as far as it answers for it."""

    reached: Callable[[], int]
    encode: Callable[[int], bytes]
    heartbeat_s: float  # a report leaves at least so often (haSendHeartbeatInterval)
    silence_s: float  # without a byte for so long the master is gone (haHousekeepingInterval)
    _reported: int = field(default=-1, init=False)
    _report_due: float = field(default=float("inf"), init=False)
    _silent_at: float = field(default=0.0, init=False)

    def hear(self, now: float) -> None:
        """Note that something came of the master, or that it begins to be waited for."""
        self._silent_at = now + self.silence_s

    def first(self, position: int, now: float) -> bytes:
        """Return the first report, which says where the master begins."""
        self._reported = position
        self._report_due = now + self.heartbeat_s
        return self.encode(position)

    def next(self, now: float) -> bytes:
        """Return the report that is to leave now: the log has grown, or it is time to say that this replica lives."""
        reached = max(self.reached(), self._reported)
        return self.first(reached, now) if reached > self._reported or now >= self._report_due else b""

    def is_silent(self, now: float) -> bool:
        return now >= self._silent_at

    @property
    def due(self) -> float:
        """Return when to look again: a report is due then, or the master has been silent for too long."""
        return min(self._report_due, self._silent_at)
