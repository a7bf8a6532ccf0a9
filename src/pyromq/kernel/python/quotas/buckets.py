"""Token buckets, in readable Python: `native/quota.pxi` does the same in C.

A bucket gives so much a second, and up to a second's worth at once. What costs more than is left passes as long as
something is left, and leaves a debt: so a message larger than a second's worth can be sent at all, and what was read is
charged when its size is known. Event loop only.
"""

from __future__ import annotations

import math


class Bucket:
    """One owner's, of one limit."""

    __slots__ = ("counts_bytes", "filled", "of", "rate", "tokens")

    def __init__(self, rate: float, now: float, counts_bytes: bool = False, of: object = None) -> None:
        """Make a full one. `rate`: a second, and the most that is kept. `of`: the broker's own, for its words."""
        self.rate = rate / 1  # in doubles, as in C
        self.tokens = self.rate
        self.filled = now  # when the tokens were counted, in seconds
        self.counts_bytes = counts_bytes  # else messages
        self.of = of

    def wait_s(self, now: float) -> float:
        """Return the seconds until something may be taken; 0: now."""
        self._fill(now)
        if self.tokens > 0:
            return 0.0
        return (1 - self.tokens) / self.rate if self.rate > 0 else math.inf

    def take(self, amount: float, now: float) -> None:
        self._fill(now)
        self.tokens -= amount

    def give_back(self, amount: float) -> None:
        """Undo a `take`: what was to be paid for has not come about."""
        self.tokens += amount

    def used(self, now: float) -> float:
        """Return how much of a second's worth is taken."""
        self._fill(now)
        return self.rate - self.tokens

    def _fill(self, now: float) -> None:
        if now > self.filled:
            self.tokens = min(self.rate, self.tokens + (now - self.filled) * self.rate)
            self.filled = now
