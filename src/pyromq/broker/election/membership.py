"""Which set a master asks for next: without who is gone, with who has caught up, never below the minimum."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from .acting_set import ActingSet


class SetProposal(NamedTuple):
    """A set to ask for. `needs_sync`: first the master syncs its log up to `confirmed`.

    What a leaving replica had acknowledged is then on a medium, wherever the power goes next."""

    in_sync: frozenset[int]
    needs_sync: bool


def next_set(acting: ActingSet, gone: Collection[int], candidates: Collection[int]) -> SetProposal | None:
    """Return the set to ask for; None: the recorded one is right, or nothing better can be had.

    `gone`: replicas that were not heard for longer than the grace time. `candidates`: replicas with a stream that are
    not in the set. A dead member stays rather than that the set falls below its minimum: acknowledgements stop until it
    is back or another replica takes its place, in one change."""
    recorded = acting.state.in_sync
    staying = {replica for replica in recorded if replica == acting.me or replica not in gone}
    joining = {replica for replica in candidates if replica not in recorded and acting.may_join(replica)}
    wanted = staying | joining
    for replica in sorted(recorded - wanted):
        if len(wanted) >= min(acting.state.minimum, len(recorded)):
            break
        wanted.add(replica)
    if wanted == recorded and not acting.is_undecided:
        return None
    return SetProposal(frozenset(wanted), needs_sync=not acting.members <= wanted)
