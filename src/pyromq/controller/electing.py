"""Who becomes master of a set: Java's policy, without I/O. docs/controller.md says what it may cost.

The in-sync set of a new epoch is its master alone, as Java's brokers expect it: others join when they have caught up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ..errors import RequestRefused
from ..model.codes import ResponseCode as Code
from .replica_set import NO_EPOCH, ReplicaSet
from .rules import IsAlive

ANYBODY = -1


class LogEnd(NamedTuple):
    """How far a replica is, by its own word, and how much its operator wants it as master: smaller is more."""

    epoch: int
    end: int
    priority: int


class Candidates(NamedTuple):
    """What the controller knows of the replicas of a set when it elects.

    `heard`: those whose broker was heard lately. `may_live` counts those too of whom nothing can be known yet, since
    the controller has just begun: a master is not replaced because it had no time to speak."""

    heard: Mapping[int, LogEnd]
    may_live: IsAlive


def master_of(
    found: ReplicaSet | None, name: str, candidates: Candidates, *, asker: int, designated: bool, unclean: bool
) -> int | None:
    """Return who is master now, which may be who was; None: nobody can be.

    `asker`: the broker that asks for an election, or that an administrator wants (`designated`)."""
    if found is None:
        raise RequestRefused("Broker hasn't been registered", Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
    if found.epoch == NO_EPOCH and asker != ANYBODY:
        if asker not in found.replicas:
            raise RequestRefused(
                f"BrokerId: {asker} hasn't been registered in broker-set: {name}",
                Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
            )
        return asker
    wanted = asker if designated else None
    chosen = _choose(found, found.in_sync, candidates, wanted)
    if chosen is None and unclean:
        chosen = _choose(found, found.replicas.keys(), candidates, wanted)
    return chosen


def _choose(found: ReplicaSet, among: Collection[int], candidates: Candidates, wanted: int | None) -> int | None:
    stays = found.master in among and found.master is not None and candidates.may_live(found.master)
    if stays and wanted in (None, found.master):
        return found.master
    heard = {replica: end for replica, end in candidates.heard.items() if replica in among}
    if wanted is not None:
        return wanted if wanted in heard else None
    if not heard:
        return None
    return min(
        heard, key=lambda replica: (-heard[replica].epoch, -heard[replica].end, heard[replica].priority, replica)
    )


def led_by(found: ReplicaSet, master: int, *, now_ms: int, why: str) -> ReplicaSet:
    """Return the set with a new master, in the next epoch."""
    return found.changed(
        epoch=found.epoch + 1,
        master=master,
        in_sync=frozenset({master}),
        set_epoch=found.set_epoch + 1,
        switched_ms=now_ms,
        switched_why=why,
    )


def led_by_nobody(found: ReplicaSet, *, now_ms: int, why: str) -> ReplicaSet:
    """Return the set without its master, which is gone: the in-sync set stays, and with it who may be elected."""
    return found.changed(epoch=found.epoch + 1, master=None, switched_ms=now_ms, switched_why=why)
