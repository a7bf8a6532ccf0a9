"""Queue offset by store time, as code 29 answers it. Both kinds of queue use it."""

from __future__ import annotations

from collections.abc import Callable

from ...model.boundary import Boundary

_COARSE_MS = 2  # so close together times do not tell where between two places a third one lies


def search_by_time(low: int, high: int, time_ms: int, boundary: Boundary, time_of: Callable[[int], int | None]) -> int:
    """Search [low, high) for the place that a time means.

    LOWER: the first place not before the time, `high` if all are before it. UPPER: the last place not after the time;
    `high - 1` if all are before it, 0 if all are after it, as Java answers. A place without a time (its record is
    damaged, or it stands for none) counts as its neighbour before it."""
    if low >= high:
        return 0
    if boundary is Boundary.LOWER:
        return _first_from(low, high, time_ms, time_of)
    first = _first_from(low, high, time_ms + 1, time_of)
    return first - 1 if first > low else 0


def _first_from(low: int, high: int, wanted: int, time_of: Callable[[int], int | None]) -> int:
    """Return the first place whose time is not before the wanted one.

    The next place to try is where it would be if messages came evenly; after a try that did not halve what is left it
    is the middle. So an even queue takes a few tries whatever its length, and none twice as many as halving alone."""

    lost_from, lost_until, lost_time = low, low, None  # places that count as one before them: stepped over once alone

    def time_at(place: int) -> int | None:
        nonlocal lost_from, lost_until, lost_time
        at, time = place, None
        while at >= low:
            if lost_from <= at < lost_until:
                at, time = lost_from, lost_time
                break
            time = time_of(at)
            if time is not None:
                break
            at -= 1
        if at < place:
            lost_from, lost_until, lost_time = max(at, low), place + 1, time
        return time

    left, right = low, high - 1
    left_time, right_time = time_at(left), time_at(right)
    if right_time is None or right_time < wanted:
        return high
    if left_time is not None and left_time >= wanted:
        return low
    left += 1  # from here on: places before `left` are before the wanted time, those from `right` on are not
    halve = False
    while left < right:
        span = right - left
        middle = (left + right) // 2
        if not halve and left_time is not None and right_time - left_time > _COARSE_MS:
            # Half a millisecond before: many places may have the wanted time, and the first of them is looked for.
            middle = left + span * (2 * (wanted - left_time) - 1) // (2 * (right_time - left_time))
        time = time_at(middle)
        if time is None or time < wanted:
            left, left_time = middle + 1, time
        else:
            right, right_time = middle, time
        halve = right - left > span // 2
    return left
