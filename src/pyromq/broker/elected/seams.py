"""What a member of an elected set stands on: its own log, and the stream of a master.

`tests/simulation` has its own, on virtual time with an abstract log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ...errors import ConnectionLost
from ...protocol.replication.epochs import EpochList
from ..election.amnesia import BootNote


class MasterRefuses(ConnectionLost):
    """Nobody listens where the master was: its process is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Seconds. None of them has to be right for anything to be safe."""

    ttl_s: float = 3.0  # of the lease
    renewal_s: float = 1.0  # between two signs of life to the coordination store
    silence_s: float = 1.5  # of a stream, then it counts as ended
    missed_s: float = 1.5  # without a stream of a master that was followed, then it is missed
    grace_s: float = 1.0  # without a word of a follower, then it is taken out of the in-sync set
    heartbeat_s: float = 0.3  # without a word on a stream, then one that says nothing new
    refused_s: float = 1.0  # for which a port that refused says that the master is gone
    rank_s: float = 0.3  # that a candidate waits for each member that has more of the log
    least_pause_s: float = 0.05  # between two looks at what is to be done
    most_pause_s: float = 0.2


class FollowedStream(Protocol):
    """The stream of a master that has answered the handshake; nothing was reported on it yet."""

    @property
    def epoch(self) -> int: ...

    @property
    def epochs(self) -> EpochList:
        """Return the epochs of the master's log."""
        ...

    @property
    def end(self) -> int:
        """Return where the master's log ended when it answered."""
        ...

    async def follow(self, is_followed: Callable[[], bool], heard: Callable[[], None]) -> None:
        """Report, take what comes, report that; until the stream ends or `is_followed` says no.

        `heard` is called when something came, behind taking it. Raises PyroError for a stream that has to end."""
        ...

    def close(self) -> None: ...


class ReplicaLog(Protocol):
    """One replica's log, with what is noted beside it. Event loop only."""

    @property
    def end(self) -> int:
        """Return where the log's last whole record ends."""
        ...

    @property
    def synced(self) -> int: ...

    @property
    def readable(self) -> int:
        """Return up to where this replica knows the log to be confirmed."""
        ...

    @property
    def epochs(self) -> EpochList: ...

    @property
    def note(self) -> BootNote: ...

    @property
    def acks_synced(self) -> bool:
        """Return whether a record counts here once it is synced, not before."""
        ...

    def save_note(self, note: BootNote) -> None:
        """Save it durably."""
        ...

    async def sync(self) -> None:
        """Put the log on its medium, as far as it goes now."""
        ...
