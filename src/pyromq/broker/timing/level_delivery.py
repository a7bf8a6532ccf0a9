"""The loop that delivers delayed messages: it puts what is due in the queues of the delay levels to its topic.

`wiring/` starts it beside the store. It sleeps until the first message of any level is due, or until one arrives at a
level that was empty. Puts go through `intake`, progress is `progress.py`. Retention calls `carry` before a log file
goes. Nobody else moves these queues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ... import logs
from ...ambient import Clock
from ...errors import PyroError, RequestRefused
from ...kernel.records import Placed, Range
from ...kernel.state import QueueTail
from ...model.message import Property
from ...model.names import HALF_TOPIC, SCHEDULE_TOPIC
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from ...store.log.reader import KeyQuery, Selection
from ..intake.intake import LogAccess
from ..loop_quarantine import LoopQuarantine
from .level_park import LevelPark, due_of, unpark, wanted_level
from .level_queues import AT_ONCE, FEW, LevelQueue, LevelQueues
from .progress import DelayProgress

log = logs.get("pyromq.broker")

LONGEST_SLEEP_S = 10.0  # the wall clock may be set while we sleep
IDLE_S = 300.0  # nothing waits, and what arrives wakes us
AGAIN_S = 1.0  # after a put that was refused


class LevelDelivery:
    """Event loop only."""

    def __init__(self, access: LogAccess, park: LevelPark, progress: DelayProgress, quarantine: LoopQuarantine) -> None:
        self._access = access
        self._park = park
        self._quarantine = quarantine
        self._queues = LevelQueues(access.store, access.clock, park, progress)
        self._arrived = asyncio.Event()
        self._turn = asyncio.Lock()  # the loop and `carry` must not move one queue at the same time
        # Delivered just before a kill, and not yet noted: what came due until now may have left already.
        self._doubtful_until = 0 if access.knows_what_left else access.doubtful_until()
        access.store.on_arrival(SCHEDULE_TOPIC, self._on_arrival)

    @property
    def lost(self) -> int:
        """Return how many messages lost their log file before they were due."""
        return self._queues.lost

    def _on_arrival(self, queue: QueueTail) -> None:
        if self._queues.arrived(queue).due_ms is None:
            self._arrived.set()

    async def adopt(self, offsets: Mapping[int, int], end: int) -> None:
        """Go on where the master is, on a slave; everything that it has delivered is in the log below `end`."""
        async with self._turn:
            self._queues.adopt(offsets, end)

    # --- the loop -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await run_rounds(self._access.clock, self._arrived, self.round)

    async def round(self) -> float:
        """Deliver what is due, and return the seconds until there is more to do."""
        async with self._turn:
            waits = [await self._drain(level) for level in self._queues.all()]
        return min(waits, default=IDLE_S)

    async def _drain(self, level: LevelQueue) -> float:
        """Deliver what is due of one level, and return the seconds until its next message is."""
        while True:
            now = self._access.clock.now_ms()
            if (due_ms := self._queues.waits_until(level, now)) is not None:
                return min(LONGEST_SLEEP_S, (due_ms - now) / 1000)
            selection = await self._queues.read(level, level.batch)
            if selection is None:
                level.due_ms = None
                return IDLE_S
            times = await self._queues.due_times(level, selection.ranges, now, up_to_the_first=True)
            due, level.due_ms = _split(selection.ranges, times, now)
            level.batch = AT_ONCE if level.due_ms is None else FEW
            if due and not await self._deliver(level, replace(selection, ranges=due), times, now):
                level.due_ms = None
                return AGAIN_S

    # --- messages -------------------------------------------------------------------------------------------------

    async def _deliver(self, level: LevelQueue, selection: Selection, times: Sequence[int], now_ms: int) -> bool:
        """Put messages to their topics, or on to the next hop. One that cannot be handled goes into quarantine.

        Return False if one was refused, and is to be tried again.
        """
        raws = await self._access.store.read(selection)
        records = {record.queue_offset: record for record in self._quarantine.decode(raws, SCHEDULE_TOPIC)}
        departed: dict[int, int] = {}  # queue offset -> end of what was put for it
        refusals: list[RequestRefused] = []
        for one, due_ms in zip(selection.ranges, times, strict=False):
            record = records.get(one.queue_offset)
            target = (
                None if record is None else await self._quarantine.tried(record, self._target(record, due_ms, now_ms))
            )
            if record is None or target is None or one.queue_offset in level.ahead:
                departed[one.queue_offset] = 0
            else:
                left = partial(self._left, one.queue_offset, target, departed)
                self._access.intake.put(target, self._quarantine.done(record, refusals, left))
        self._access.intake.flush()
        self._queues.advance(level, selection.ranges, departed)
        if refusals:
            log.error("delayed messages wait: they cannot be stored", level=level.number, why=str(refusals[0]))
        return not refusals

    def _left(self, offset: int, target: Record, departed: dict[int, int], placed: Placed | None) -> None:
        departed[offset] = 0 if placed is None else placed.end
        if placed is not None:
            self._access.count(target.topic, target.queue_id, 1, placed.size)

    async def _target(self, record: Record, due_ms: int, now_ms: int) -> Record | None:
        """Return the record to put for a waiting message; None if nothing is to be put."""
        pairs = decode_properties(record.properties)
        due_ms = due_of(pairs, due_ms)
        if due_ms > now_ms:
            onward = self._park.until(record, wanted_level(pairs), due_ms, now_ms)
            onward.store_host = self._access.store_host
            return onward
        target = unpark(record, pairs, self._access.store_host)
        if target is None or target.topic == HALF_TOPIC:
            log.error(
                "A DELAYED MESSAGE IS LEFT OUT: it does not say where it belongs",
                position=record.physical_offset,
                real_topic=pairs.get(Property.REAL_TOPIC),
            )
            self._quarantine.put(record, "it does not say where it belongs")
            return None
        if due_ms <= self._doubtful_until and await self._has_departed(target, pairs, due_ms):
            return None
        return target

    async def _has_departed(self, target: Record, pairs: dict[str, str], due_ms: int) -> bool:
        """Return whether it was delivered before the broker was killed: the index knows, by its unique id."""
        unique = pairs.get(Property.UNIQ_KEY)
        if unique is None:
            return False
        return any(
            found.queue_id == target.queue_id
            and found.store_timestamp >= due_ms
            and found.reconsume_times == target.reconsume_times
            and found.born_timestamp == target.born_timestamp
            and found.body == target.body
            for found in await self._access.store.by_key(KeyQuery(target.topic, unique, begin=due_ms))
        )

    # --- retention and stop ---------------------------------------------------------------------------------------

    async def carry(self, start: int, end: int) -> None:
        """Put again what waits in a part of the log that is about to go. Raise where that fails: the part stays."""
        carried = 0
        async with self._turn:
            for level in self._queues.all():
                carried += await self._carry_level(level, end)
        if carried:
            await self._access.store.flush_log()  # the old copies go next
            log.info("delayed messages carried forward", messages=carried, start=start, end=end)

    async def _carry_level(self, level: LevelQueue, end: int) -> int:
        carried = 0
        while (selection := await self._queues.read(level, AT_ONCE)) is not None:
            going = [one for one in selection.ranges if one.position < end]
            if not going:
                break
            now = self._access.clock.now_ms()
            times = await self._queues.due_times(level, going, now)
            if not await self._deliver(level, replace(selection, ranges=going), times, now):
                raise RequestRefused(f"messages of delay level {level.number} could not be carried forward")
            carried += len(going)
        level.due_ms = None
        self._arrived.set()
        return carried

    async def close(self) -> None:
        """Sync the log once nothing is delivered any more, so that all of the progress may be written."""
        try:
            await self._access.store.flush_log()
        except PyroError as fault:
            log.error("the last delayed messages may be delivered again: the log cannot be synced", why=str(fault))


async def run_rounds(
    clock: Clock, arrived: asyncio.Event, run_round: Callable[[], Awaitable[float]], gather_s: float = 0.0
) -> None:
    """Run round after round, each when something arrives or when the seconds that the last one returned are over."""
    while True:
        arrived.clear()
        wait = await run_round()
        try:
            async with clock.timeout(wait):
                await arrived.wait()
                if gather_s:
                    await clock.sleep(gather_s)
        except TimeoutError:
            pass


def _split(ranges: Sequence[Range], times: Sequence[int], now_ms: int) -> tuple[Sequence[Range], int | None]:
    """Return the entries that are due, and when the first behind them will be."""
    for count, due_ms in enumerate(times):
        if due_ms > now_ms:
            return ranges[:count], due_ms
    return ranges, None
