"""What pulls and offset requests must know of popping: a group leaves a queue that it pops before it pulls there."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from ...transport.peer import Peer


class PoppedLanes(Protocol):
    """`broker.pop`: queues that groups pop. Event loop only."""

    def must_see_pulls(self, topic: str, group: str, queue_id: int) -> bool:
        """Return whether the next pull of the queue must come to `leave_for`: the group pops it, or may begin to, and
        nobody knows yet who pulls it."""
        ...

    def leave_for(self, peer: Peer, topic: str, group: str, queue_id: int) -> Awaitable[None] | None:
        """Note that this client pulls the queue, if it is a member of the group: nobody pops it from here on. Then do
        as `leave`."""
        ...

    def leave(self, topic: str, group: str, queue_id: int) -> Awaitable[None] | None:
        """Let what is in flight leave memory, and commit where the next pop would have read. None: nothing to do."""
        ...
