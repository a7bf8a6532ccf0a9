"""Places in queues: the JSON that users give and checkpoints hold, where a read begins or ends, which offsets it takes,
and how they are cut into tasks. Pure: numbers in, ranges out.

{"orders": {"broker-a": {"0": 23, "1": -2}}}         -2 is the earliest, -1 the latest
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...errors import PyroError
from ...model.lag import lag
from ..option_kinds import json_object, time_ms

# In a checkpoint beside the topics, none of which can have this name: by broker, when its last message had been stored.
STORED = "@stored"
EARLIEST, LATEST, GROUP = "earliest", "latest", "group"
_FIRST, _LAST = -2, -1
_OFFSETS_LIKE = 'earliest, latest, group or JSON such as {"orders": {"broker-a": {"0": 23, "1": -2}}}'
_TIMES_LIKE = 'JSON such as {"orders": 1700000000000} or {"orders": {"broker-a": {"0": 1700000000000}}}'
_ASSIGN_LIKE = 'JSON such as {"orders": {"broker-a": [0, 1]}}'


class Queue(NamedTuple):
    topic: str
    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker}/{self.queue_id}"

    def as_row(self) -> dict[str, Any]:
        return {"topic": self.topic, "broker": self.broker, "queue": self.queue_id}


Offsets = dict[Queue, int]


def to_json(offsets: Mapping[Queue, int]) -> dict[str, Any]:
    """Return nested objects, sorted, so that equal offsets are equal texts in Spark's offset log."""
    nested: dict[str, Any] = {}
    for (topic, broker, queue_id), offset in sorted(offsets.items()):
        nested.setdefault(topic, {}).setdefault(broker, {})[str(queue_id)] = offset
    return nested


def from_json(nested: Mapping[str, Any]) -> Offsets:
    return {
        Queue(topic, broker, int(queue_id)): int(offset)
        for topic, brokers in nested.items()
        if topic != STORED
        for broker, queues in brokers.items()
        for queue_id, offset in queues.items()
    }


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """Where a read begins or ends: a word for all queues, a time for all, or exact places and times for some."""

    word: str = EARLIEST  # also for queues that `offsets` and `times_ms` do not name
    time_ms: int | None = None
    offsets: Offsets = field(default_factory=dict)
    topic_times_ms: dict[str, int] = field(default_factory=dict)
    times_ms: Offsets = field(default_factory=dict)

    def time_of(self, queue: Queue) -> int | None:
        return self.times_ms.get(queue, self.topic_times_ms.get(queue.topic, self.time_ms))


def read_where(value: str) -> OffsetSpec:
    """Read the value of startingOffsets or endingOffsets. ValueError says what is allowed."""
    if value.strip().lower() in (EARLIEST, LATEST, GROUP):
        return OffsetSpec(value.strip().lower())
    offsets = _exact(json_object(value, _OFFSETS_LIKE), _OFFSETS_LIKE)
    if any(offset < _FIRST for offset in offsets.values()):
        raise ValueError(f"{_OFFSETS_LIKE}; no offset is below -2")
    return OffsetSpec(EARLIEST, offsets=offsets)


def read_times(value: str) -> OffsetSpec:
    topics: dict[str, int] = {}
    queues: dict[str, Any] = {}
    for topic, given in json_object(value, _TIMES_LIKE).items():
        if isinstance(given, dict):
            queues[topic] = given
        else:
            topics[topic] = time_ms(str(given))
    return OffsetSpec(topic_times_ms=topics, times_ms=_exact(queues, _TIMES_LIKE))


def read_assign(value: str) -> frozenset[Queue]:
    found = set()
    for topic, brokers in json_object(value, _ASSIGN_LIKE).items():
        if not isinstance(brokers, dict):
            raise ValueError(_ASSIGN_LIKE)
        for broker, queues in brokers.items():
            if not isinstance(queues, list) or not all(type(each) is int and each >= 0 for each in queues):
                raise ValueError(_ASSIGN_LIKE)
            found |= {Queue(topic, broker, each) for each in queues}
    if not found:
        raise ValueError(_ASSIGN_LIKE)
    return frozenset(found)


def exact(offset: int, low: int, high: int) -> int:
    """Return the offset itself; for -2 and -1 the queue's first or last one."""
    return low if offset == _FIRST else high if offset == _LAST else offset


def _exact(nested: Mapping[str, Any], like: str) -> Offsets:
    try:
        found = from_json(nested)
    except (AttributeError, TypeError, ValueError):
        raise ValueError(like) from None
    if any(queue.queue_id < 0 for queue in found):
        raise ValueError(f"{like}; no queue id is below 0")
    return found


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
    is_anew: bool = False  # to go on is to read the queue from its first message

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
            why = "were there before: the queue was made anew, or lost its end"
            lost.append(Loss(queue, until, begin, why, is_anew=True))
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
