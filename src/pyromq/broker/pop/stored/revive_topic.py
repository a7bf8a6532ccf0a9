"""Revives messages of stored check points, ours and Java's, at their time: the queues of the revive topic.

The timer delivers a check point up to a second before its time and its acks at it or up to a second later, each into
the revive queue that its receipt names. Once the time is over no ack is accepted any more. Those that were are in the
revive queue, or wait in the timer's next slot, where they are looked at (`PausedTimer`): so all are known at once, and
messages without an ack are put into the retry topic (`retry_copies.py`). The committed offset of
CID_RMQ_SYS_REVIVE_GROUP is that of the last check point before which all were decided, as Java keeps it, and is noted
once the copies are on the medium.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field

from .... import logs
from ....config import Live
from ....errors import PyroError
from ....kernel.state import QueueTail
from ....model.message import Property
from ....model.pop_names import REVIVE_GROUP, revive_topic
from ....model.wire_text import whole_number
from ....protocol.properties import find_property
from ....protocol.record import Record, RecordError, decode_record
from ....store.log.reader import GetStatus
from ...config import BrokerConfig
from ...intake.intake import LogAccess, Outcome
from ...loop_quarantine import LoopQuarantine
from ...metadata.offsets import Offsets
from ..seams import PausedTimer
from .in_flight import Pair, StoredInFlight
from .java_records import PUT_AGAIN_S, StoredAck, StoredCheckPoint, key_of_ack, later_point, read_entry
from .retry_copies import Hidden, RetryCopies
from .revive_queue import RevivePoint, ReviveQueue, first_of
from .spill import JavaSpill

log = logs.get("pyromq.broker")

_REAL_QUEUE = Property.REAL_QID.encode()

TICK_S = 0.05  # between two looks
IDLE_S = 300.0  # what arrives wakes us
AT_ONCE = 64  # records in a turn of the loop: below two milliseconds
BYTES_AT_ONCE = 1 << 20
FORGOTTEN_MS = 60_000  # so long behind its slot, if all was read, a record does not come any more
MOST_UNDECIDED = 10_000  # of one queue: then some are decided before more is read, if they can be


@dataclass(slots=True, eq=False, repr=False)
class ReviveTopic:
    """Event loop only."""

    live: Live[BrokerConfig]
    access: LogAccess
    offsets: Offsets
    copies: RetryCopies
    spill: JavaSpill
    quarantine: LoopQuarantine
    still_timer: Callable[[str], AbstractAsyncContextManager[PausedTimer]]
    counted: StoredInFlight  # what is not read yet
    decided: int = 0  # check points
    given_up: int = 0  # messages that could not be put for hours (skipWhenCKRePutReachMaxTimes)
    _queues: dict[int, ReviveQueue] = field(default_factory=dict)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    # Decided just before a kill, and not noted: copies of these may be there already.
    _doubtful_until: int = field(init=False)
    _counted_from: dict[int, int] = field(default_factory=dict)  # by queue: what was there at the start is not counted
    _forgotten_ms: int = 0

    def __post_init__(self) -> None:
        store = self.access.store
        self._doubtful_until = 0 if self.access.knows_what_left else self.access.doubtful_until()
        for queue in store.queues.of_topic(self.topic):
            self._queue(queue.queue_id)
            self._counted_from[queue.queue_id] = queue.next_offset
        store.on_arrival(self.topic, self._on_arrival)

    @property
    def topic(self) -> str:
        return revive_topic(self.live.config.broker_cluster_name)

    def _queue(self, queue_id: int) -> ReviveQueue:
        found = self._queues.get(queue_id)
        if found is None:
            last = self.offsets.find(self.topic, REVIVE_GROUP, queue_id)
            found = self._queues[queue_id] = ReviveQueue(queue_id, 0 if last is None else last + 1)
        return found

    def _on_arrival(self, queue: QueueTail) -> None:
        self._queue(queue.queue_id)
        self._arrived.set()

    def undecided(self) -> int:
        """Return how many check points are due, or nearly, and not decided yet."""
        return sum(len(queue) for queue in self._queues.values())

    def in_flight(self) -> dict[Pair, int]:
        """Return how many messages of stored check points are neither acked nor given again, by group and topic."""
        found = self.counted.counts()
        for queue in self._queues.values():
            for point in queue.undecided():
                found[point.stored.group, point.stored.topic] += len(point.open)
        return {pair: count for pair, count in found.items() if count > 0}

    def behind_ms(self) -> int:
        """Return how late the first of them is."""
        first = first_of(self._queues.values())
        return 0 if first is None else max(0, self.access.clock.now_ms() - first.stored.revive_ms)

    # --- the loop -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        clock = self.access.clock
        while True:
            self._arrived.clear()
            wait_s = await self.round()
            with suppress(TimeoutError):
                async with clock.timeout(wait_s):
                    await self._arrived.wait()
                    await clock.sleep(TICK_S)

    async def round(self) -> float:
        """Read, and decide what is due. Return the seconds until there is more to do."""
        await self._read_all()
        is_done = self._first_due_s() > 0 or await self._decide_due()
        later_s = self.live.config.revive_interval / 1000
        if not self._commit() or not is_done:
            return min(later_s, max(TICK_S, self._first_due_s())) if is_done else later_s
        return min(IDLE_S, max(TICK_S, self._first_due_s()))

    def _first_due_s(self) -> float:
        """Return the seconds until the first is due."""
        first = first_of(self._queues.values())
        return IDLE_S if first is None else (first.stored.revive_ms - self.access.clock.now_ms()) / 1000

    async def _decide_due(self) -> bool:
        """Decide what is due. False: messages could not be put, nor written down."""
        now_ms = self.access.clock.now_ms()
        self.spill.put_all()  # what was accepted before this moment is in the log now
        async with self.still_timer(self.topic) as timer:
            await self._read_all()
            async for raws in timer.records():
                for raw in raws:
                    self._take_waiting(raw)
            if all(queue.is_at_end for queue in self._queues.values()):  # else these acks may be of what was not read
                timer.seen()
                self._forget_counts(min(now_ms, timer.until_ms))
            until_ms = min(now_ms, timer.until_ms)
        for queue in [*self._queues.values()]:
            if not await self._decide(queue, queue.known_until(until_ms)):
                return False
        return True

    def _forget_counts(self, until_ms: int) -> None:
        """Forget what is left of slots that are long over: records that were counted and never came."""
        if until_ms >= self._forgotten_ms + FORGOTTEN_MS:
            self._forgotten_ms = until_ms
            self.counted.forget(until_ms - FORGOTTEN_MS)

    # --- reading --------------------------------------------------------------------------------------------------

    async def _read_all(self) -> None:
        for queue in [*self._queues.values()]:
            await self._read(queue)

    async def _read(self, queue: ReviveQueue) -> None:
        """Read on, as long as there is room, and note whether that was all there is."""
        queue.is_at_end = False
        while queue.has_room(MOST_UNDECIDED):
            selection = await self.access.store.select(
                self.topic, queue.queue_id, queue.next, max_count=AT_ONCE, max_bytes=BYTES_AT_ONCE, scan=AT_ONCE
            )
            if selection.status is not GetStatus.FOUND:
                if selection.next_offset <= queue.next or selection.status is GetStatus.NO_MATCHED_LOGIC_QUEUE:
                    queue.is_at_end = True
                    return
                self._note_missing(queue, selection.next_offset)
            for record in self.quarantine.decode(await self.access.store.read(selection), self.topic):
                self._take(queue, record)
            queue.next = selection.next_offset
            await self.access.clock.sleep(0)

    def _note_missing(self, queue: ReviveQueue, until: int) -> None:
        log.error(
            "RECORDS OF THE REVIVE TOPIC ARE GONE before they were read: messages that nobody acknowledged may be lost",
            queue=queue.queue_id,
            records=until - queue.next,
        )

    def _take(self, queue: ReviveQueue, record: Record) -> None:
        try:
            entry = read_entry(record)
        except PyroError as fault:
            self.quarantine.put(record, str(fault))
            return
        if entry is None:
            return
        queue.slot_ms = max(queue.slot_ms, entry.slot_ms)
        content, key = entry.content, None
        if isinstance(content, StoredCheckPoint):
            queue.add(content, record.queue_offset)
        else:
            key = key_of_ack(content, self.live.config.broker_name)
            queue.ack(content, key)
        if record.queue_offset >= self._counted_from.get(queue.queue_id, 0):
            self.counted.read(content, entry.slot_ms, key)

    def _take_waiting(self, raw: bytes) -> None:
        """Take an ack that waits in the timer. Check points of that slot are not due yet, and come by themselves."""
        try:
            record = decode_record(raw)
            entry = read_entry(record)
        except (RecordError, PyroError):
            return  # whoever delivers it says so
        queue_id = whole_number(find_property(record.properties, _REAL_QUEUE))
        queue = None if queue_id is None else self._queues.get(queue_id)
        if queue is not None and entry is not None and isinstance(entry.content, StoredAck):
            key = key_of_ack(entry.content, self.live.config.broker_name)
            settled = queue.ack(entry.content, key)
            if settled:
                self.counted.seen_ahead(key, settled, entry.slot_ms)

    # --- deciding -------------------------------------------------------------------------------------------------

    async def _decide(self, queue: ReviveQueue, until_ms: int) -> bool:
        """Decide all whose time is over. False: messages could not be put, nor written down."""
        while (point := queue.first_due()) is not None and point.stored.revive_ms <= until_ms:
            end = await self._revive(queue, point) if point.open else 0
            if end is None:
                return False
            queue.decided(point, end)
            self.decided += 1
            if end:
                await self.access.clock.sleep(0)
        return True

    async def _revive(self, queue: ReviveQueue, point: RevivePoint) -> int | None:
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

    def _put_point_again(self, queue: ReviveQueue, stored: StoredCheckPoint, offset: int, ends: list[int]) -> bool:
        """Put a check point for the one message, with a later time. False: that cannot be put either."""
        if stored.put_again >= len(PUT_AGAIN_S) and self.live.config.skip_when_ck_re_put_reach_max_times:
            self.given_up += 1
            log.error("A POPPED MESSAGE IS GIVEN UP: it could not be given again", group=stored.group, offset=offset)
            return True
        again = later_point(stored, offset)
        refused: list[Outcome] = []

        def done(outcome: Outcome) -> None:
            if outcome.refusal is None:
                ends.append(outcome.places[-1].end)
            else:
                refused.append(outcome)

        self.spill.put_point(again, queue.queue_id, done)
        self.access.intake.flush()
        if refused:
            return False
        self.spill.put_settled(stored, (offset,), queue.queue_id, _note_unsettled)  # else a kill would make it two
        self.access.intake.flush()
        return True

    # --- the group's offset ---------------------------------------------------------------------------------------

    def _commit(self) -> bool:
        """Commit what was decided and is on the medium: else a power cut could lose the copies. False: not all is."""
        flushed = self.access.store.flushed.value
        for queue in self._queues.values():
            last = queue.take_done(flushed)
            if last is not None:
                self.offsets.commit(self.topic, REVIVE_GROUP, queue.queue_id, last)
        return all(queue.is_noted() for queue in self._queues.values())

    async def close(self) -> None:
        """Note all that was decided. Nothing is decided any more."""
        await self._flush_log()
        if not self._commit():  # some stand behind one that is not due: whoever reads on finds them settled
            for queue in self._queues.values():
                for point in queue.decided_ahead():
                    self.spill.put_settled(point.stored, point.stored.offsets, queue.queue_id, _note_unsettled)
            self.access.intake.flush()
            await self._flush_log()

    async def _flush_log(self) -> None:
        try:
            await self.access.store.flush_log()
        except PyroError as fault:
            log.error("popped messages may be given again twice: the log cannot be synced", why=str(fault))


def _note_unsettled(outcome: Outcome) -> None:
    if outcome.refusal is not None:
        log.error("popped messages may be given again twice: that they were cannot be noted", why=str(outcome.refusal))
