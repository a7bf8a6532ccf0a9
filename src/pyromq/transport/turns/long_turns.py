"""Long turns wait for short ones: who has little to say is answered soon, however much others have.

A pass of the event loop reads from each connection that has sent something. Where one has much (pops and acks by the
hundred, batches), a few of these add up to milliseconds, and all others wait for that. So a pass has time for some long
turns only; what else came is kept as it is until the next pass, in the order in which it came. Short turns are taken at
once. While nobody has any, nothing is kept: it would serve nobody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from ...ambient import Clock

LONG_BYTES: Final = 16 << 10  # that came and were answered: from here on a turn is a long one
PASS_S: Final = 0.0001  # so much time has a pass for them; for one at least
ALONE_S: Final = 0.02  # nobody has short turns if there was none for so long


class Postponed(Protocol):
    """A connection whose bytes are kept."""

    def take_postponed(self) -> None:
        """Have the turn now, and note it as any other."""
        ...


class LongTurns:
    """One for all connections of a server. Event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._waiting: deque[Postponed] = deque()
        self._used_s = 0.0  # by long turns of this pass
        self.short_at = float("-inf")  # when the last short turn was; whoever has one says so
        self._next_is_due = False

    def must_wait(self, now: float) -> bool:
        """Return whether a long turn has to wait for the next pass."""
        return now - self.short_at <= ALONE_S and (self._used_s >= PASS_S or bool(self._waiting))

    def wait(self, connection: Postponed) -> None:
        """Let it have its turn in one of the next passes."""
        self._waiting.append(connection)
        self._count_passes()

    def ended(self, begun: float) -> None:
        """Note a long turn that began then."""
        if begun - self.short_at <= ALONE_S:
            self._used_s += self._monotonic() - begun
            self._count_passes()

    def _count_passes(self) -> None:
        if not self._next_is_due:
            self._next_is_due = True
            asyncio.get_running_loop().call_soon(self._next_pass)

    def _next_pass(self) -> None:
        self._next_is_due = False
        self._used_s = 0.0
        while self._waiting and self._used_s < PASS_S:
            self._waiting.popleft().take_postponed()
        if self._waiting:
            self._count_passes()
