"""Which of equal or neighbouring times a search by time means, as the wire and the store say it."""

from __future__ import annotations

from enum import Enum


class Boundary(Enum):
    LOWER = "LOWER"  # the first message stored at the time or later
    UPPER = "UPPER"  # the last one stored at the time or earlier

    @classmethod
    def _missing_(cls, value: object) -> Boundary:
        return cls.UPPER if str(value).upper() == "UPPER" else cls.LOWER  # anything else is LOWER in Java
