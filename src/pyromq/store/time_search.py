"""Queue offset by store time, as code 29 answers it. Both kinds of queue use it."""

from __future__ import annotations

from collections.abc import Callable

from .queue import Boundary


def search_by_time(low: int, high: int, time_ms: int, boundary: Boundary, time_of: Callable[[int], int | None]) -> int:
    """LOWER: the first place in [low, high) not before the time, `high` if all are before it.

    UPPER: the last place not after the time; `high - 1` if all are before it, 0 if all are after it, as Java answers.
    A place without a time (its record is damaged, or it stands for none) counts as its neighbour before it.
    """
    if low >= high:
        return 0

    def is_before(place: int) -> bool:
        while place >= low:
            time = time_of(place)
            if time is not None:
                return time < time_ms if boundary is Boundary.LOWER else time <= time_ms
            place -= 1
        return True

    left, right = low, high
    while left < right:
        middle = (left + right) // 2
        if is_before(middle):
            left = middle + 1
        else:
            right = middle
    if boundary is Boundary.LOWER:
        return left
    return left - 1 if left > low else 0
