"""Check points that were spilled just before a kill: their records are in the log, their SPILLED is not.

A check point's record is followed by its SPILLED in the next record of the journal, whatever that is for. So what was
spilled and is still open in the replayed table has its record behind the end of the journal, where it is looked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from .... import logs
from ....kernel.records import Range
from ....model.names import TIMER_TOPIC
from ....model.pop_names import JOURNAL_TOPIC, revive_topic
from ....protocol.record import Record, RecordError, decode_record
from ....store.log.reader import GetStatus, Selection
from ....store.queues.queue import StoredQueue
from ...intake.intake import LogAccess
from ..young.lanes import Lanes
from .java_records import RecordUnfit, StoredCheckPoint, read_entry

log = logs.get("pyromq.broker")

_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SpillRecovery:
    """Event loop only, once, after the journal was replayed."""

    access: LogAccess
    lanes: Lanes
    cluster: str

    async def run(self) -> int:
        """Take out of the table what is in the log as Java's records; return how many check points that were."""
        queues = self.access.store.queues
        journal = queues.get(JOURNAL_TOPIC, 0)
        if journal is None or not self.lanes.table.in_flight():
            return 0
        last = journal.entry_at(journal.readable_end - 1) if journal.readable_end > journal.min_offset else None
        behind = -1 if last is None else last.position
        found = 0
        for queue in (*queues.of_topic(TIMER_TOPIC), *queues.of_topic(revive_topic(self.cluster))):
            async for record in self._records_behind(queue, behind):
                found += self._forget(record)
        if found:
            self.lanes.journal.changed()
            log.info("check points were spilled before the broker ended", check_points=found)
        return found

    async def _records_behind(self, queue: StoredQueue, position: int) -> AsyncIterator[Record]:
        ranges: list[Range] = []
        for offset in range(queue.readable_end - 1, queue.min_offset - 1, -1):
            entry = queue.entry_at(offset)
            if entry is None or entry.position <= position:
                break
            ranges.append(Range(entry.position, entry.size, offset))
        for at in range(0, len(ranges), _AT_ONCE):
            share = Selection(GetStatus.FOUND, ranges[at : at + _AT_ONCE][::-1], 0, 0, 0)
            for raw in await self.access.store.read(share):
                try:
                    yield decode_record(raw)
                except RecordError:
                    continue  # the timer says so

    def _forget(self, record: Record) -> bool:
        """Take its check point out of the table, if it is there."""
        try:
            entry = read_entry(record)
        except RecordUnfit:
            return False
        if entry is None or not isinstance(entry.content, StoredCheckPoint):
            return False
        stored = entry.content
        lane = self.lanes.find(stored.group, stored.topic, stored.queue_id)
        if lane is None:
            return False
        point = self.lanes.table.point(lane, stored.start, stored.pop_time)
        if point is None:
            return False
        self.lanes.table.spilled(point)
        self.lanes.settle(lane)
        return True
