"""MySQL's global transaction ids: of each server all numbers that were executed, as intervals."""

from __future__ import annotations

import struct
from uuid import UUID

from ...model.wire_text import whole_number
from ..changes import CaptureError

_COUNT, _INTERVAL = struct.Struct("<Q"), struct.Struct("<QQ")


class ExecutedGtids:
    """`UUID:1-5:8,UUID:...`. Numbers need not come in their order, so each interval is kept."""

    def __init__(self, text: str = "") -> None:
        self._intervals: dict[str, list[tuple[int, int]]] = {}  # both ends are in them
        for each in "".join(text.split()).split(","):
            if each:
                server, *parts = each.split(":")
                if not parts:
                    raise _bad(each)
                for part in parts:
                    self._include(_server(server, each), *_interval(part, each))

    def add(self, gtid: str) -> None:
        """Add one transaction, or an interval of them."""
        server, _, number = gtid.partition(":")
        self._include(_server(server, gtid), *_interval(number, gtid))

    def _include(self, server: str, first: int, last: int) -> None:
        known = self._intervals.setdefault(server, [])
        if known and known[-1][0] <= first <= known[-1][1] + 1:  # as almost always
            known[-1] = (known[-1][0], max(last, known[-1][1]))
            return
        merged: list[tuple[int, int]] = []
        for low, high in sorted([*known, (first, last)]):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        self._intervals[server] = merged

    def covers(self, other: ExecutedGtids) -> bool:
        """Return whether all transactions of the other one are in this one."""
        return self.missing(other) == 0

    def missing(self, other: ExecutedGtids) -> int:
        """Return how many transactions the other one has more."""
        count = 0
        for server, intervals in other._intervals.items():
            for low, high in intervals:
                known = (min(high, end) - max(low, first) + 1 for first, end in self._intervals.get(server, ()))
                count += high - low + 1 - sum(max(0, each) for each in known)
        return count

    def encode(self) -> bytes:
        """Return the set as a replica tells it to its source."""
        parts = [_COUNT.pack(len(self._intervals))]
        for server, intervals in self._intervals.items():
            parts += [UUID(server).bytes, _COUNT.pack(len(intervals))]
            parts += [_INTERVAL.pack(low, high + 1) for low, high in intervals]
        return b"".join(parts)

    def __str__(self) -> str:
        return ",".join(
            ":".join([server, *(str(low) if low == high else f"{low}-{high}" for low, high in intervals)])
            for server, intervals in sorted(self._intervals.items())
        )


def _server(text: str, whole: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise _bad(whole) from None


def _interval(text: str, whole: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    low, high = whole_number(first, 1), whole_number(last or first, 1)
    if low is None or high is None or high < low:
        raise _bad(whole)
    return low, high


def _bad(text: str) -> CaptureError:
    return CaptureError(
        f"{text[:100]!r} is no set of GTIDs that is read: they are a server's UUID and numbers, as UUID:1-42. GTIDs "
        "with tags are not captured"
    )
