"""Sends that wait for their answer for long: is their broker's master another one by now?

A machine that is gone, or a master that stands still, answers nothing and ends no connection. If the route names
another master, the session cuts the old connection off, and what waits there is sent to the new one.
"""

from __future__ import annotations

from itertools import count

from ..connect.session import Session

SLOW_S = 1.0
_REREAD_EVERY_S = 0.5


class SlowSends:
    """Event loop only. One per sender; its task runs while something is under way."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._numbers = count()
        self._under_way: dict[int, tuple[str, float]] = {}
        self._is_watched = False

    def begin(self, topic: str, now: float) -> int:
        """Return the number by which the send is ended."""
        number = next(self._numbers)
        self._under_way[number] = topic, now
        if not self._is_watched:
            self._is_watched = True
            self._session.background(self._watch())
        return number

    def end(self, number: int) -> None:
        del self._under_way[number]

    async def _watch(self) -> None:
        clock = self._session.clock
        while self._under_way:
            await clock.sleep(_REREAD_EVERY_S)
            before = clock.monotonic() - SLOW_S
            for topic in {topic for topic, began in self._under_way.values() if began <= before}:
                await self._session.routes.reread(topic, SLOW_S)
        self._is_watched = False
