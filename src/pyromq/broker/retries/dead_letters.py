"""Dead letters and the log: when each one goes with its file, and those that are to stay longer than the log.

Retention calls `carry` before a file goes: what may stay (`deadLetterReservedTime`) is put again at the end of its
queue, with the time of its death in a property of ours. Administration asks `leaves_ms`. Nobody else moves them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from ... import logs
from ...config import Live
from ...errors import RequestRefused
from ...model.message import Property
from ...model.names import DLQ_PREFIX
from ...model.wire_text import whole_number
from ...protocol.properties import decode_properties, find_property
from ...protocol.record import Record
from ...store.files.file_age import LogFile
from ...store.log.reader import GetStatus, KeyQuery
from ...store.log.retention import RetentionConfig
from ...store.queues.queue import StoredQueue
from ..config import BrokerConfig
from ..intake.intake import LogAccess
from ..intake.parking import fit_properties
from ..loop_quarantine import LoopQuarantine

log = logs.get("pyromq.broker")

DIED = Property.OWN_DEAD_MS
AT_ONCE = 256
BYTES_AT_ONCE = 4 << 20
HOUR_MS = 3_600_000


def died_ms(record: Record) -> int:
    """Return when the message died: a carried copy says so itself, never later than the copy."""
    carried_ms = whole_number(find_property(record.properties, DIED.encode()))
    return record.store_timestamp if carried_ms is None else min(carried_ms, record.store_timestamp)


def file_leaves_ms(files: Sequence[LogFile], record: Record, reserved_hours: int, now_ms: int) -> int:
    """Return the time before which the file that holds a record does not go by its age.

    A file that is still written to stays for at least that long from now. The whole periods since the record was
    stored are counted then, so that the answer is the same from one call to the next.
    """
    kept_ms, stored_ms, position = reserved_hours * HOUR_MS, record.store_timestamp, record.physical_offset
    if files and position < files[-1].start:
        return next(file.modified_ms for file in files if position < file.end) + kept_ms
    return stored_ms + kept_ms * (1 + max(0, now_ms - stored_ms) // kept_ms) if kept_ms else now_ms


@dataclass(slots=True, eq=False, repr=False)
class DeadLetters:
    """Event loop only."""

    live: Live[BrokerConfig]
    access: LogAccess
    quarantine: LoopQuarantine
    is_short: Callable[[], bool]  # files go for want of space now, whatever their age
    lost: int = 0  # that should have stayed, but there was no space

    @property
    def _kept_ms(self) -> int:
        return self.live.config.dead_letter_reserved_hours * HOUR_MS

    def queues(self) -> list[StoredQueue]:
        queues = self.access.store.queues
        return [queue for topic in queues.topics() if topic.startswith(DLQ_PREFIX) for queue in queues.of_topic(topic)]

    def leaves_ms(self, record: Record, files: Sequence[LogFile]) -> int:
        """Return when the dead letter may go, at the earliest; sooner only for want of space."""
        hours = self.live.config.part(RetentionConfig).file_reserved_hours
        by_log = file_leaves_ms(files, record, hours, self.access.clock.now_ms())
        return max(by_log, died_ms(record) + self._kept_ms)

    # --- carried past their file ----------------------------------------------------------------------------------

    async def carry(self, start: int, end: int) -> None:
        """Put again what is to stay of a part of the log that is about to go. Raises if that cannot be."""
        if not self._kept_ms:
            return
        # A file must give back at least half of itself, else a full disk would be copied for ever.
        free_bytes = (end - start) // 2 if self.is_short() else end - start
        carried = lost = 0
        refusals: list[RequestRefused] = []
        for queue in self.queues():
            async for record in self.read(queue, end):
                if not await self.quarantine.tried(record, self._stays(record, end)):
                    continue
                if record.size > free_bytes:
                    lost += 1
                    continue
                free_bytes -= record.size
                carried += 1
                self._put_again(record, refusals)
                if carried % AT_ONCE == 0:
                    self.access.intake.flush()  # not a whole file of them at once
            self.access.intake.flush()
        if refusals:
            raise refusals[0]
        self.lost += lost
        if carried:
            await self.access.store.flush_log()  # the old copies go next
            log.info("dead letters carried forward", messages=carried, start=start, end=end)
        if lost:
            log.error(
                "DEAD LETTERS ARE LOST before their time (deadLetterReservedTime): there is no room for them",
                messages=lost,
            )

    async def read(self, queue: StoredQueue, end: int | None = None) -> AsyncIterator[Record]:
        """Yield the dead letters of a queue, the oldest first, up to a place in the log."""
        offset = queue.min_offset
        while True:
            selection = await self.access.store.select(
                queue.topic, queue.queue_id, offset, max_count=AT_ONCE, max_bytes=BYTES_AT_ONCE, scan=AT_ONCE
            )
            wanted = [one for one in selection.ranges if end is None or one.position < end]
            if selection.status is GetStatus.FOUND and not wanted:
                return
            raws = await self.access.store.read(replace(selection, ranges=wanted)) if wanted else ()
            for record in self.quarantine.decode(raws, queue.topic):
                yield record
            if selection.next_offset <= offset:
                return
            offset = selection.next_offset

    async def _stays(self, record: Record, end: int) -> bool:
        """Return whether it is carried on: not if its time has passed, nor if a kill left a copy beside it."""
        died = died_ms(record)
        if died + self._kept_ms <= self.access.clock.now_ms():
            return False
        unique = decode_properties(record.properties).get(Property.UNIQ_KEY)
        return unique is None or not any(
            found.physical_offset >= end and died_ms(found) == died
            for found in await self.access.store.by_key(KeyQuery(record.topic, unique))
        )

    def _put_again(self, record: Record, refusals: list[RequestRefused]) -> None:
        try:
            copy = msgspec.structs.replace(
                record, properties=_with_death(record), physical_offset=0, store_host=self.access.store_host
            )
        except Exception as fault:
            self.quarantine.put(record, fault)
        else:
            self.access.intake.put(copy, self.quarantine.done(record, refusals))


def _with_death(record: Record) -> bytes:
    """Return the properties with the time of death; where that does not fit it counts from now on."""
    pairs = decode_properties(record.properties) | {DIED: str(died_ms(record))}
    return fit_properties(pairs, "time of death", (Property.REAL_TOPIC, Property.REAL_QID, DIED))
