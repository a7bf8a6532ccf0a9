"""Counts at a start what is in flight of stored check points: the records that wait in the timer, ours and Java's.

In the background, since there may be millions: until it has ended the figures are too low.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from .... import logs
from ....ambient import Clock
from ....errors import PyroError
from ....model.message import Property
from ....protocol.properties import find_property
from ....protocol.record import Record, decode_record
from .in_flight import StoredInFlight
from .java_records import read_entry

log = logs.get("pyromq.broker")

REST = 2.0  # of the time that some took: others are served meanwhile
_ROLLED = Property.TIMER_ROLL_TIMES.encode()

# Yields what waits for a topic; calls back with the time once the timer stands still for the first look.
Waiting = Callable[[str, Callable[[int], None]], AsyncIterator[Sequence[bytes]]]


@dataclass(slots=True, eq=False, repr=False)
class StoredRecount:
    """Event loop only, once. What is put since this was made counts itself."""

    clock: Clock
    in_flight: StoredInFlight
    waiting: Waiting
    log_end: Callable[[], int]
    is_done: bool = False
    _records: int = field(init=False, default=0)
    _began_at: int = field(init=False)  # the log's end when this was made, and when the timer was looked at
    _looked_at: int = field(init=False, default=-1)

    def __post_init__(self) -> None:
        self._began_at = self.log_end()

    async def run(self, topic: str) -> None:
        """Count. If that has failed on the way it is not tried again: some would count twice."""
        if self._looked_at >= 0:
            return
        async for raws in self.waiting(topic, self._begin):
            begun = self.clock.monotonic()  # not before: it may have waited long for the timer
            for raw in raws:
                self._count(raw)
            await self.clock.sleep(REST * (self.clock.monotonic() - begun))
        self.is_done = True
        if self._records:
            log.info("stored check points and acks are counted", records=self._records)

    def _begin(self, now_ms: int) -> None:
        self._looked_at = self.log_end()
        self.in_flight.begin(now_ms)

    def _count(self, raw: bytes) -> None:
        try:
            record = decode_record(raw)
            entry = read_entry(record)
        except PyroError:
            return  # whoever delivers it says so
        if entry is None or not self._was_there(record) or entry.slot_ms <= self._known_slot:
            return
        self.in_flight.put(entry.content, entry.slot_ms)
        self._records += 1

    @property
    def _known_slot(self) -> int:
        return self.in_flight.known_ms - self.in_flight.precision_ms

    def _was_there(self, record: Record) -> bool:
        """Return whether it was put before the start, or is the timer's copy of one that was and is gone since."""
        if record.physical_offset < self._began_at:
            return True
        return record.physical_offset < self._looked_at and find_property(record.properties, _ROLLED) is not None
