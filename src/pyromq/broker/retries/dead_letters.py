"""Dead letters and the log: when each one goes with its file, and those that are to stay longer than the log.

Retention calls `carry` before a file goes: what may stay (`deadLetterReservedTime`) is put again at the end of its
queue, with the time of its death in a property of ours. Administration asks `leaves_ms`. Nobody else moves them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

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
from ...store.message_store import MessageStore
from ...store.queues.queue import StoredQueue
from ..config import BrokerConfig
from ..intake.intake import Intake, Outcome
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


def file_leaves_ms(files: Sequence[LogFile], position: int, reserved_hours: int, now_ms: int) -> int:
    """Return the time before which the file that holds a position does not go by its age.

    The last file is still written to.
    """
    if not files or position >= files[-1].start:
        return now_ms + reserved_hours * HOUR_MS
    written = next((file.modified_ms for file in files if position < file.end), now_ms)
    return written + reserved_hours * HOUR_MS


class DeadLetters:
    """Event loop only. `is_short`: files go for want of space now, whatever their age."""

    def __init__(
        self,
        live: Live[BrokerConfig],
        store: MessageStore,
        intake: Intake,
        quarantine: LoopQuarantine,
        store_host: bytes,
        now_ms: Callable[[], int],
        is_short: Callable[[], bool],
    ) -> None:
        self._live = live
        self._store = store
        self._intake = intake
        self._quarantine = quarantine
        self._store_host = store_host
        self._now_ms = now_ms
        self.is_short = is_short
        self.lost = 0  # that should have stayed, but there was no space

    @property
    def _kept_ms(self) -> int:
        return self._live.config.dead_letter_reserved_hours * HOUR_MS

    def queues(self) -> list[StoredQueue]:
        queues = self._store.queues
        return [queue for topic in queues.topics() if topic.startswith(DLQ_PREFIX) for queue in queues.of_topic(topic)]

    def leaves_ms(self, record: Record, files: Sequence[LogFile]) -> int:
        """Return when the dead letter may go, at the earliest; sooner only for want of space."""
        hours = self._live.config.part(RetentionConfig).file_reserved_hours
        by_log = file_leaves_ms(files, record.physical_offset, hours, self._now_ms())
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
                if not await self._stays_or_quarantine(record, end):
                    continue
                if record.size > free_bytes:
                    lost += 1
                    continue
                free_bytes -= record.size
                carried += 1
                self._put_again(record, refusals)
                if carried % AT_ONCE == 0:
                    self._intake.flush()  # not a whole file of them at once
            self._intake.flush()
        if refusals:
            raise refusals[0]
        self.lost += lost
        if carried:
            await self._store.flush_log()  # the old copies go next
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
            selection = await self._store.select(
                queue.topic, queue.queue_id, offset, max_count=AT_ONCE, max_bytes=BYTES_AT_ONCE, scan=AT_ONCE
            )
            wanted = [one for one in selection.ranges if end is None or one.position < end]
            if selection.status is GetStatus.FOUND and not wanted:
                return
            raws = await self._store.read(replace(selection, ranges=wanted)) if wanted else ()
            for record in self._quarantine.decode(raws, queue.topic):
                yield record
            if selection.next_offset <= offset:
                return
            offset = selection.next_offset

    async def _stays_or_quarantine(self, record: Record, end: int) -> bool:
        try:
            return await self._stays(record, end)
        except Exception as fault:
            self._quarantine.put(record, fault)
            return False

    async def _stays(self, record: Record, end: int) -> bool:
        """Return whether it is carried on: not if its time has passed, nor if a kill left a copy beside it."""
        died = died_ms(record)
        if died + self._kept_ms <= self._now_ms():
            return False
        unique = decode_properties(record.properties).get(Property.UNIQ_KEY)
        return unique is None or not any(
            found.physical_offset >= end and died_ms(found) == died
            for found in await self._store.by_key(KeyQuery(record.topic, unique))
        )

    def _put_again(self, record: Record, refusals: list[RequestRefused]) -> None:
        def done(outcome: Outcome) -> None:
            if outcome.refusal is not None and not self._quarantine.put_refused(record, outcome.refusal):
                refusals.append(outcome.refusal)

        try:
            copy = msgspec.structs.replace(
                record, properties=_with_death(record), physical_offset=0, store_host=self._store_host
            )
        except Exception as fault:
            self._quarantine.put(record, fault)
        else:
            self._intake.put(copy, done)


def _with_death(record: Record) -> bytes:
    """Return the properties with the time of death; where that does not fit it counts from now on."""
    pairs = decode_properties(record.properties) | {DIED: str(died_ms(record))}
    return fit_properties(pairs, "time of death", (Property.REAL_TOPIC, Property.REAL_QID, DIED))
