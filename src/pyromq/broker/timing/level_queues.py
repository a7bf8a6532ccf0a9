"""The queues of the delay levels as the delivery loop reads them: what waits, when it is due, how far it is delivered.

Reads see what is readable alone. `level_delivery.py` is the only caller, and moves these queues one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ... import logs
from ...ambient import Clock
from ...kernel.records import Range
from ...kernel.state import QueueTail
from ...model.names import SCHEDULE_TOPIC
from ...store.log.reader import GetStatus, Selection
from ...store.message_store import MessageStore
from ...store.queues.queue import StoredQueue
from .level_park import LevelPark
from .level_times import LevelTimes
from .progress import DelayProgress

log = logs.get("pyromq.broker")

AT_ONCE = 1_000  # messages of one level before the other levels get their turn
FEW = 64  # read first: mostly a level has a few that are due, and many that are not
BYTES_AT_ONCE = 4 << 20


@dataclass(slots=True)
class LevelQueue:
    """One level's queue. Everything below `next` has left; `ahead` left too, behind a message that was refused."""

    queue: StoredQueue
    next: int
    due_ms: int | None = None  # of the first that waits; None: not known yet, or none waits
    ahead: set[int] = field(default_factory=set)
    batch: int = FEW  # entries of the next read

    @property
    def number(self) -> int:
        return self.queue.queue_id + 1


class LevelQueues:
    """Event loop only."""

    def __init__(self, store: MessageStore, clock: Clock, park: LevelPark, progress: DelayProgress) -> None:
        self._store = store
        self._clock = clock
        self._progress = progress
        self._due = LevelTimes(lambda: store.commit_log.last_time, park.delay_ms)
        self._levels: dict[int, LevelQueue] = {}
        self.lost = 0  # messages whose log file went before they were due
        for queue in store.queues.of_topic(SCHEDULE_TOPIC):
            self._add(queue)

    def all(self) -> list[LevelQueue]:
        return list(self._levels.values())

    def _add(self, queue: StoredQueue) -> LevelQueue:
        saved = self._progress.offset(queue.queue_id + 1)
        level = LevelQueue(queue, queue.min_offset if saved is None else max(saved, queue.min_offset))
        self._levels[queue.queue_id] = level
        return level

    def arrived(self, queue: QueueTail) -> LevelQueue:
        """Return the level whose queue has something new."""
        level = self._levels.get(queue.queue_id)
        if level is None or level.queue.tail is not queue:
            level = self._add(self._store.queues.get_or_make(SCHEDULE_TOPIC, queue.queue_id))
        self._due.arrived(level.number, queue.readable_end, self._clock.now_ms())
        return level

    def waits_until(self, level: LevelQueue, now_ms: int) -> int | None:
        """Return when the level's first message is due; None if that is now, or has to be read."""
        due_ms = level.due_ms
        if due_ms is None or due_ms <= now_ms or self._due.is_too_far(level.number, due_ms, now_ms):
            return None
        return due_ms

    async def read(self, level: LevelQueue, count: int) -> Selection | None:
        """Return the first entries that wait, None if none do. Skip what lies before them and cannot be read."""
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

    async def due_times(
        self, level: LevelQueue, ranges: Sequence[Range], now_ms: int, *, up_to_the_first: bool = False
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

    def _due_ms(self, level: LevelQueue, one: Range, now_ms: int) -> int:
        entry = level.queue.entry_at(one.queue_offset)
        entry_ms = 0 if entry is None else entry.tag_code
        return self._due.due_ms(level.number, one.queue_offset, entry_ms, level.queue.readable_end, now_ms)

    def advance(self, level: LevelQueue, ranges: Iterable[Range], departed: dict[int, int]) -> None:
        """Move past everything that departed without a gap. What departed behind a gap is remembered, and goes once.

        `departed`: by queue offset, where the record ends that was put for it.
        """
        moved, end = level.next, 0
        for one in ranges:
            if one.queue_offset not in departed:
                break
            moved, end = one.queue_offset + 1, max(end, departed[one.queue_offset])
        level.ahead.update(offset for offset in departed if offset >= moved)
        if moved > level.next:
            self._move(level, moved, end)

    def _move(self, level: LevelQueue, offset: int, end: int) -> None:
        level.next = offset
        self._due.departed(level.number, offset)
        level.ahead = {one for one in level.ahead if one >= offset}
        self._progress.moved(level.number, offset, end)
