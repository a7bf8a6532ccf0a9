"""In which order a pop looks through the queues of a topic and of its retry topic. Pure: chance is an argument.

One number of 0 to 99 decides everything of a request, as in Java: whether the retry topic comes first, which form of it
is read, and at which queue to begin.
"""

from __future__ import annotations

from collections.abc import Iterable

CHANCES = 100


def queues(queue_id: int, count: int, chance: int, ascending: bool = True) -> Iterable[int]:
    """Return the queues to look into: the one that was asked for, or all of them (a negative number) once.

    `ascending`: priorityOrderAsc, by which the higher number is the more urgent one and comes first for chance 0.
    """
    if queue_id >= 0:
        return (queue_id,)
    if ascending:
        return ((count - 1 - at + chance) % count for at in range(count))
    return ((at + chance) % count for at in range(count))


def retry_comes_first(chance: int, percent: int) -> bool:
    return chance < percent


def reads_first_form(chance: int, v2: bool, also_v1: bool) -> bool:
    """Return whether the retry topic of the first form is read, by `enableRetryTopicV2` and what is said of V1 then.

    With both in use each is read by half of the requests.
    """
    return not v2 or (also_v1 and chance % 2 == 0)
