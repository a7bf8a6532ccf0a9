"""The half messages that nobody has ended yet, and how often each was checked.

`halves.py` fills it from the half topic. The number of checks has a table of its own, `pyromq/transactionChecks.json`,
since a check must not write the message again.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass

from ...model.message import Property
from ...model.wire_text import INT_MAX, LONG_MAX, whole_number
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from ...store.tables.json_tables import JsonTable
from ..metadata.table_content import numbered, section

CHECKS = "checks"
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


class UndecidedHalves:
    """By offset in the half topic's queue. Event loop only."""

    def __init__(self, checks: JsonTable) -> None:
        self._checks_table = checks
        self.checks = numbered(int, section(checks.load(), CHECKS), f"{CHECKS} in {checks.name}")
        self._halves: dict[int, Half] = {}
        self._by_unique: dict[str, int] = {}
        self.by_topic: Counter[str] = Counter()
        self.by_group: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._halves)

    def get(self, offset: int) -> Half | None:
        return self._halves.get(offset)

    def all(self) -> list[Half]:
        return list(self._halves.values())

    def add(self, half: Half) -> None:
        if half.offset not in self._halves:
            self.by_topic[half.topic] += 1
            self.by_group[half.group] += 1
        self._halves[half.offset] = half
        if half.unique is not None:
            self._by_unique[half.unique] = half.offset

    def remove(self, offset: int) -> None:
        """Forget one that is decided, with its checks. Unknown ones are ignored."""
        half = self._halves.pop(offset, None)
        if half is not None:
            for counter, name in ((self.by_topic, half.topic), (self.by_group, half.group)):
                counter[name] -= 1
                if not counter[name]:
                    del counter[name]
            if half.unique is not None and self._by_unique.get(half.unique) == offset:
                del self._by_unique[half.unique]
        if self.checks.pop(offset, None) is not None:
            self._checks_table.drop(CHECKS, str(offset))

    def original_of(self, copy: Half) -> Half | None:
        """Find the undecided half message that a copy was made from."""
        if not copy.is_copy or copy.unique is None:
            return None
        original = self._halves.get(self._by_unique.get(copy.unique, -1))
        same = original is not None and (original.group, original.topic) == (copy.group, copy.topic)
        return original if same else None

    def checks_of(self, offset: int) -> int:
        return self.checks.get(offset, 0)

    def count_checks(self, half: Half, checks: int) -> None:
        half.checks = checks
        self.checks[half.offset] = checks
        self._checks_table.put(CHECKS, str(half.offset), checks)

    def forget_checks_below(self, offset: int) -> None:
        for one in [one for one in self.checks if one < offset]:
            self.remove(one)
