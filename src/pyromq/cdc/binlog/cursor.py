"""Reading a binlog event's bytes from front to end: fixed numbers, and MySQL's numbers and texts with their lengths."""

from __future__ import annotations

from ..changes import CaptureError

_WIDE = {0xFC: 2, 0xFD: 3, 0xFE: 8}


class Cursor:
    """A place in the bytes of one event. What reaches behind the end is a damaged log, and raises CaptureError."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at
        self.end = len(data)

    @property
    def left(self) -> int:
        return self.end - self.at

    def take(self, length: int) -> bytes:
        start, self.at = self.at, self.at + length
        if self.at > self.end:
            raise CaptureError(f"the binlog is damaged: an event of {self.end} bytes ends inside a field at {start}")
        return self.data[start : self.at]

    def number(self, length: int) -> int:
        """Return the number of so many bytes, the lowest first."""
        return int.from_bytes(self.take(length), "little")

    def packed(self) -> int:
        """Return a number of one to nine bytes, whose first says how many."""
        first = self.number(1)
        return first if first < 0xFB else self.number(_WIDE.get(first, 0))

    def text(self) -> bytes:
        return self.take(self.packed())
