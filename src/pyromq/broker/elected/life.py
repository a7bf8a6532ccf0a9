"""The seam between a member and the broker that serves its log in the present role: a role change is another life."""

from __future__ import annotations

from typing import Protocol

from ..election.joining import LogCut
from .mastership import Mastership
from .seams import FollowedStream, ReplicaLog


class Life(ReplicaLog, Protocol):
    """One replica's disk, and the broker that serves it. Event loop only."""

    async def connect(self, master: int, epoch: int) -> FollowedStream:
        """Connect to a replica that is said to lead this epoch. Raises MasterRefuses, or another PyroError."""
        ...

    async def cut(self, cut: LogCut) -> None:
        """Cut the log durably, before anything of it is reported."""
        ...

    async def begin_epoch(self, epoch: int) -> None:
        """End the follower's life, and put the epoch's entry on the medium: it begins at the log's end."""
        ...

    async def lead(self, mastership: Mastership) -> None:
        """Serve as its master. It may be deposed meanwhile."""
        ...

    async def give_way(self) -> None:
        """End what is left of a master's life: nothing is appended or answered any more. Then serve as a follower."""
        ...
