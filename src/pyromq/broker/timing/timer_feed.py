"""Reads the timer topic and lets its messages wait in the timer store. `timers.py` calls it before it takes a slot."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ... import logs
from ...ambient import RunBlocking
from ...model.names import TIMER_TOPIC
from ...store.log.reader import GetStatus, Selection
from ...store.timer.timer_store import TimedRecord, TimerStore
from ..intake.intake import LogAccess
from ..loop_quarantine import LoopQuarantine, position_of
from .progress import TimerCounts
from .timer_park import waiting

log = logs.get("pyromq.broker")

AT_ONCE = 2_000
BYTES_AT_ONCE = 4 << 20
SURELY_LEFT_MS = 60_000  # after a rebuild: what was due so long before the last slot has left


@dataclass(slots=True, eq=False, repr=False)
class TimerFeed:
    """Event loop only, one call at a time. Only what is readable is let in: under SYNC_FLUSH that is on the medium."""

    access: LogAccess
    timers: TimerStore
    counts: TimerCounts
    run_blocking: RunBlocking
    quarantine: LoopQuarantine
    lost: int = 0

    async def take_in(self) -> bool:
        """Take in everything that arrived. Return False if the wheel has no room before what is due was taken out."""
        while True:
            selection = await self._select()
            if selection is None:
                return True
            records = map(self._waiting, await self.access.store.read(selection))
            wanted = [one for one in records if one is not None and self._still_waits(one)]
            now_ms = self.access.clock.now_ms()
            added = await self.run_blocking(partial(self.timers.add, wanted, now_ms))
            for one in wanted[:added]:
                self.counts.add(one.topic, -1 if one.recalls else 1)
                if not one.recalls:
                    self.counts.delays[one.topic].note(max(0, one.due_ms - now_ms) / 1000)
            if added < len(wanted):
                return False
            self.timers.skip_to(selection.next_offset)

    async def _select(self) -> Selection | None:
        """Return the next entries, None if there are none. What cannot be had is stepped over."""
        while True:
            at = self.timers.queue_offset
            selection = await self.access.store.select(
                TIMER_TOPIC, 0, at, max_count=AT_ONCE, max_bytes=BYTES_AT_ONCE, scan=AT_ONCE
            )
            if selection.status is GetStatus.FOUND:
                return selection
            if selection.next_offset == at or selection.status is GetStatus.NO_MATCHED_LOGIC_QUEUE:
                return None
            if selection.status is GetStatus.OFFSET_TOO_SMALL and at >= self.timers.known_before and at > 0:
                self.lost += selection.next_offset - at
                log.error(
                    "TIMED MESSAGES ARE LOST: their log file went before they were looked at",
                    messages=selection.next_offset - at,
                    lost=self.lost,
                )
            self.timers.skip_to(selection.next_offset)

    def _waiting(self, raw: bytes) -> TimedRecord | None:
        """Return the timed record; None if it went into quarantine, now or before."""
        position = position_of(raw)
        if position in self.quarantine:
            return None
        try:
            found = waiting(raw)
        except Exception as fault:
            self.quarantine.put_at(position, len(raw), TIMER_TOPIC, 0, fault)
            return None
        if found is None:
            log.error("A TIMED MESSAGE IS LEFT OUT: it does not say for what it waits", topic=TIMER_TOPIC)
            self.quarantine.put_at(position, len(raw), TIMER_TOPIC, 0, "it does not say for what it waits")
        return found

    def _still_waits(self, one: TimedRecord) -> bool:
        """Return whether it waits: after a rebuild, when the whole topic is read again, what has departed does not."""
        if one.queue_offset >= self.timers.known_before:
            return True
        return one.position >= self.timers.carried_to and one.due_ms >= self.timers.read_ms - SURELY_LEFT_MS
