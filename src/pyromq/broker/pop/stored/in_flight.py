"""How many messages of stored check points are in flight, by group and topic, without a check point in memory.

A record that waits in the timer, or is not read from the revive topic yet, counts by its kind: a check point for each
of its messages, an ack against each that it names. Once it is read it counts no more: from then on the check point is
in memory (`revive_queue.py`). Each count belongs to the timer's slot in which the record waits, and goes with it at the
latest: whatever becomes of a record, no count stays behind. An ack that is repeated, or that belongs to nothing, counts
until its slot has come. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from .java_records import PointKey, StoredAck, StoredCheckPoint

NO_SLOT = 0  # of records that did not wait

Pair: TypeAlias = tuple[str, str]  # group and topic, the retry topic's name if it is one


@dataclass(slots=True, eq=False, repr=False)
class StoredInFlight:
    """Event loop only."""

    precision_ms: int  # a slot is delivered so long behind its time
    known_ms: int  # what was due by then is not counted: it may have been read before
    _by_slot: dict[int, Counter[Pair]] = field(default_factory=dict)
    _sums: Counter[Pair] = field(default_factory=Counter)
    # Acks that were seen before they were read, with their slot: they still count against their messages.
    _ahead: dict[PointKey, tuple[int, set[int]]] = field(default_factory=dict)

    def begin(self, now_ms: int) -> None:
        """Begin to count what is in the timer at this moment."""
        self.known_ms = now_ms
        self.forget(now_ms - self.precision_ms)

    def put(self, content: StoredCheckPoint | StoredAck, slot_ms: int) -> None:
        """Count a record that waits from now on."""
        self._add(content, slot_ms, 1)

    def read(self, content: StoredCheckPoint | StoredAck, slot_ms: int, key: PointKey | None = None) -> None:
        """Count a record no more: it was read from the revive topic. `key`: the check point of an ack."""
        if self._is_counted(slot_ms):
            self._add(content, slot_ms, -1)
        seen = None if key is None else self._ahead.get(key)
        if key is not None and seen is not None and isinstance(content, StoredAck):
            seen[1].difference_update(content.acked)
            if not seen[1]:
                del self._ahead[key]

    def seen_ahead(self, key: PointKey, offsets: Iterable[int], slot_ms: int) -> None:
        """Note that an ack which is still to be read has settled these messages already."""
        if self._is_counted(slot_ms):
            self._ahead.setdefault(key, (slot_ms, set()))[1].update(offsets)

    def _is_counted(self, slot_ms: int) -> bool:
        return slot_ms == NO_SLOT or slot_ms + self.precision_ms > self.known_ms

    def _add(self, content: StoredCheckPoint | StoredAck, slot_ms: int, sign: int) -> None:
        if isinstance(content, StoredCheckPoint):
            count = len(content.open_offsets)
        elif slot_ms == NO_SLOT:
            return  # it says what was decided a moment ago
        else:
            count = -len(set(content.acked))
        pair, slot = (content.group, content.topic), self._by_slot.setdefault(slot_ms, Counter())
        for counter in (slot, self._sums):
            counter[pair] += sign * count
            if not counter[pair]:
                del counter[pair]
        if not slot:
            del self._by_slot[slot_ms]

    def forget(self, until_ms: int) -> None:
        """Forget what is left of slots up to this time: what waited in them was read, or is lost."""
        for slot_ms in [one for one in self._by_slot if one <= until_ms]:
            self._sums.subtract(self._by_slot.pop(slot_ms))
        self._sums = Counter({pair: count for pair, count in self._sums.items() if count})
        self._ahead = {key: seen for key, seen in self._ahead.items() if seen[0] > until_ms}

    def counts(self) -> Counter[Pair]:
        """Return what is not read yet; below zero where acks are not, and their check points are."""
        found = Counter(self._sums)
        for key, (_, offsets) in self._ahead.items():
            found[key.group, key.topic] += len(offsets)
        return found
