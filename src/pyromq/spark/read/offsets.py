"""Places in queues: the JSON that users give and checkpoints hold, and where a read begins or ends. Pure.

{"orders": {"broker-a": {"0": 23, "1": -2}}}         -2 is the earliest, -1 the latest
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..option_kinds import json_object, time_ms

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
