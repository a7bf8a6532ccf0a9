"""Delivery of delayed messages: the loop that takes what is due out of the level queues and puts it to its topic.

`wiring/` starts it beside the store. It sleeps until the first message of any level is due, or until one arrives at a
level that was empty. Reads see what is readable alone, puts go through `intake`, progress is `progress.py`. Retention
calls `carry` before a log file goes. Nobody else moves these queues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ... import logs
from ...ambient import Clock
from ...errors import PyroError, RequestRefused
from ...kernel.records import Range
from ...kernel.state import QueueTail
from ...model.message import Property
from ...model.names import HALF_TOPIC, SCHEDULE_TOPIC
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from ...store.log.reader import GetStatus, KeyQuery, Selection
from ...store.message_store import MessageStore
from ...store.queues.queue import StoredQueue
from ..intake.intake import Intake, Outcome
from ..loop_quarantine import LoopQuarantine
from .level_times import LevelTimes
from .park import LevelPark, due_of, unpark, wanted_level
from .progress import DelayProgress

log = logs.get("pyromq.broker")

AT_ONCE = 1_000  # messages of one level between two looks at the other levels
FEW = 64  # looked at first: mostly a level has a few that are due, and many that are not
BYTES_AT_ONCE = 4 << 20
LOOK_S = 10.0  # the wall clock may be set while we sleep
IDLE_S = 300.0  # nothing waits, and what arrives wakes us
AGAIN_S = 1.0  # after a put that was refused

PutCounter = Callable[[str, int, int, int], None]


@dataclass(slots=True)
class _Level:
    """One level's queue. Everything below `next` has left; `ahead` left too, behind a message that was refused."""

    queue: StoredQueue
    next: int
    due_ms: int | None = None  # of the first that waits, None: not looked at yet, or none waits
    ahead: set[int] = field(default_factory=set)
    look: int = FEW  # entries at the next look

    @property
    def number(self) -> int:
        return self.queue.queue_id + 1


