"""What waits for its time, asked for by unique id: a timed message, or one of a delay level. Reads, changes nothing.

For the query of a message's life and the inspection. Needs the index.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...model.message import Property
from ...model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from ...model.wire_text import whole_number
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from ...store.log.reader import KeyQuery
from ...store.message_store import MessageStore
from .park import due_of
from .progress import DelayProgress
from .timers import Timers


@dataclass(frozen=True, slots=True)
class PendingMessage:
    """`position`: its record in the log. A recalled one is never delivered."""

    topic: str
    kind: str  # "timer" or "level"
    due_ms: int
    position: int
    recalled: bool = False


class Pending:
    """Event loop only."""

    def __init__(self, store: MessageStore, progress: DelayProgress, timers: Timers | None, precision_ms: int) -> None:
        self._store = store
        self._progress = progress
        self._timers = timers
        self._precision_ms = precision_ms

    async def __call__(self, unique: str) -> list[PendingMessage]:
        """Return those with this unique id that have not reached their topic, the oldest first. Mostly one or none."""
        return [*await self._timed(unique), *await self._levelled(unique)]

    async def _timed(self, unique: str) -> list[PendingMessage]:
        if self._timers is None:
            return []
        newest: dict[tuple[str, int], tuple[Record, int]] = {}  # copies of one message have its birth
        recalled: set[str] = set()
        for record in await self._store.by_key(KeyQuery(TIMER_TOPIC, unique)):
            pairs = decode_properties(record.properties)
            topic, out_ms = pairs.get(Property.REAL_TOPIC, ""), whole_number(pairs.get(Property.TIMER_OUT_MS))
            if Property.TIMER_DEL_UNIQKEY in pairs:
                recalled.add(topic)
            elif out_ms is not None and out_ms >= self._timers.read_ms:
                newest[topic, record.born_timestamp] = (record, out_ms + self._precision_ms)
        return [
            PendingMessage(topic, "timer", due_ms, record.physical_offset, topic in recalled)
            for (topic, _), (record, due_ms) in newest.items()
        ]

    async def _levelled(self, unique: str) -> list[PendingMessage]:
        found = []
        for record in await self._store.by_key(KeyQuery(SCHEDULE_TOPIC, unique)):
            if record.queue_offset < (self._progress.offset(record.queue_id + 1) or 0):
                continue
            queue = self._store.queues.get(SCHEDULE_TOPIC, record.queue_id)
            entry = None if queue is None else queue.entry_at(record.queue_offset)
            pairs = decode_properties(record.properties)
            due_ms = due_of(pairs, 0 if entry is None else entry.tag_code)
            found.append(PendingMessage(pairs.get(Property.REAL_TOPIC, ""), "level", due_ms, record.physical_offset))
        return found
