"""Sends that wait for their answer for long: is their broker's master another one by now?

A machine that is gone, or a master that stands still, answers nothing and ends no connection. If the route names
another master, the session cuts the old connection off, and what waits there is sent to the new one.
"""

from __future__ import annotations

from itertools import count

from ..connect.session import Session

SLOW_S = 1.0
DOUBTED_SLOW_S = 0.1  # where the last answer of a broker of the topic did not come at all
_REREAD_EVERY_S = 0.5


class SlowSends:
    """Event loop only. One per sender; its task runs while something is under way."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._numbers = count()
        self._under_way: dict[int, tuple[str, float]] = {}
        self._doubted: set[str] = set()  # topics of which a send was not answered in time, and none was since
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
        """Note that nothing is waited for any more, whatever became of it."""
        del self._under_way[number]

    def doubt(self, topic: str) -> None:
        """Note that an answer did not come in time: the next sends of this topic may wait in vain, too."""
        self._doubted.add(topic)

    def answered(self, topic: str) -> None:
        if self._doubted:
            self._doubted.discard(topic)

    async def _watch(self) -> None:
        clock = self._session.clock
        while self._under_way:
            await clock.sleep(DOUBTED_SLOW_S if self._doubted else _REREAD_EVERY_S)
            now = clock.monotonic()
            for topic in {topic for topic, began in self._under_way.values() if now - began >= self._slow_s(topic)}:
                await self._session.routes.reread(topic, SLOW_S)
        self._is_watched = False

    def _slow_s(self, topic: str) -> float:
        return DOUBTED_SLOW_S if topic in self._doubted else SLOW_S
