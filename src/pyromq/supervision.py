"""Keeps a daemon's loops running: one that raises is logged, waits a while and begins again, and the others go on.

The composition roots of broker and name server hand their loops in by name. What a loop does is its own business, and
so is a fault of one record, which it puts aside. Nothing here ends a process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from . import logs
from .ambient import Clock

FIRST_PAUSE_S = 1.0
LAST_PAUSE_S = 60.0


class LoopFault(NamedTuple):
    """How often a loop has died, and of what the last time."""

    times: int
    why: str


class Loops:
    """Event loop only. `faults` is by name of the loop, of those that have died at all."""

    def __init__(self, clock: Clock, log: logs.EventLog) -> None:
        self._clock = clock
        self._log = log
        self.faults: dict[str, LoopFault] = {}

    @property
    def restarts(self) -> int:
        return sum(one.times for one in self.faults.values())

    async def keep(self, name: str, begin: Callable[[], Awaitable[None]]) -> None:
        """Run a loop until it returns or is cancelled. After a fault it begins again: soon, and less soon each time
        that it dies young."""
        pause = FIRST_PAUSE_S
        while True:
            begun = self._clock.monotonic()
            try:
                await begin()
            except Exception as fault:
                if self._clock.monotonic() - begun > LAST_PAUSE_S:
                    pause = FIRST_PAUSE_S
                self._note(name, fault, pause)
            else:
                return
            await self._clock.sleep(pause)
            pause = min(LAST_PAUSE_S, pause * 2)

    def _note(self, name: str, fault: Exception, pause: float) -> None:
        known = self.faults.get(name, LoopFault(0, ""))
        self.faults[name] = LoopFault(known.times + 1, f"{type(fault).__name__}: {fault}"[:500])
        self._log.exception("a loop has died and begins again", loop=name, times=known.times + 1, in_s=pause)
