"""Requests that held the event loop for too long: which, how often, and for how long at most.

Stands around the handlers of a server; name server and broker make one each. Of a handler that awaits, each stretch
between two awaits counts by itself. What a kernel serves does not pass here: it costs those requests nothing. By the
clock, so a stretch that waited for a disk or for another thread counts too: everybody else waited with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from ... import logs
from ...ambient import Clock
from ..dispatch import Answer, Handler, Reply, Request
from .stretches import Stretches

log = logs.get("pyromq.transport")


@dataclass(slots=True)
class Hold:
    code: int
    times: int = 0
    longest_ms: float = 0.0


class LoopHolds:
    """Event loop only. At most one entry for each code that has a handler."""

    def __init__(self, clock: Clock, limit_ms: int) -> None:
        """`limit_ms`: longer than this is too long (`Limits.loop_hold_ms`)."""
        self._monotonic = clock.monotonic
        self._limit_ms = limit_ms
        self._limit_s = limit_ms / 1000
        self._warn = logs.Limited(log, clock)
        self._holds: dict[int, Hold] = {}

    @property
    def total(self) -> int:
        return sum(hold.times for hold in self._holds.values())

    def all(self) -> list[Hold]:
        """Return all holds, the longest first."""
        return sorted(self._holds.values(), key=lambda hold: -hold.longest_ms)

    def around(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        return {code: self._watched(code, handler) for code, handler in handlers.items()}

    def _watched(self, code: int, handler: Handler) -> Handler:
        monotonic, note = self._monotonic, partial(self._note, code)

        def watched(request: Request) -> Answer:
            begun = monotonic()
            try:
                answer = handler(request)
            finally:
                note(monotonic() - begun)
            return answer if answer is None or isinstance(answer, Reply) else Stretches(answer, monotonic, note)

        return watched

    def _note(self, code: int, took_s: float) -> None:
        if took_s <= self._limit_s:
            return
        hold = self._holds.setdefault(code, Hold(code))
        hold.times += 1
        took_ms = took_s * 1000
        hold.longest_ms = max(hold.longest_ms, took_ms)
        self._warn.warning(
            "a request held the event loop", code=code, ms=round(took_ms, 1), limit="loopHoldMs", value=self._limit_ms
        )