class LevelDelivery:
    """Event loop only. `count` is told of every message that reached its topic."""

    def __init__(
        self,
        store: MessageStore,
        intake: Intake,
        clock: Clock,
        park: LevelPark,
        progress: DelayProgress,
        quarantine: LoopQuarantine,
        store_host: bytes,
        count: PutCounter = lambda topic, queue_id, messages, size: None,
    ) -> None:
        self._store = store
        self._intake = intake
        self._clock = clock
        self._park = park
        self._progress = progress
        self._quarantine = quarantine
        self._store_host = store_host
        self._count = count
        self._due = LevelTimes(lambda: store.commit_log.last_time, park.delay_ms)
        self._levels: dict[int, _Level] = {}
        self.lost = 0  # messages whose log file went before they were due
        self._arrived = asyncio.Event()
        self._turn = asyncio.Lock()  # the loop and `carry` must not move one queue at the same time
        # Delivered just before a kill, and not yet noted: what came due until now may have left already.
        self._doubtful_until = 0 if store.recovery.clean_stop else clock.now_ms()
        for queue in store.queues.of_topic(SCHEDULE_TOPIC):
            self._add(queue)
        store.on_arrival(SCHEDULE_TOPIC, self._on_arrival)

    def _add(self, queue: StoredQueue) -> _Level:
        saved = self._progress.offset(queue.queue_id + 1)
        level = _Level(queue, queue.min_offset if saved is None else max(saved, queue.min_offset))
        self._levels[queue.queue_id] = level
        return level

    def _on_arrival(self, queue: QueueTail) -> None:
        level = self._levels.get(queue.queue_id)
        if level is None or level.queue.tail is not queue:
            level = self._add(self._store.queues.get_or_make(SCHEDULE_TOPIC, queue.queue_id))
        if level.due_ms is None:
            self._arrived.set()
        self._due.arrived(level.number, queue.readable_end, self._clock.now_ms())

    # --- the loop -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._arrived.clear()
            wait = await self.round()
            try:
                async with self._clock.timeout(wait):
                    await self._arrived.wait()
            except TimeoutError:
                pass

    async def round(self) -> float:
        """Deliver what is due. Seconds until there is more to do."""
        async with self._turn:
            waits = [await self._drain(level) for level in list(self._levels.values())]
        return min(waits, default=IDLE_S)

    async def _drain(self, level: _Level) -> float:
        """Deliver what is due of one level; seconds until its next one is."""
        while True:
            now = self._clock.now_ms()
            if (
                level.due_ms is not None
                and level.due_ms > now
                and not self._due.is_too_far(level.number, level.due_ms, now)
            ):
                return min(LOOK_S, (level.due_ms - now) / 1000)
            selection = await self._next(level, level.look)
            if selection is None:
                level.due_ms = None
                return IDLE_S
            times = await self._times(level, selection.ranges, now, up_to_the_first=True)
            due, level.due_ms = _split(selection.ranges, times, now)
            level.look = AT_ONCE if level.due_ms is None else FEW
            if due and not await self._deliver(level, replace(selection, ranges=due), times, now):
                level.due_ms = None
                return AGAIN_S

    async def _next(self, level: _Level, count: int) -> Selection | None:
        """Return the first entries that wait, None if none do.

        What lies before them and cannot be had is stepped over.
        """
        while True:
            selection = await self._store.select(
                SCHEDULE_TOPIC, level.queue.queue_id, level.next, max_count=count, max_bytes=BYTES_AT_ONCE, scan=count
            )
            if selection.status is GetStatus.FOUND:
                return selection
            if selection.next_offset == level.next:
                return None
            if selection.status is GetStatus.OFFSET_TOO_SMALL:
                self.lost += selection.next_offset - level.next
                log.error(
                    "DELAYED MESSAGES ARE LOST: their log file went before they were due",
                    level=level.number,
                    messages=selection.next_offset - level.next,
                    lost=self.lost,
                )
            self._move(level, selection.next_offset, 0)

    async def _times(
        self, level: _Level, ranges: Sequence[Range], now_ms: int, *, up_to_the_first: bool = False
    ) -> list[int]:
        """Return when each is due, as its queue entry says; if wanted, up to the first that is not due yet."""

        def times() -> list[int]:
            found: list[int] = []
            for one in ranges:
                found.append(self._due_ms(level, one, now_ms))
                if up_to_the_first and found[-1] > now_ms:
                    break
            return found

        return await self._store.ask(times)

    def _due_ms(self, level: _Level, one: Range, now_ms: int) -> int:
        entry = level.queue.entry_at(one.queue_offset)
        told_ms = 0 if entry is None else entry.tag_code
        return self._due.due_ms(level.number, one.queue_offset, told_ms, level.queue.readable_end, now_ms)

    # --- messages -------------------------------------------------------------------------------------------------

    async def _deliver(self, level: _Level, selection: Selection, times: Sequence[int], now_ms: int) -> bool:
        """Put them to their topics, or on to the next hop. False: one was refused, and is tried again. One that cannot
        be handled is put aside."""
        raws = await self._store.read(selection)
        records = {record.queue_offset: record for record in self._quarantine.decode(raws, SCHEDULE_TOPIC)}
        left: dict[int, int] = {}  # queue offset -> end of what was put for it
        refusals: list[RequestRefused] = []
        for one, due_ms in zip(selection.ranges, times, strict=False):
            record = records.get(one.queue_offset)
            target = None if record is None else await self._target_or_aside(record, due_ms, now_ms)
            if record is None or target is None or one.queue_offset in level.ahead:
                left[one.queue_offset] = 0
            else:
                self._intake.put(target, self._put(record, target, left, refusals))
        self._intake.flush()
        self._advance(level, selection.ranges, left)
        if refusals:
            log.error("delayed messages wait: they cannot be stored", level=level.number, why=str(refusals[0]))
        return not refusals

    def _put(
        self, record: Record, target: Record, left: dict[int, int], refusals: list[RequestRefused]
    ) -> Callable[[Outcome], None]:
        def done(outcome: Outcome) -> None:
            if outcome.refusal is not None:
                if self._quarantine.put_refused(record, outcome.refusal):
                    left[record.queue_offset] = 0
                else:
                    refusals.append(outcome.refusal)
                return
            placed = outcome.places[-1]
            left[record.queue_offset] = placed.end
            self._count(target.topic, target.queue_id, 1, placed.size)

        return done

    async def _target_or_aside(self, record: Record, due_ms: int, now_ms: int) -> Record | None:
        try:
            return await self._target(record, due_ms, now_ms)
        except Exception as fault:
            self._quarantine.put(record, fault)
            return None

    async def _target(self, record: Record, due_ms: int, now_ms: int) -> Record | None:
        """Return what to put for a waiting message; None if nothing is to be put for it."""
        pairs = decode_properties(record.properties)
        due_ms = due_of(pairs, due_ms)
        if due_ms > now_ms:
            onward = self._park.until(record, wanted_level(pairs), due_ms, now_ms)
            onward.store_host = self._store_host
            return onward
        target = unpark(record, pairs, self._store_host)
        if target is None or target.topic == HALF_TOPIC:
            log.error(
                "A DELAYED MESSAGE IS LEFT OUT: it does not say where it belongs",
                position=record.physical_offset,
                real_topic=pairs.get(Property.REAL_TOPIC),
            )
            self._quarantine.put(record, "it does not say where it belongs")
            return None
        if due_ms <= self._doubtful_until and await self._has_left(target, pairs, due_ms):
            return None
        return target

    async def _has_left(self, target: Record, pairs: dict[str, str], due_ms: int) -> bool:
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
            for found in await self._store.by_key(KeyQuery(target.topic, unique, begin=due_ms))
        )

    def _advance(self, level: _Level, ranges: Iterable[Range], left: dict[int, int]) -> None:
        """Advance past everything that left without a gap.

        What left behind a gap is remembered, so that it leaves once.
        """
        moved, end = level.next, 0
        for one in ranges:
            if one.queue_offset not in left:
                break
            moved, end = one.queue_offset + 1, max(end, left[one.queue_offset])
        level.ahead.update(offset for offset in left if offset >= moved)
        if moved > level.next:
            self._move(level, moved, end)

    def _move(self, level: _Level, offset: int, end: int) -> None:
        level.next = offset
        self._due.left(level.number, offset)
        level.ahead = {one for one in level.ahead if one >= offset}
        self._progress.moved(level.number, offset, end)

    # --- retention and stop ---------------------------------------------------------------------------------------

    async def carry(self, start: int, end: int) -> None:
        """Put again what waits in a part of the log that is about to go. Raises if that cannot be: the part stays."""
        carried = 0
        async with self._turn:
            for level in list(self._levels.values()):
                carried += await self._carry_level(level, end)
        if carried:
            await self._store.flush_log()  # the old copies go next
            log.info("delayed messages carried forward", messages=carried, start=start, end=end)

    async def _carry_level(self, level: _Level, end: int) -> int:
        carried = 0
        while (selection := await self._next(level, AT_ONCE)) is not None:
            going = [one for one in selection.ranges if one.position < end]
            if not going:
                break
            now = self._clock.now_ms()
            times = await self._times(level, going, now)
            if not await self._deliver(level, replace(selection, ranges=going), times, now):
                raise RequestRefused(f"messages of delay level {level.number} could not be carried forward")
            carried += len(going)
        level.due_ms = None
        self._arrived.set()
        return carried

    async def close(self) -> None:
        """Write the progress.

        Nothing is delivered any more: all that was is on the medium, so that progress may be written whole.
        """
        try:
            await self._store.flush_log()
        except PyroError as fault:
            log.error("the last delayed messages may be delivered again: the log cannot be synced", why=str(fault))


def _split(ranges: Sequence[Range], times: Sequence[int], now_ms: int) -> tuple[Sequence[Range], int | None]:
    """Return what is due, and when the first behind it will be."""
    for count, due_ms in enumerate(times):
        if due_ms > now_ms:
            return ranges[:count], due_ms
    return ranges, None
