"""A token bucket: so much a second, and up to a second's worth at once. Pure; the time is handed in.

What costs more than a full bucket passes when the bucket is not empty, and leaves a debt: so a message larger than a
second's worth can be sent at all, and what was read is charged when its size is known.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Bucket:
    rate: float  # a second; also the most that is kept
    tokens: float
    filled: float  # when the tokens were counted, in seconds

    @classmethod
    def full(cls, rate: float, now: float) -> Bucket:
        return cls(rate, rate, now)

    def wait_s(self, now: float) -> float:
        """Return the seconds until something may be taken; 0: now."""
        self._fill(now)
        if self.tokens > 0:
            return 0.0
        return (1 - self.tokens) / self.rate if self.rate > 0 else float("inf")

    def take(self, amount: float, now: float) -> None:
        self._fill(now)
        self.tokens -= amount

    def used(self, now: float) -> float:
        """Return how much of a second's worth is taken."""
        self._fill(now)
        return self.rate - self.tokens

    def _fill(self, now: float) -> None:
        if now > self.filled:
            self.tokens = min(self.rate, self.tokens + (now - self.filled) * self.rate)
            self.filled = now
