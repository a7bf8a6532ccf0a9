"""When a master stops being one, and when it stops answering reads."""

from __future__ import annotations

from collections.abc import Collection

from .acting_set import ActingSet
from .set_state import SetState


def is_deposed(me: int, epoch: int, read: SetState | None) -> bool:
    """Return whether a state that was read ends this master's time: it is another epoch's, another's, or gone.

    A change that ends in a conflict is no answer by itself: an earlier one of our own may have come late. The state is
    read then, and this decides."""
    return read is None or read.epoch > epoch or (read.epoch == epoch and read.master != me)


def should_stop_reads(acting: ActingSet, heard: Collection[int], *, lease_over_s: float, ttl_s: float) -> bool:
    """Return whether a master that seems to be cut off tells its consumers to look elsewhere.

    `heard`: replicas whose stream lives. While the whole set is heard nobody else can have been elected, whatever the
    lease says. This is comfort: what it would answer is true, only old."""
    others = acting.members - {acting.me}
    return lease_over_s > ttl_s and not others <= set(heard)
