"""Revives messages of stored check points, ours and Java's, by Java's rules: the queues of the revive topic.

The timer delivers a check point a second before its time and its acks at it, each into the revive queue that its
receipt names. A check point is decided once everything of the two seconds behind its time was read: messages without an
ack are put into the retry topic (`retry_copies.py`). The committed offset of CID_RMQ_SYS_REVIVE_GROUP is that of the
last check point that was decided, as Java keeps it, and is noted once the copies are on the medium.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from .... import logs
from ....config import Live
from ....errors import PyroError
from ....kernel.state import QueueTail
from ....model.pop_names import REVIVE_GROUP, revive_topic
from ....protocol.record import Record
from ....store.log.reader import GetStatus
from ...config import BrokerConfig
from ...intake.intake import LogAccess, Outcome
from ...loop_quarantine import LoopQuarantine
from ...metadata.offsets import Offsets
from .java_records import (
    PointKey,
    StoredAck,
    StoredCheckPoint,
    key_of_ack,
    point_key,
    read_entry,
    stored_point,
)
from .retry_copies import Hidden, RetryCopies
from .spill import JavaSpill

log = logs.get("pyromq.broker")

IDLE_S = 300.0  # what arrives wakes us
AT_ONCE = 64  # records in a turn of the loop: below two milliseconds
BYTES_AT_ONCE = 1 << 20
MOST_UNDECIDED = 50_000  # of one queue: then some are decided before more is read
SURE_MS = 2_000  # so long behind a check point's time all its acks are there
QUIET_MS = 3_000  # nothing came for so long: the clock tells how far the queue is
# Seconds added to the invisible time of a check point whose messages cannot be put, by how often that was tried.
PUT_AGAIN_S = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


@dataclass(slots=True, eq=False, repr=False)
class _Point:
    """A check point that is not decided yet."""

    stored: StoredCheckPoint
    at: int  # its offset in the revive queue
    open: set[int]  # offsets without an ack


@dataclass(slots=True, eq=False, repr=False)
class _ReviveQueue:
    """What was read of one queue, and is not decided."""

    queue_id: int
    next: int  # offset to read
    points: dict[PointKey, _Point] = field(default_factory=dict)  # in the order of the queue
    reached_ms: int = 0  # the largest delivery time that was read
    decided: deque[tuple[int, int]] = field(default_factory=deque)  # end of the copies in the log, offset: to commit


@dataclass(slots=True, eq=False, repr=False)
class ReviveTopic:
    """Event loop only."""

    live: Live[BrokerConfig]
    access: LogAccess
    offsets: Offsets
    copies: RetryCopies
    spill: JavaSpill
    quarantine: LoopQuarantine
    timer_is_behind: Callable[[], bool]
    decided: int = 0  # check points
    given_up: int = 0  # messages that could not be put for hours (skipWhenCKRePutReachMaxTimes)
    _queues: dict[int, _ReviveQueue] = field(default_factory=dict)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    # Decided just before a kill, and not noted: copies of these may be there already.
    _doubtful_until: int = field(init=False)

    def __post_init__(self) -> None:
        store, now_ms = self.access.store, self.access.clock.now_ms()
        self._doubtful_until = 0 if store.recovery.clean_stop else now_ms
        for queue in store.queues.of_topic(self.topic):
            self._queue(queue.queue_id)
        store.on_arrival(self.topic, self._on_arrival)

    @property
    def topic(self) -> str:
        return revive_topic(self.live.config.broker_cluster_name)

    def _queue(self, queue_id: int) -> _ReviveQueue:
        found = self._queues.get(queue_id)
        if found is None:
            last = self.offsets.find(self.topic, REVIVE_GROUP, queue_id)
            found = self._queues[queue_id] = _ReviveQueue(queue_id, 0 if last is None else last + 1)
        return found

    def _on_arrival(self, queue: QueueTail) -> None:
        self._queue(queue.queue_id)
        self._arrived.set()

    def undecided(self) -> int:
        """Return how many check points are due and not decided yet."""
        return sum(len(queue.points) for queue in self._queues.values())

    def behind_ms(self) -> int:
        """Return how late the first of them is."""
        times = [next(iter(queue.points.values())).stored.revive_ms for queue in self._queues.values() if queue.points]
        return max(0, self.access.clock.now_ms() - min(times)) if times else 0

    # --- the loop -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        clock = self.access.clock
        while True:
            self._arrived.clear()
            wait_s = await self.round()
            with suppress(TimeoutError):
                async with clock.timeout(wait_s):
                    await self._arrived.wait()
                    await clock.sleep(self.live.config.revive_interval / 1000)

    async def round(self) -> float:
        """Read and decide what can be. Return the seconds until there is more to do."""
        is_open = False
        for queue in [*self._queues.values()]:
            is_at_end = await self._read(queue)
            if is_at_end and queue.reached_ms and self._is_quiet(queue):
                queue.reached_ms = self.access.clock.now_ms()
            is_open |= not await self._decide(queue) or not is_at_end or bool(queue.points)
        is_open |= not self._commit()
        return self.live.config.revive_interval / 1000 if is_open else IDLE_S

    def _is_quiet(self, queue: _ReviveQueue) -> bool:
        return self.access.clock.now_ms() - queue.reached_ms > QUIET_MS and not self.timer_is_behind()

    # --- reading --------------------------------------------------------------------------------------------------

    async def _read(self, queue: _ReviveQueue) -> bool:
        """Read on, as long as there is room. Return whether that was all there is."""
        while len(queue.points) < MOST_UNDECIDED:
            selection = await self.access.store.select(
                self.topic, queue.queue_id, queue.next, max_count=AT_ONCE, max_bytes=BYTES_AT_ONCE, scan=AT_ONCE
            )
            if selection.status is not GetStatus.FOUND:
                if selection.next_offset <= queue.next or selection.status is GetStatus.NO_MATCHED_LOGIC_QUEUE:
                    return True
                self._note_missing(queue, selection.next_offset)
            for record in self.quarantine.decode(await self.access.store.read(selection), self.topic):
                self._take(queue, record)
            queue.next = selection.next_offset
            await self.access.clock.sleep(0)
        return False

    def _note_missing(self, queue: _ReviveQueue, until: int) -> None:
        log.error(
            "RECORDS OF THE REVIVE TOPIC ARE GONE before they were read: messages that nobody acknowledged may be lost",
            queue=queue.queue_id,
            records=until - queue.next,
        )

    def _take(self, queue: _ReviveQueue, record: Record) -> None:
        try:
            entry = read_entry(record)
        except PyroError as fault:
            self.quarantine.put(record, str(fault))
            return
        if entry is None:
            return
        queue.reached_ms = max(queue.reached_ms, entry.deliver_ms)
        if isinstance(entry.content, StoredCheckPoint):
            _add(queue, entry.content, record.queue_offset)
        else:
            self._acked(queue, entry.content)

    def _acked(self, queue: _ReviveQueue, ack: StoredAck) -> None:
        point = queue.points.get(key_of_ack(ack, self.live.config.broker_name))
        if point is not None:  # else it was decided before, or is no check point's
            point.open.difference_update(ack.acked)

    # --- deciding -------------------------------------------------------------------------------------------------

    async def _decide(self, queue: _ReviveQueue) -> bool:
        """Decide all that can be, in the order of the queue. False: messages could not be put, nor written down."""
        for key, point in [*queue.points.items()]:
            if queue.reached_ms - point.stored.revive_ms <= SURE_MS:
                break
            end = await self._revive(queue, point) if point.open else 0
            if end is None:
                return False
            del queue.points[key]
            queue.decided.append((end, point.at))
            self.decided += 1
            if point.open:
                await self.access.clock.sleep(0)
        return True

    async def _revive(self, queue: _ReviveQueue, point: _Point) -> int | None:
        """Put what was not acked into its retry topic. Return where that ends in the log; None: not all could be."""
        stored = point.stored
        hidden = Hidden(
            stored.group,
            stored.topic,
            stored.queue_id,
            stored.pop_time,
            stored.revive_ms,
            sorted(point.open),
            stored.suspend,
        )
        doubtful = stored.revive_ms <= self._doubtful_until
        result = await self.copies.put_again(hidden, doubtful=doubtful)
        ends, point.open = [result.end], set(result.failed)
        for offset in result.failed:
            if not self._put_point_again(queue, stored, offset, ends):
                log.error("popped messages wait: they cannot be given again now", why=result.why)
                return None
            point.open.discard(offset)
        return max(ends)

    def _put_point_again(self, queue: _ReviveQueue, stored: StoredCheckPoint, offset: int, ends: list[int]) -> bool:
        """Put a check point for the one message, with a later time. False: that cannot be put either."""
        tries = stored.put_again
        if tries >= len(PUT_AGAIN_S) and self.live.config.skip_when_ck_re_put_reach_max_times:
            self.given_up += 1
            log.error("A POPPED MESSAGE IS GIVEN UP: it could not be given again", group=stored.group, offset=offset)
            return True
        later_ms = PUT_AGAIN_S[min(tries, len(PUT_AGAIN_S) - 1)] * 1000
        again = stored_point(
            (stored.group, stored.topic, stored.queue_id),
            stored.broker,
            offset,
            stored.pop_time,
            stored.invisible_ms + later_ms,
            [offset],
            suspend=stored.suspend,
            put_again=tries + 1,
        )
        refused: list[Outcome] = []

        def done(outcome: Outcome) -> None:
            if outcome.refusal is None:
                ends.append(outcome.places[-1].end)
            else:
                refused.append(outcome)

        self.spill.put_point(again, queue.queue_id, done)
        self.access.intake.flush()
        return not refused

    # --- the group's offset ---------------------------------------------------------------------------------------

    def _commit(self) -> bool:
        """Commit what was decided and is on the medium: else a power cut could lose the copies. False: not all is."""
        flushed = self.access.store.flushed.value
        for queue in self._queues.values():
            last = None
            while queue.decided and queue.decided[0][0] <= flushed:
                last = queue.decided.popleft()[1]
            if last is not None:
                self.offsets.commit(self.topic, REVIVE_GROUP, queue.queue_id, last)
        return not any(queue.decided for queue in self._queues.values())

    async def close(self) -> None:
        """Note all that was decided. Nothing is decided any more."""
        try:
            await self.access.store.flush_log()
        except PyroError as fault:
            log.error("popped messages may be given again twice: the log cannot be synced", why=str(fault))
        self._commit()


def _add(queue: _ReviveQueue, stored: StoredCheckPoint, at: int) -> None:
    """Add a check point. One that is there already stands at its new place, and keeps what was acked of it."""
    offsets = {offset for bit, offset in enumerate(stored.offsets) if not stored.bits >> bit & 1}
    key = point_key(stored)
    before = queue.points.pop(key, None)
    if before is not None:
        offsets = before.open | (offsets - set(before.stored.offsets))
    queue.points[key] = _Point(stored, at, offsets)
