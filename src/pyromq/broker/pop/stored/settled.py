"""Which messages of check points that are not in the table are settled: a change of those would bring them back.

Every check point that leaves the table is noted here, with what was open of it, and so is every ack and change from
then on. So one of an open lane that is neither in the table nor here was settled in the table, or given again, if it
was popped since `since_ms`. The oldest are forgotten beyond a limit, and all at a stop: of what was popped before that
nothing is known. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from ..seams import HandedOut

MOST_POINTS = 16_384  # some hundred bytes each

_Key: TypeAlias = tuple[str, str, int, int, int]


@dataclass(slots=True, eq=False, repr=False)
class Settled:
    """Event loop only."""

    since_ms: int  # of the pop times of which all is known
    most: int = MOST_POINTS
    # By check point: its settled messages, and the check point that each was changed to; None: it was acknowledged.
    _points: dict[_Key, dict[int, HandedOut | None]] = field(default_factory=dict)

    def left(self, point: HandedOut, settled: Iterable[int]) -> None:
        """Note a check point that is stored from now on, and what was settled of it before."""
        self._of(point).update(dict.fromkeys(settled))

    def acked(self, point: HandedOut, offsets: Iterable[int]) -> None:
        """Note what is acknowledged of a stored check point."""
        self._of(point).update(dict.fromkeys(offsets))

    def changed(self, point: HandedOut, offset: int, after: HandedOut) -> None:
        """Note that a message has another check point."""
        self._of(after)
        self._of(point)[offset] = after

    def unchanged(self, point: HandedOut, offset: int) -> None:
        """Take back what `changed` said: the new check point could not be stored."""
        self._of(point).pop(offset, None)

    def current(self, point: HandedOut, offset: int, *, is_lane_open: bool) -> HandedOut | None:
        """Return the check point that has the message now, as far as that is known; None: it is settled."""
        found: HandedOut | None = point
        while found is not None:
            settled = self._points.get(_key(found))
            if settled is None:
                return None if is_lane_open and found.pop_time > self.since_ms else found
            if offset not in settled:
                return found
            found = settled[offset]
        return None

    def _of(self, point: HandedOut) -> dict[int, HandedOut | None]:
        key = _key(point)
        found = self._points.get(key)
        if found is None:
            found = self._points[key] = {}
            if len(self._points) > self.most:
                oldest = next(iter(self._points))
                del self._points[oldest]
                self.since_ms = max(self.since_ms, oldest[-1])
        return found


def _key(point: HandedOut) -> _Key:
    """Return what names a check point; requests leave out the rest of it now and then."""
    return point.group, point.topic, point.queue_id, point.start, point.pop_time
