"""One undecided half message as the broker keeps it in memory, read from its record. Pure."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from ...model.message import Property
from ...model.wire_text import INT_MAX, LONG_MAX, whole_number
from ...protocol.properties import decode_properties
from ...protocol.record import Record

_LONGEST_IMMUNITY_S = LONG_MAX // 1000  # as milliseconds it must still be a long


@dataclass(slots=True)
class Half:
    offset: int  # in the half topic's queue
    position: int
    born_ms: int
    immune_ms: int | None  # the message's own, None: the broker's
    group: str
    topic: str
    unique: str | None
    checks: int
    size: int
    is_copy: bool  # of an earlier one: only copies carry the number of checks in themselves


def half_of(record: Record, checks: int) -> Half:
    """Read a half message. `checks`: how often this broker has checked it, by its own count."""
    pairs = decode_properties(record.properties)
    copied_checks = whole_number(pairs.get(Property.TRANSACTION_CHECK_TIMES), high=INT_MAX)
    immune_s = immunity_s(pairs.get(Property.CHECK_IMMUNITY_TIME_IN_SECONDS))
    return Half(
        offset=record.queue_offset,
        position=record.physical_offset,
        born_ms=record.born_timestamp,
        immune_ms=None if immune_s is None else immune_s * 1000,
        group=sys.intern(pairs.get(Property.PGROUP, "")),  # a hundred thousand of them share a few
        topic=sys.intern(pairs.get(Property.REAL_TOPIC, "")),
        unique=pairs.get(Property.UNIQ_KEY),
        checks=max(copied_checks or 0, checks),
        size=record.size,
        is_copy=copied_checks is not None,
    )


def immunity_s(text: str | None) -> int | None:
    """Read how long a message wants no check. None, for the broker's own time, where it is no number, as in Java."""
    return whole_number(text, high=_LONGEST_IMMUNITY_S)
