"""How old log files are, on a wall clock that somebody may set: `retention.py` asks before a file goes by its age.

Files tell the time of their last write, the clock tells now, and either may be wrong by years. Nothing here deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from ... import logs
from ...ambient import Clock

log = logs.get("pyromq.store")

_JUMP_MS = 12 * 3_600_000  # a wall clock that goes ahead by more between two looks, beside the time that has passed
_DISTRUST_S = 24 * 3600.0  # for so long no file goes by its age after that: somebody may set the clock right


class LogFile(NamedTuple):
    """A log file as retention sees it."""

    start: int
    end: int
    modified_ms: int


def times_written(files: Sequence[LogFile], now_ms: int) -> list[int]:
    """Return when each file was written last, on a clock that somebody may have set.

    No file counts as younger than one behind it or older than one before it, and no time lies in the future."""
    latest, written = now_ms, list[int]()
    for file in reversed(files):
        latest = file.modified_ms if file.modified_ms <= now_ms else latest
        written.append(latest)
    return list(accumulate(reversed(written), max))


class ClockJumps:
    """Event loop only. Notices a wall clock that runs ahead of the time that passes, as after the machine slept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_ms, self._at = clock.now_ms(), clock.monotonic()
        self._trusted_at = self._at

    def trusts_the_clock(self) -> bool:
        wall_ms, at = self._clock.now_ms(), self._clock.monotonic()
        ahead_ms = wall_ms - self._wall_ms - (at - self._at) * 1000
        self._wall_ms, self._at = wall_ms, at
        if ahead_ms > _JUMP_MS:
            self._trusted_at = at + _DISTRUST_S
            log.warning(
                "the clock was set ahead: for a day no log file goes by its age. If the clock is wrong, set it right",
                ahead_s=round(ahead_ms / 1000),
            )
        elif ahead_ms < -_JUMP_MS:
            self._trusted_at = at  # it was set right
        return at >= self._trusted_at
