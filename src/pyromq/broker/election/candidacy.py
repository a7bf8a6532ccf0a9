"""Whether a replica may make itself master now, and the state that it asks for then.

Safety is in four sentences: only a member of the recorded set campaigns; it closed its stream from the old master
before; it synced its log before, since members that it leaves out may be the only others that have what is in it; the
change compares the version of the state that it has read. Everything else here is about when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from .set_state import SetState


class ReplicaSeen(NamedTuple):
    """What a replica says of itself under its lease: the newest epoch and the end of its log.

    `misses`: the epoch whose master it followed and hears no more; 0: none.
    An amnesiac one that says so with `stands` promises that its log has no more than this. Before it follows anybody
    it writes an entry without that, and goes on only when that is done; before it leads, in the change that makes it
    master. Otherwise an entry from before would be taken for all that it has."""

    epoch: int
    end: int
    is_amnesiac: bool = False
    stands: bool = False
    misses: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignView:
    """What a replica knows when it thinks of campaigning.

    `hears_master`: bytes of the master's stream came within the time of a lease. `master_is_gone`: its key `leader` is
    gone, or its stream ended and its port refuses, or all miss it (`is_missed`). `own` is what `alive` has of this
    replica, as it is now."""

    me: int
    own: ReplicaSeen
    state: SetState
    alive: Mapping[int, ReplicaSeen]
    hears_master: bool
    master_is_gone: bool


def refusal(view: CampaignView) -> str | None:
    """Return why this replica does not campaign now; None: it may.

    A replica that the state names as master, without leading, campaigns too: it was restarted, or its change came to
    the store late. An epoch is never resumed: the log may have lost an end that others have under the same epoch."""
    if view.me not in view.state.in_sync:
        return "this replica is not in the in-sync set"
    if view.state.master != view.me:
        if view.hears_master:
            return "the master's stream is heard"
        if not view.master_is_gone:
            return "nothing says that the master is gone"
    if view.own.is_amnesiac:
        return _amnesiac_refusal(view)
    return None


def is_missed(state: SetState, alive: Mapping[int, ReplicaSeen]) -> bool:
    """Return whether all members that are there miss the master of this epoch, and would be enough without it.

    Its lease may last long after its end: leases begin anew when etcd itself elects a leader, which it has to if the
    machine that died had that, too. A member that never heard the master counts against it, so a master whose broker
    is still being opened is waited for."""
    there = [alive[replica] for replica in state.in_sync - {state.master} if replica in alive]
    return len(there) >= state.minimum and all(seen.misses == state.epoch for seen in there)


def _amnesiac_refusal(view: CampaignView) -> str | None:
    """Return why a replica that lost an acknowledged end may not lead: unless all members did, and it has the most.

    The change must expect the versions of the entries of all members: one that follows again has another."""
    others = {replica: view.alive.get(replica) for replica in sorted(view.state.in_sync - {view.me})}
    missing = [replica for replica, seen in others.items() if seen is None]
    if missing:
        return f"this replica may have lost what it acknowledged, and {missing} may have it"
    whole = [replica for replica, seen in others.items() if seen and not (seen.is_amnesiac and seen.stands)]
    if whole:
        return f"this replica may have lost what it acknowledged, and {whole} may have it"
    mine = (view.own.epoch, view.own.end, -view.me)
    better = [replica for replica, seen in others.items() if seen and (seen.epoch, seen.end, -replica) > mine]
    return f"all members may have lost what they acknowledged, and {better} has more" if better else None


def campaign_rank(view: CampaignView) -> int:
    """Return how many members should come first: those with more of the log. It only spares them a conflict."""
    mine = (view.own.epoch, view.own.end, -view.me)
    return sum(
        (seen.epoch, seen.end, -replica) > mine and not seen.is_amnesiac
        for replica, seen in view.alive.items()
        if replica in view.state.in_sync and replica not in (view.me, view.state.master)
    )


def elected_state(view: CampaignView, now_ms: int) -> SetState:
    """Return the state that makes this replica master: the next epoch, with the members that are there.

    Members that are kept are safe: each has all that was acknowledged, and acknowledges nothing to the new master
    before it has cut its log to the new master's. Beginning with itself alone would make one more death an outage. The
    old master is gone, though its entry may still be there: with it in the set, nothing would be acknowledged for the
    time after which a dead member is taken out."""
    there = {
        replica
        for replica in view.state.in_sync - {view.state.master}
        if (seen := view.alive.get(replica)) is not None and not seen.is_amnesiac
    } | {view.me}

    def comes_late(replica: int) -> tuple[bool, bool, int]:
        """Return the order in which members that are away fill the set up: those that will be there soonest first."""
        return replica in view.alive and view.alive[replica].is_amnesiac, replica == view.state.master, replica

    for replica in sorted(view.state.in_sync - there, key=comes_late):
        if len(there) >= view.state.minimum:
            break
        there.add(replica)
    return SetState(
        epoch=view.state.epoch + 1,
        master=view.me,
        in_sync=frozenset(there),
        minimum=view.state.minimum,
        set_epoch=view.state.set_epoch + 1,
        written_by=view.me,
        written_ms=now_ms,
        elected_ms=now_ms,
    )


def founding_state(me: int, minimum: int, now_ms: int) -> SetState:
    """Return the first state of a set, for a key that is absent. Others join when they have caught up.

    Until they are as many as the minimum, sends are refused: nothing is acknowledged that one replica alone has."""
    return SetState(
        epoch=1,
        master=me,
        in_sync=frozenset({me}),
        minimum=minimum,
        written_by=me,
        written_ms=now_ms,
        elected_ms=now_ms,
    )
