"""The timer: a loop that lets timed messages wait, takes what is due, and keeps on disk how far it is.

`wiring/` starts it beside the store. It sleeps until the next slot is due or a message arrives. Retention calls `carry`
before a log file goes. Nobody else touches the timer store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from ... import logs
from ...ambient import RunBlocking
from ...config import Live
from ...errors import PyroError, RequestRefused
from ...kernel.records import Range
from ...model.message import Property
from ...model.names import TIMER_TOPIC
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from ...store.errors import StoreError
from ...store.files.disk import DiskError
from ...store.log.reader import GetStatus, Selection
from ...store.timer.timer_log import UNIT_BYTES, Unit
from ...store.timer.timer_store import TimerStore
from ..config import BrokerConfig
from ..intake.intake import LogAccess
from ..loop_quarantine import LoopQuarantine
from ..metadata.saving import SaveSoon
from .level_delivery import AGAIN_S, IDLE_S, LONGEST_SLEEP_S, run_rounds
from .progress import TimerCounts
from .timer_feed import TimerFeed
from .timer_glance import TimerGlance
from .timer_park import timer_copy
from .timer_slots import TimerSlots

log = logs.get("pyromq.broker")

GATHER_S = 0.02  # messages that arrive together are let in together
AT_ONCE = 1_000


class Timers:
    """Event loop only."""

    def __init__(
        self,
        live: Live[BrokerConfig],
        access: LogAccess,
        timers: TimerStore,
        metrics: SaveSoon,
        run_blocking: RunBlocking,
        quarantine: LoopQuarantine,
    ) -> None:
        self._live = live
        self._precision = live.config.timer_precision_ms
        self._flush_ms = live.config.timer_flush_interval_ms
        self._access = access
        self._store = access.store
        self._clock = access.clock
        self._timers = timers
        self._metrics = metrics
        self._run_blocking = run_blocking
        self._quarantine = quarantine
        self.counts = TimerCounts(metrics.table, access.clock.now_ms)
        if not timers.queue_offset:
            self.counts.start_anew()  # the topic is read from its start, perhaps not for the first time
        parts = (access, timers, self.counts, run_blocking, quarantine)
        self._feed = TimerFeed(*parts)
        self._slots = TimerSlots(*parts, live.config.append_topic_for_timer_delete_key)
        self._carried_lost = 0
        self._flushed_at = access.clock.monotonic()
        self._arrived = asyncio.Event()
        self._turn = asyncio.Lock()  # the loop, `carry` and `glance` must not move the timer at the same time
        self.glance = TimerGlance(live, access, timers, self._feed, run_blocking, self._turn)
        access.store.on_arrival(TIMER_TOPIC, lambda queue: self._arrived.set())

    @property
    def lost(self) -> int:
        """Return how many messages lost their record before they were due."""
        return self._feed.lost + self._slots.lost + self._carried_lost

    def parked(self) -> dict[str, int]:
        """Return what waits, by topic, and the next of it, for the inspection command."""
        waits = {f"timer, topic {topic}": count for topic, count in self.counts.by_topic().items()}
        slot_ms = self._timers.next_slot_ms()
        if slot_ms is not None:
            waits["timer, all topics"] = self._timers.waiting
            waits["timer, ms to the next"] = slot_ms + self._precision - self._clock.now_ms()
        return waits | ({"timer, LOST": self.lost} if self.lost else {})

    def behind(self) -> dict[str, str]:
        """Return for the runtime info, under Java's names, ms behind the clock and messages behind the topic."""
        slot_ms, queue = self._timers.next_slot_ms(), self._store.queues.get(TIMER_TOPIC, 0)
        late = 0 if slot_ms is None else max(0, self._clock.now_ms() - slot_ms - self._precision)
        behind = 0 if queue is None else queue.readable_end - max(self._timers.queue_offset, queue.min_offset)
        return {"timerReadBehind": str(late), "timerOffsetBehind": str(max(0, behind))}

    # --- the loop -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await run_rounds(self._clock, self._arrived, self.round, GATHER_S)

    async def round(self) -> float:
        """Let in what arrived, deliver what is due. Seconds until there is more to do."""
        try:
            async with self._turn:
                wait = await self._deliver()
                if not self._timers.dirty:
                    return wait
                remaining = self._flush_ms / 1000 - (self._clock.monotonic() - self._flushed_at)
                if remaining < 0.001:  # what is left of a float must not be waited for
                    await self._flush()
                    return wait
                return min(wait, remaining)
        except (DiskError, StoreError) as fault:
            log.error("timed messages wait: the disk fails or is full", why=str(fault))
            return LONGEST_SLEEP_S

    async def _deliver(self) -> float:
        while True:
            if self._timers.is_ahead_of(self._clock.now_ms()):
                await self._run_blocking(partial(self._timers.turn_back, self._clock.now_ms()))
                self._start_anew()
            # A recall that was accepted before a slot is due is let in before the slot is taken.
            await self._store.readable.reached(self._store.appended.value)
            has_capacity = self._live.config.timer_stop_enqueue or await self._feed.take_in()
            if self._live.config.timer_stop_dequeue:
                return AGAIN_S
            now = self._clock.now_ms()
            slot_ms = self._timers.next_slot_ms()
            if slot_ms is None or slot_ms + self._precision > now:
                self._timers.passed(now)
                if not has_capacity:
                    continue
                if slot_ms is None and not self._live.config.timer_stop_enqueue:
                    return IDLE_S
                if slot_ms is None:
                    return LONGEST_SLEEP_S
                return min(LONGEST_SLEEP_S, (slot_ms + self._precision - now) / 1000)
            due = await self._run_blocking(partial(self._timers.take, slot_ms))
            if due is None:
                self._start_anew()
                continue
            if not await self._slots.empty(due):
                return AGAIN_S
            await self._run_blocking(partial(self._timers.done, slot_ms))

    def _start_anew(self) -> None:
        """Count anew: the timer's files were just rebuilt."""
        self.counts.start_anew()
        self._slots.start_anew()
        self.glance.start_anew()

    async def _flush(self) -> None:
        """Flush the commit log first: what the timer says about it must be true after a power cut."""
        await self._store.flush_log()
        await self._run_blocking(partial(self._timers.flush, self._clock.now_ms()))
        self._flushed_at = self._clock.monotonic()
        if self.counts.store_changed():
            self._metrics.changed()

    async def adopt(self, read_ms: int) -> None:
        """Go on where the master is, on a slave: it has delivered what is due before this time."""
        async with self._turn:
            await self._run_blocking(partial(self._timers.delivered_until, read_ms))

    async def begin_to_lead(self, read_ms: int, is_doubtful: bool) -> None:
        """Go on where the set's last master was. `is_doubtful`: slots that this broker emptied may be full again."""
        async with self._turn:
            if is_doubtful:
                await self._run_blocking(partial(self._timers.begin_again, read_ms))
                self._start_anew()
            else:
                await self._run_blocking(partial(self._timers.delivered_until, read_ms))

    # --- retention and stop ---------------------------------------------------------------------------------------

    async def carry(self, start: int, end: int) -> None:
        """Put again what waits in a part of the log that is about to go. Raises if that cannot be: the part stays."""
        async with self._turn:
            await self._feed.take_in()
            carried, at = 0, 0
            while units := await self._run_blocking(partial(self._timers.pending_before, end, at, AT_ONCE)):
                await self._put_again(units)
                await self._run_blocking(partial(self._timers.copied, units))
                carried += len(units)
                at = units[-1].position + UNIT_BYTES
            if not carried and not self._timers.waiting:
                return
            await self._store.flush_log()  # the old copies go next
            await self._run_blocking(partial(self._timers.carried, end, self._clock.now_ms()))
        self._arrived.set()
        if carried:
            log.info("timed messages carried forward", messages=carried, start=start, end=end)

    async def _put_again(self, units: Sequence[Unit]) -> None:
        ranges = [Range(unit.record_position, unit.record_size, 0) for unit in units]
        raws = await self._store.read(Selection(GetStatus.FOUND, ranges, 0, 0, 0))
        records = {record.physical_offset: record for record in self._quarantine.decode(raws, TIMER_TOPIC)}
        refusals: list[RequestRefused] = []
        for unit in units:
            record = records.get(unit.record_position)
            if record is None and unit.record_position not in self._quarantine:
                self._carried_lost += 1
                log.error(
                    "A TIMED MESSAGE IS LOST: its record is damaged, and its file goes",
                    position=unit.record_position,
                    lost=self.lost,
                )
            if record is None:
                self.counts.lose(unit.topic_hash)
            else:
                self._put_one_again(unit, record, refusals)
        self._access.intake.flush()
        if refusals:
            raise refusals[0]

    def _put_one_again(self, unit: Unit, record: Record, refusals: list[RequestRefused]) -> None:
        """Put one again. One that cannot be copied is put aside: the file that it is in must go some day."""
        pairs = decode_properties(record.properties)
        try:
            copy = timer_copy(record, pairs, unit.written_ms, self._clock.now_ms(), self._access.store_host)
        except Exception as fault:
            self._quarantine.put(record, fault)
        else:
            self._access.intake.put(copy, self._quarantine.done(record, refusals))
        self.counts.add(pairs.get(Property.REAL_TOPIC, ""), 1 if Property.TIMER_DEL_UNIQKEY in pairs else -1)

    async def close(self) -> None:
        """Write the state. Nothing is delivered any more, and what was is on the medium, so it may be written whole."""
        async with self._turn:
            try:
                await self._store.flush_log()
                await self._run_blocking(partial(self._timers.close, self._clock.now_ms()))
            except (PyroError, DiskError) as fault:
                log.error("the last timed messages may be delivered again: nothing can be synced", why=str(fault))
            self.counts.store_changed()
        await self._metrics.close()
