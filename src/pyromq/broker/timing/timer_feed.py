"""Reads the timer topic and lets its messages wait in the timer store. `timers.py` calls it before it takes a slot."""

from __future__ import annotations

from functools import partial

from ... import logs
from ...ambient import Clock, RunBlocking
from ...model.names import TIMER_TOPIC
from ...store.log.reader import GetStatus, Selection
from ...store.message_store import MessageStore
from ...store.timer.timer_store import TimedRecord, TimerStore
from ..loop_quarantine import LoopQuarantine, position_of
from .progress import TimerCounts
from .timer_park import waiting

log = logs.get("pyromq.broker")

AT_ONCE = 2_000
BYTES_AT_ONCE = 4 << 20
SURELY_LEFT_MS = 60_000  # after a rebuild: what was due so long before the last slot has left


class TimerFeed:
    """Event loop only, one call at a time. Only what is readable is let in: under SYNC_FLUSH that is on the medium."""

    def __init__(
        self,
        store: MessageStore,
        timers: TimerStore,
        counts: TimerCounts,
        run_blocking: RunBlocking,
        clock: Clock,
        quarantine: LoopQuarantine,
    ) -> None:
        self._store = store
        self._timers = timers
        self._counts = counts
        self._run_blocking = run_blocking
        self._clock = clock
        self._quarantine = quarantine
        self.lost = 0

    async def take_in(self) -> bool:
        """Take in everything that arrived. Return False if the wheel has no room before what is due was taken out."""
        while True:
            selection = await self._select()
            if selection is None:
                return True
            records = [one for raw in await self._store.read(selection) if (one := self._waiting(raw)) is not None]
            wanted = [one for one in records if self._still_waits(one)]
            added = await self._run_blocking(partial(self._timers.add, wanted, self._clock.now_ms()))
            for one in wanted[:added]:
                self._counts.add(one.topic, -1 if one.recalls else 1)
            if added < len(wanted):
                return False
            self._timers.skip_to(selection.next_offset)

    async def _select(self) -> Selection | None:
        """Return the next entries, None if there are none. What cannot be had is stepped over."""
        while True:
            at = self._timers.queue_offset
            selection = await self._store.select(
                TIMER_TOPIC, 0, at, max_count=AT_ONCE, max_bytes=BYTES_AT_ONCE, scan=AT_ONCE
            )
            if selection.status is GetStatus.FOUND:
                return selection
            if selection.next_offset == at or selection.status is GetStatus.NO_MATCHED_LOGIC_QUEUE:
                return None
            if selection.status is GetStatus.OFFSET_TOO_SMALL and at >= self._timers.known_before and at > 0:
                self.lost += selection.next_offset - at
                log.error(
                    "TIMED MESSAGES ARE LOST: their log file went before they were looked at",
                    messages=selection.next_offset - at,
                    lost=self.lost,
                )
            self._timers.skip_to(selection.next_offset)

    def _waiting(self, raw: bytes) -> TimedRecord | None:
        """Return the timed record; None if it went into quarantine, now or before."""
        position = position_of(raw)
        if position in self._quarantine:
            return None
        try:
            found = waiting(raw)
        except Exception as fault:
            self._quarantine.put_at(position, len(raw), TIMER_TOPIC, 0, fault)
            return None
        if found is None:
            log.error("A TIMED MESSAGE IS LEFT OUT: it does not say for what it waits", topic=TIMER_TOPIC)
            self._quarantine.put_at(position, len(raw), TIMER_TOPIC, 0, "it does not say for what it waits")
        return found

    def _still_waits(self, one: TimedRecord) -> bool:
        """Return whether the message still waits.

        After a rebuild the whole topic is read again: what has departed, or was put again, does not wait.
        """
        if one.queue_offset >= self._timers.known_before:
            return True
        return one.position >= self._timers.carried_to and one.due_ms >= self._timers.read_ms - SURELY_LEFT_MS
