"""How far a group is behind, and what would help: more consumers, more queues, or none of them. Pure.

A queue is pulled by one member of a group at a time, so that members beyond the number of queues have nothing to do.
Groups that pop share messages, not queues: any number of members helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A group on one topic. Rates are messages a second."""

    queues: int
    members: int
    lag: int
    arriving: float = 0.0
    consuming: float = 0.0
    is_broadcast: bool = False
    is_popped: bool = False  # and not in order, which a queue would limit again
    lock_wait: str = ""  # queues that wait until the lock of a member that was killed ends


class Advice(NamedTuple):
    """`more` consumers would help; `text` says why, or what would help instead."""

    more: int
    text: str


def advise(load: Load) -> Advice:
    if load.is_broadcast:
        return Advice(0, "it broadcasts: each member gets everything, more of them do not share the work")
    if load.lag <= 0:
        return Advice(0, "nothing waits")
    if load.is_popped:
        return _advise_poppers(load)
    spare = max(0, load.queues - load.members)
    if load.members == 0:
        words = f"up to {load.queues} consumers share the {load.queues} queues"
        return Advice(min(1, spare), f"nobody consumes: start it; {words}")
    if load.lock_wait:
        return Advice(0, f"{load.lock_wait}; more consumers would not change that")
    if spare == 0:
        words = f"more consumers do not help: {load.members} share {load.queues} queues"
        return Advice(0, f"{words}. More queues do: pyromq topic update --queues, or topic forward for this backlog")
    if (needed := _to_keep_up(load)) > 0:
        words = _rates(load)
        limit = f"up to {spare} more make it quicker"
        if needed > spare:
            limit = f"the {load.queues} queues have room for {spare}"
        return Advice(spare, f"{words}: {needed} more would keep up, {limit}")
    return Advice(spare, f"up to {spare} more consumers would help ({load.members} share {load.queues} queues)")


def _advise_poppers(load: Load) -> Advice:
    shared = "it pops, so that any number of consumers share the messages of a queue"
    if load.members == 0:
        return Advice(1, f"nobody consumes: start it; {shared}")
    if (needed := _to_keep_up(load)) > 0:
        return Advice(needed, f"{_rates(load)}: {needed} more would keep up; {shared}")
    return Advice(1, f"more consumers would help: {shared} ({load.members} do now)")


def _to_keep_up(load: Load) -> int:
    """Return how many more consumers it takes, as quick as those there are, for as much as comes."""
    return ceil(load.arriving / (load.consuming / load.members)) - load.members if load.consuming > 0 else 0


def _rates(load: Load) -> str:
    return f"{load.arriving:.0f}/s come, {load.members} consumers do {load.consuming:.0f}/s"
