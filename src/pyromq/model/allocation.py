"""How the queues of a topic are shared out among the members of a group: Java's two strategies that brokers know too.

Consumers compute their own share with these, and brokers that assign queues compute it for them: both must agree, also
with Java's. Both lists are sorted and the same for every member. Generic, so that whatever is a queue can be shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Q = TypeVar("Q")

AVERAGE = "AVG"
BY_CIRCLE = "AVG_BY_CIRCLE"


def average(member: str, queues: Sequence[Q], members: Sequence[str]) -> list[Q]:
    """Give each member a contiguous block; the first (queues mod members) members get one more."""
    if member not in members:
        return []
    place = members.index(member)
    share, extra = divmod(len(queues), len(members))
    begin = place * share + min(place, extra)
    return list(queues[begin : begin + share + (place < extra)])


def average_by_circle(member: str, queues: Sequence[Q], members: Sequence[str]) -> list[Q]:
    """Give queue i to member i mod members."""
    return list(queues[members.index(member) :: len(members)]) if member in members else []


def by_name(strategy: str | None) -> Callable[[str, Sequence[Q], Sequence[str]], list[Q]] | None:
    """Return the strategy with Java's name for it; None if brokers know none of that name."""
    return average if strategy == AVERAGE else average_by_circle if strategy == BY_CIRCLE else None
