"""How many bytes went over a stream in this second and in the last: for the limit, and for those who ask. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TransferRate:
    """Times are monotonic seconds."""

    begun: float = 0.0
    bytes: int = 0  # since then
    last_bytes: int = 0  # in the second before

    def note(self, now: float, size: int) -> None:
        """Count bytes that were sent, or have come."""
        if now - self.begun >= 1.0:
            self.last_bytes = self.bytes if now - self.begun < 2.0 else 0
            self.begun, self.bytes = now, 0
        self.bytes += size

    def in_last_second(self, now: float) -> int:
        self.note(now, 0)
        return self.last_bytes

    def left(self, now: float, most: int) -> int:
        """Return how many bytes may still be sent in this second, of `most`."""
        self.note(now, 0)
        return max(0, most - self.bytes)
