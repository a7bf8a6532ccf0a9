"""Shows what waits for a topic in the timer's next slot, before the slot is due: `broker/pop/stored` must know it then.

Nothing is taken out: what is shown is delivered like everything else. While somebody looks the timer stands still, so
what was put to wait for a time before is in its topic, or shown here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from ...ambient import RunBlocking
from ...config import Live
from ...kernel.records import Range
from ...model.java_hash import java_hash
from ...store.log.reader import GetStatus, Selection
from ...store.timer.timer_log import NONE, ChainBroken, Unit
from ...store.timer.timer_store import TimerStore
from ..config import BrokerConfig
from ..intake.intake import LogAccess
from .timer_feed import TimerFeed

AT_ONCE = 500
_EVERY = 1 << 30


@dataclass(slots=True, eq=False, repr=False)
class TimerGlance:
    """Event loop only. `turn` is held by whoever moves the timer."""

    live: Live[BrokerConfig]
    access: LogAccess
    timers: TimerStore
    feed: TimerFeed
    run_blocking: RunBlocking
    turn: asyncio.Lock
    _seen: tuple[int, int] = field(init=False, default=(0, NONE))  # a slot, and the last unit of it that was seen

    def start_anew(self) -> None:
        """Forget what was seen: the timer's files were made anew."""
        self.note_seen(0, NONE)

    def note_seen(self, slot_ms: int, last: int) -> None:
        self._seen = (slot_ms, last)

    @asynccontextmanager
    async def still(self, topic: str) -> AsyncIterator[StillTimer]:
        """Let the timer stand still, with everything taken in that was put to wait before."""
        async with self.turn:
            await self.access.store.readable.reached(self.access.store.appended.value)
            is_whole = not self.live.config.timer_stop_enqueue and await self.feed.take_in()
            yield await self._glance(java_hash(topic)) if is_whole else StillTimer(self, 0, (), 0, NONE)

    async def waiting(self, topic: str, begun: Callable[[int], None]) -> AsyncIterator[Sequence[bytes]]:
        """Yield all records that wait for a topic, slot by slot, the next first.

        `begun` is called with the time while the timer stands still for the first look: what was put before that is
        shown, if it is still to come.
        """
        topic_hash = java_hash(topic)
        async with self.turn:
            await self.access.store.readable.reached(self.access.store.appended.value)
            if not self.live.config.timer_stop_enqueue:
                await self.feed.take_in()
            begun(self.access.clock.now_ms())
            slots = await self.run_blocking(partial(self.timers.counts, _EVERY))
        for slot_ms, _ in slots:
            async with self.turn:
                units = await self._units(slot_ms)
            own = [unit for unit in units if unit.topic_hash == topic_hash and not unit.is_delete]
            async for raws in self.read(own):
                yield raws

    async def _units(self, slot_ms: int) -> Sequence[Unit]:
        try:
            return await self.run_blocking(partial(self.timers.newer, slot_ms, NONE))
        except ChainBroken:
            return ()  # the timer finds that too, and mends it

    async def read(self, units: Sequence[Unit]) -> AsyncIterator[Sequence[bytes]]:
        """Yield the records of units, some at a time. What was carried forward waits in a copy."""
        store, low = self.access.store, self.timers.carried_to
        own = [unit for unit in units if unit.record_position >= max(low, store.commit_log.start)]
        for start in range(0, len(own), AT_ONCE):
            ranges = [Range(one.record_position, one.record_size, 0) for one in own[start : start + AT_ONCE]]
            yield await store.read(Selection(GetStatus.FOUND, ranges, 0, 0, 0))

    async def _glance(self, topic_hash: int) -> StillTimer:
        now_ms, precision = self.access.clock.now_ms(), self.live.config.timer_precision_ms
        slot_ms = self.timers.next_slot_ms()
        if slot_ms is None or slot_ms > now_ms:
            return StillTimer(self, now_ms, (), *self._seen)
        above = self._seen[1] if self._seen[0] == slot_ms else NONE
        try:
            units = await self.run_blocking(partial(self.timers.newer, slot_ms, above))
        except ChainBroken:
            return StillTimer(self, slot_ms, (), *self._seen)  # the timer finds that too, and mends it
        last = units[-1].position if units else above
        wanted = [unit for unit in units if unit.topic_hash == topic_hash and not (unit.is_delete or unit.is_roll)]
        return StillTimer(self, min(now_ms, slot_ms + precision), wanted, slot_ms, last)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StillTimer:
    """The timer while it stands still. Everything that waits for a time up to `until_ms` was delivered, or is shown."""

    glance: TimerGlance
    until_ms: int
    units: Sequence[Unit]
    slot_ms: int
    last: int

    async def records(self) -> AsyncIterator[Sequence[bytes]]:
        """Yield the records that wait and were not seen before, some at a time, the oldest first."""
        async for raws in self.glance.read(self.units):
            yield raws

    def seen(self) -> None:
        """Say that `records` need not be shown again."""
        self.glance.note_seen(self.slot_ms, self.last)
