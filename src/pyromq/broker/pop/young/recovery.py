"""What was in flight when the broker ended: the journal's end is replayed at a start, before anybody is served.

The last BASE says where to begin. A check point whose time was over before the end may have been given again already,
with its REVIVED lost: the copies of its messages are looked for in the retry queue, so that none is put twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from .... import logs
from ....kernel.pops import DamagedJournal
from ....model import names, pop_names
from ....model.message import Property
from ....protocol.properties import find_property
from ....protocol.record import Record, RecordError, body_bytes, decode_record
from ....store.log.reader import GetStatus
from ....store.message_store import MessageStore
from ...intake.intake import LogAccess
from .lanes import Lanes

log = logs.get("pyromq.broker")

_BATCH = 512
_BATCH_BYTES = 4 << 20
_UNIQ_KEY = Property.UNIQ_KEY.encode()
_ORIGIN_GROUP = Property.ORIGIN_GROUP.encode()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PopRecovery:
    """Event loop only, once, before requests are served."""

    access: LogAccess
    lanes: Lanes
    others: Callable[[int, bytes], None]  # gets what others have put into the journal

    async def run(self) -> None:
        """Bring the table to where it was, and the groups' offsets with it."""
        store = self.access.store
        queue = store.queues.get(pop_names.JOURNAL_TOPIC, 0)
        if queue is None:
            return
        begin = max(await self._begin(store, queue.min_offset, queue.readable_end), queue.min_offset)
        table = self.lanes.table
        table.begin(begin)
        count = 0
        async for raw_records in _batches(store, pop_names.JOURNAL_TOPIC, 0, begin):
            count += len(raw_records)
            for raw in raw_records:  # a second of traffic has thousands, so no more than the body is made of each
                try:
                    table.replay(body_bytes(raw), self.others)
                except DamagedJournal as fault:
                    log.error("a record of the pop journal cannot be read and is left out", why=str(fault))
        self.lanes.adopt()
        points = sum(one.points for one in table.in_flight())
        if count:
            log.info("pops that were in flight are known again", records=count, check_points=points)
        await self._forget_revived()

    def pass_over(self) -> None:
        """Begin anew behind the journal: a Java broker has run on this store since, which knows nothing of it.

        After a stop of ours nothing is open in it. After a kill, Java began where the groups' saved offsets are, so it
        handed out again what was in flight then, and its own check points have that.
        """
        table, journal = self.lanes.table, self.lanes.journal
        end = journal.next_offset
        if end:
            table.begin(end)
            table.note_base(end, end)
            journal.flush()
            log.info("a Java broker has run on this store since: our notes on pops before that are left out")

    async def _begin(self, store: MessageStore, low: int, end: int) -> int:
        """Return where to replay from: what the last BASE names, looked for backwards."""
        at = end
        while at > low:
            first, last = max(low, at - _BATCH), at
            found = None
            async for raw_records in _batches(store, pop_names.JOURNAL_TOPIC, 0, first, last):
                for raw in raw_records:
                    try:
                        named = self.lanes.table.base_of(body_bytes(raw))
                    except DamagedJournal:
                        continue  # said when it is replayed
                    found = found if named is None else named
            if found is not None:
                return found
            at = first
        return low

    # --- copies that are there already ----------------------------------------------------------------------------

    async def _forget_revived(self) -> None:
        """Settle messages of expired check points whose copies are in the retry queue.

        Only where there are copies check points are looked at: a million may have expired while the broker was down.
        """
        table = self.lanes.table
        first = table.due(self.access.clock.now_ms(), 1)
        if not first:
            return
        for figures in table.in_flight():
            copies = await self._copies_since(*table.names(figures.lane), first[0].due_ms)
            if copies:
                await self._forget_copied(figures.lane, copies)

    async def _forget_copied(self, lane: int, copies: dict[bytes, int]) -> None:
        _, topic, queue_id = self.lanes.table.names(lane)
        newest = max(copies.values())
        for point in self.lanes.table.points(lane):
            if point.due_ms > newest:
                continue  # no copy is as young as that: of many that expired together, few are read
            is_open = point.open_offsets
            async for message in _records(self.access.store, topic, queue_id, is_open[0], is_open[-1] + 1):
                key = find_property(message.properties, _UNIQ_KEY)
                if message.queue_offset in is_open and key is not None and copies.get(key, -1) >= point.due_ms:
                    self.lanes.table.ack(lane, point.start, point.pop_time, message.queue_offset)
        self.lanes.settle(lane)
        self.lanes.journal.changed()

    async def _copies_since(self, group: str, topic: str, queue_id: int, time_ms: int) -> dict[bytes, int]:
        """Return unique keys of messages that this group's retry topics got since then, with the time of the last."""
        if names.is_retry(topic):
            retry_topics = [topic]
        else:
            retry_topics = [pop_names.retry_topic_v1(topic, group), pop_names.retry_topic_v2(topic, group)]
        found: dict[bytes, int] = {}
        store = self.access.store
        for retry in retry_topics:
            for at in {0, queue_id}:
                first = store.reader.offset_by_time(retry, at, time_ms)
                async for record in _records(store, retry, at, first):
                    key = find_property(record.properties, _UNIQ_KEY)
                    origin = find_property(record.properties, _ORIGIN_GROUP)
                    if key is not None and record.store_timestamp >= time_ms and origin == group.encode():
                        found[key] = max(found.get(key, 0), record.store_timestamp)
        return found


async def _records(
    store: MessageStore, topic: str, queue_id: int, first: int, end: int | None = None
) -> AsyncIterator[Record]:
    """Return the records of a queue from an offset on, as far as they can be read."""
    async for raw_records in _batches(store, topic, queue_id, first, end):
        for raw in raw_records:
            try:
                yield decode_record(raw)
            except RecordError as fault:
                log.error("a record cannot be read at the start of popping", topic=topic, why=str(fault))


async def _batches(
    store: MessageStore, topic: str, queue_id: int, first: int, end: int | None = None
) -> AsyncIterator[Sequence[bytes]]:
    """Return the same as the bytes that are stored, some at a time; damaged ones are left out."""
    queue = store.queues.get(topic, queue_id)
    if queue is None:
        return
    at, until = max(first, queue.min_offset), queue.readable_end if end is None else min(end, queue.readable_end)
    while at < until:
        selection = await store.select(topic, queue_id, at, max_count=min(_BATCH, until - at), max_bytes=_BATCH_BYTES)
        if selection.status not in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE) or selection.next_offset <= at:
            return
        yield await store.read(selection)
        at = selection.next_offset
