"""The queues of the delay levels as the delivery loop reads them: what waits, when it is due, how far it is delivered.

Reads see what is readable alone. `level_delivery.py` is the only caller, and moves these queues one at a time.

A queue entry says when it is due: store time plus delay. Store times never go down: after a clock that was ahead is set
right they stay where they are until it has caught up, which may take a year. What was stored meanwhile waits its
level's delay from the moment that it was seen, and nothing is delivered before that (`LevelTimes`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from .progress import DelayProgress

log = logs.get("pyromq.broker")

AT_ONCE = 1_000  # messages of one level before the other levels get their turn
FEW = 64  # read first: mostly a level has a few that are due, and many that are not
BYTES_AT_ONCE = 4 << 20
SET_BACK_MS = 1_000  # a clock that goes back by less makes messages late by that
_SHARED_MS = 1_000  # arrivals within this time share a mark: then their delay counts from the last of them


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


class LevelTimes:
    """Event loop only. `log_ms`: the store time of the newest record; `delay_ms`: of a level, None if there is none."""

    def __init__(self, log_ms: Callable[[], int], delay_ms: Callable[[int], int | None]) -> None:
        self._log_ms = log_ms
        self._delay_ms = delay_ms
        # By level, the newest last: all entries below an offset were there at a time.
        self._seen: dict[int, deque[tuple[int, int]]] = {}

    def arrived(self, level: int, end: int, now_ms: int) -> None:
        """Note that the level's queue has something new, and ends at `end`."""
        if self._is_set_back(now_ms):
            self._note_seen(level, end, now_ms)

    def departed(self, level: int, offset: int) -> None:
        """Forget what was seen below an offset: all of it has departed."""
        seen = self._seen.get(level)
        while seen and seen[0][0] <= offset:
            seen.popleft()

    def is_too_far(self, level: int, due_ms: int, now_ms: int) -> bool:
        """Return whether a due time is too far ahead to be true: the clock was ahead when it was written."""
        delay_ms = self._delay_ms(level)
        return delay_ms is not None and due_ms > now_ms + delay_ms + SET_BACK_MS and self._is_set_back(now_ms)

    def due_ms(self, level: int, offset: int, entry_ms: int, end: int, now_ms: int) -> int:
        """Return when the entry at `offset` is due, which itself says `entry_ms`. `end` is the queue's."""
        if not self.is_too_far(level, entry_ms, now_ms):
            return entry_ms
        return self._seen_ms(level, offset, end, now_ms) + (self._delay_ms(level) or 0)

    def _is_set_back(self, now_ms: int) -> bool:
        return self._log_ms() > now_ms + SET_BACK_MS

    def _seen_ms(self, level: int, offset: int, end: int, now_ms: int) -> int:
        for known, seen_ms in self._seen.get(level, ()):
            if offset < known and seen_ms <= now_ms:
                return seen_ms
        self._note_seen(level, end, now_ms)
        return now_ms

    def _note_seen(self, level: int, end: int, now_ms: int) -> None:
        seen = self._seen.setdefault(level, deque())
        while seen and seen[-1][1] > now_ms:
            seen.pop()  # the clock was set back once more: those times are still to come
        if seen and seen[-1][1] // _SHARED_MS == now_ms // _SHARED_MS:
            seen.pop()
        seen.append((end, now_ms))


class LevelQueues:
    """Event loop only."""

    def __init__(self, store: MessageStore, clock: Clock, park: LevelPark, progress: DelayProgress) -> None:
        self._store = store
        self._clock = clock
        self._progress = progress
        self._due = LevelTimes(lambda: store.commit_log.tail.last_time, park.delay_ms)
        self._levels: dict[int, LevelQueue] = {}
        self.lost = 0  # messages whose log file went before they were due
        for queue in store.queues.of_topic(SCHEDULE_TOPIC):
            self._add(queue)

    def all(self) -> list[LevelQueue]:
        return list(self._levels.values())

    def _add(self, queue: StoredQueue) -> LevelQueue:
        saved = self._progress.offsets.get(queue.queue_id + 1)
        level = LevelQueue(queue, queue.min_offset if saved is None else max(saved, queue.min_offset))
        self._levels[queue.queue_id] = level
        return level

    def adopt(self, offsets: Mapping[int, int], end: int) -> None:
        """Go on where the master is; everything that it has delivered is in the log below `end`."""
        for number, offset in offsets.items():
            if self._progress.offsets.get(number) != offset:
                self._progress.moved(number, offset, end)
        for level in self._levels.values():
            next_offset = max(offsets.get(level.number, 0), level.queue.min_offset)
            if level.next != next_offset:
                level.next, level.due_ms, level.batch = next_offset, None, FEW
                level.ahead.clear()

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
