"""When a message of a delay level is due, on a clock that may have been set back. Pure: the time is an argument.

A queue entry says store time plus delay. Store times never go down: after a clock that was ahead is set right they stay
where they are until it has caught up, which may take a year. What was stored meanwhile waits its level's delay from the
moment that it was seen, and nothing is delivered before that. `level_delivery.py` asks for each entry that it looks at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

SET_BACK_MS = 1_000  # a clock that goes back by less makes messages late by that
_SHARED_MS = 1_000  # arrivals within this time share a mark: then their delay counts from the last of them


class LevelTimes:
    """Event loop only. `log_ms`: the store time of the newest record; `delay_ms`: of a level, None if there is none."""

    def __init__(self, log_ms: Callable[[], int], delay_ms: Callable[[int], int | None]) -> None:
        self._log_ms = log_ms
        self._delay_ms = delay_ms
        # By level, the newest last: all entries below an offset were there at a time.
        self._seen: dict[int, deque[tuple[int, int]]] = {}

    def arrived(self, level: int, end: int, now_ms: int) -> None:
        """Note that the level's queue has something new, and ends at `end`."""
        if self._is_set_back(now_ms):
            self._note_seen(level, end, now_ms)

    def departed(self, level: int, offset: int) -> None:
        """Forget what was seen below an offset: all of it has departed."""
        seen = self._seen.get(level)
        while seen and seen[0][0] <= offset:
            seen.popleft()

    def is_too_far(self, level: int, due_ms: int, now_ms: int) -> bool:
        """Return whether a due time is too far ahead to be true: the clock was ahead when it was written."""
        delay_ms = self._delay_ms(level)
        return delay_ms is not None and due_ms > now_ms + delay_ms + SET_BACK_MS and self._is_set_back(now_ms)

    def due_ms(self, level: int, offset: int, entry_ms: int, end: int, now_ms: int) -> int:
        """Return when the entry at `offset` is due, which itself says `entry_ms`. `end` is the queue's."""
        if not self.is_too_far(level, entry_ms, now_ms):
            return entry_ms
        return self._seen_ms(level, offset, end, now_ms) + (self._delay_ms(level) or 0)

    def _is_set_back(self, now_ms: int) -> bool:
        return self._log_ms() > now_ms + SET_BACK_MS

    def _seen_ms(self, level: int, offset: int, end: int, now_ms: int) -> int:
        for known, seen_ms in self._seen.get(level, ()):
            if offset < known and seen_ms <= now_ms:
                return seen_ms
        self._note_seen(level, end, now_ms)
        return now_ms

    def _note_seen(self, level: int, end: int, now_ms: int) -> None:
        seen = self._seen.setdefault(level, deque())
        while seen and seen[-1][1] > now_ms:
            seen.pop()  # the clock was set back once more: those times are still to come
        if seen and seen[-1][1] // _SHARED_MS == now_ms // _SHARED_MS:
            seen.pop()
        seen.append((end, now_ms))
