"""Which offsets a read takes, and how they are cut into tasks. Pure: numbers in, ranges out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...errors import PyroError
from ...model.lag import lag
from .offsets import Offsets, Queue


class Bounds(NamedTuple):
    """What a queue holds now: from `low`, up to but without `high`."""

    low: int
    high: int


class OffsetRange(NamedTuple):
    """The offsets of one task, `end` not included."""

    queue: Queue
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


class DataLoss(PyroError):
    """Messages of a read are gone. The text says which, and how to go on without them."""


class Loss(NamedTuple):
    """Messages that a read should have had and that are gone."""

    queue: Queue
    begin: int
    end: int
    why: str

    def __str__(self) -> str:
        return f"{self.queue}: offsets {self.begin} to {self.end} {self.why}"


def ranges(start: Offsets, end: Offsets, bounds: Mapping[Queue, Bounds]) -> tuple[list[OffsetRange], list[Loss]]:
    """Return the ranges to read, and what of them is gone.

    Queues without bounds (a broker that is away) are read as given. A queue that `start` does not name is new and read
    from its first message.
    """
    found: list[OffsetRange] = []
    lost: list[Loss] = []
    for queue, until in sorted(end.items()):
        low, high = bounds.get(queue, Bounds(start.get(queue, 0), until))
        begin = start.get(queue, low)
        if begin > until:
            lost.append(Loss(queue, until, begin, "were there before: the queue was made anew, or lost its end"))
            begin = low
        elif begin < min(low, until):
            lost.append(Loss(queue, begin, min(low, until), "were removed (retention) before they were read"))
            begin = min(low, until)
        if until > high:
            lost.append(Loss(queue, max(begin, high), until, f"are not there: the queue ends at {high}"))
            until = high
        if begin < until:
            found.append(OffsetRange(queue, begin, until))
    return found, lost


def split(parts: Iterable[OffsetRange], least: int | None, most_records: int | None) -> list[OffsetRange]:
    """Split long ranges, until there are `least` and none is over `most_records`. Short ones stay whole."""
    parts = list(parts)
    total = sum(part.size for part in parts)
    pieces: list[OffsetRange] = []
    for part in parts:
        count = 1
        if least is not None and total:
            count = max(1, -(-part.size * least // total))  # its share, rounded up: at least `least` in all
        if most_records is not None:
            count = max(count, -(-part.size // most_records))
        count = min(count, part.size)
        cuts = [part.begin + part.size * number // count for number in range(count + 1)]
        pieces += [OffsetRange(part.queue, cuts[number], cuts[number + 1]) for number in range(count)]
    return pieces


def limited(start: Offsets, latest: Offsets, most: int) -> Offsets:
    """Return ends for about `most` messages: each queue that has any gets one, and its share of the rest."""
    backlog = {queue: lag(until, start.get(queue, 0)) for queue, until in latest.items()}
    total = sum(backlog.values())
    if total <= most:
        return dict(latest)
    filled = sum(count > 0 for count in backlog.values())
    rest = max(0, most - filled)
    return {
        queue: start.get(queue, 0) + 1 + (count - 1) * rest // max(1, total - filled) if count else latest[queue]
        for queue, count in backlog.items()
    }


def waiting(start: Offsets, latest: Offsets) -> int:
    return sum(lag(until, start.get(queue, 0)) for queue, until in latest.items())
