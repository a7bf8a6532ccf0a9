"""The half topic and the op topic as this broker reads them, and how far they are done (group CID_RMQ_SYS_TRANS)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import NamedTuple

from ...ambient import Clock
from ...model.names import HALF_TOPIC, OP_HALF_TOPIC
from ...protocol.record import Record, decode_record
from ...store.log.reader import GetStatus
from ...store.message_store import MessageStore
from ..metadata.offsets import Offsets

GROUP = "CID_RMQ_SYS_TRANS"
AT_ONCE = 256
BYTES_AT_ONCE = 4 << 20


class Portion(NamedTuple):
    records: dict[int, Record]  # by offset; damaged ones and those that were not wanted are left out
    start: int
    end: int


class HalfTopics:
    """Each has one queue. Event loop only."""

    def __init__(self, store: MessageStore, offsets: Offsets, clock: Clock) -> None:
        self._store = store
        self._offsets = offsets
        self._clock = clock

    def committed(self, topic: str) -> int | None:
        return self._offsets.find(topic, GROUP, 0)

    def start_of(self, topic: str, before: int = 0) -> int:
        """Return the committed offset, where reading begins.

        If the queue now begins behind it, at most `before` offsets in front of its beginning: the loss is noticed.
        """
        queue = self._store.queues.get(topic, 0)
        saved = self.committed(topic)
        if queue is None:
            return saved or 0
        first = queue.min_offset
        return first if saved is None else min(max(saved, first - before), queue.next_offset)

    def first_half(self) -> int | None:
        """Return the first offset that the half topic still has; None before its first message."""
        queue = self._store.queues.get(HALF_TOPIC, 0)
        return None if queue is None else queue.min_offset

    async def portions(self, topic: str, offset: int, is_wanted: Callable[[int], bool]) -> AsyncIterator[Portion]:
        """Read everything readable from an offset on, portion by portion. What is not wanted is not read."""
        while True:
            selection = await self._store.select(
                topic, 0, offset, max_count=AT_ONCE, max_bytes=BYTES_AT_ONCE, scan=AT_ONCE
            )
            found: dict[int, Record] = {}
            if selection.status is GetStatus.FOUND:
                wanted = [one for one in selection.ranges if is_wanted(one.queue_offset)]
                part = await self._store.read(replace(selection, ranges=wanted)) if wanted else []
                found = {record.queue_offset: record for record in map(decode_record, part)}
            if selection.next_offset <= offset:
                return
            yield Portion(found, offset, selection.next_offset)
            offset = selection.next_offset
            await self._clock.sleep(0)  # what is in the page cache is read without a pause, and there may be very many

    async def flush_log(self) -> None:
        await self._store.flush_log()

    def commit(self, first_half: int, first_op: int) -> None:
        """Commit both offsets: what lies before them need not be read at the next start."""
        self._offsets.commit(HALF_TOPIC, GROUP, 0, first_half)
        self._offsets.commit(OP_HALF_TOPIC, GROUP, 0, first_op)
