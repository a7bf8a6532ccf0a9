"""Gives messages again whose invisible time is over: their copies go to the group's retry topic, ten times a second.

A kernel makes those of usual messages that are in memory (`copying.py`), many at once; the rest is made here.

The copies are put first, and REVIVED stands behind them in the log: a kill between the two is looked for at the next
start (`recovery.py`). What cannot be put stays in the table and is tried again. A message that retention took is
counted and logged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from .... import logs
from ....config import Live
from ....kernel.pops import CheckPoint
from ....kernel.records import Range
from ....model import pop_names
from ....protocol.record import Record, decode_record
from ....store.log.reader import GetStatus, Selection
from ...config import BrokerConfig
from ...intake.intake import LogAccess, Outcome
from ...metadata.groups import Groups
from ...metadata.topics import Topics
from ..retry_records import retry_copy
from .copying import KernelCopies, retry_place
from .lanes import Lanes

log = logs.get("pyromq.broker")

TICK_S = 0.1
COPIED_AT_ONCE = 192  # messages in a turn of the loop that a kernel copies
MESSAGES_AT_ONCE = 64  # and that are copied here, about two milliseconds; one check point at least
SAID_AGAIN_S = 10.0


@dataclass(slots=True, eq=False, repr=False)
class Revive:
    """Event loop only."""

    live: Live[BrokerConfig]
    access: LogAccess
    lanes: Lanes
    topics: Topics
    groups: Groups
    revived: int = 0  # messages
    lost: int = 0  # messages that were gone when their time was over
    _few: logs.Limited = field(init=False)
    copying: KernelCopies = field(init=False)

    def __post_init__(self) -> None:
        self.copying = KernelCopies(self.live, self.access, self.lanes, self.topics, self.groups)
        self._few = logs.Limited(log, self.access.clock, SAID_AGAIN_S)

    async def run(self) -> None:
        stirred = self.lanes.journal.stirred()
        while True:
            if not self.lanes.table.used_bytes:
                stirred.clear()
                await stirred.wait()
            await self.access.clock.sleep(TICK_S)
            while await self.round():
                await self.access.clock.sleep(0)

    async def round(self) -> bool:
        """Give again what is due, some of it. True: there is more."""
        copied = self.copying.copy_due(self.access.clock.now_ms(), COPIED_AT_ONCE)
        self.revived += sum(messages for _, messages in copied.lanes)
        some = _within(copied.left, MESSAGES_AT_ONCE)
        stay = self._revive(some)
        if stay:
            stay = await self._revive_cold(stay)
        has_progress = bool(copied.lanes) or len(stay) < len(some)
        return has_progress and (copied.more or len(some) < len(copied.left))

    # --- some check points ----------------------------------------------------------------------------------------

    def _revive(self, points: Sequence[CheckPoint]) -> list[CheckPoint]:
        """Put copies of the messages that are in memory. Return check points that stay."""
        found = [(point, self.access.store.reader.read_resident(self._ranges(point))) for point in points]
        read = [(point, records) for point, records in found if records is not None]
        return [point for point, records in found if records is None] + self._put_copies(read)

    async def _revive_cold(self, points: Sequence[CheckPoint]) -> list[CheckPoint]:
        """Fetch the messages of these, then put copies of what is still open: acks go on meanwhile. Return those that
        stay."""
        read: dict[tuple[int, int, int], list[bytes]] = {}
        for point in points:
            selection = Selection(GetStatus.FOUND, self._ranges(point), 0, 0, 0)
            read[_key(point)] = await self.access.store.read(selection)
        found = (self.lanes.table.point(*_key(point)) for point in points)
        return self._put_copies([(point, read[_key(point)]) for point in found if point is not None])

    def _ranges(self, point: CheckPoint) -> list[Range]:
        _, topic, queue_id = self.lanes.table.names(point.lane)
        queue = self.access.store.queues.get(topic, queue_id)
        if queue is None:
            return []
        low = self.access.store.commit_log.start
        entries = ((offset, queue.entry_at(offset)) for offset in point.open_offsets if offset >= queue.min_offset)
        return [Range(e.position, e.size, at) for at, e in entries if e is not None and e.position >= low]

    def _put_copies(self, read: Sequence[tuple[CheckPoint, Sequence[bytes]]]) -> list[CheckPoint]:
        """Put a copy of each open message, all in one burst. Return check points of which one could not be put: those
        stay."""
        put: list[tuple[CheckPoint, list[tuple[int, Outcome]]]] = []
        for point, records in read:
            group, topic, queue_id = self.lanes.table.names(point.lane)
            outcomes: list[tuple[int, Outcome]] = []
            if self.topics.find(pop_names.normal_topic(topic, group)) is None or self.groups.find(group) is None:
                self._gone(point)
                continue
            for offset, copy in self._copies(point, group, topic, queue_id, records).items():
                self.access.intake.put(copy, partial(self._stored, copy, offset, outcomes))
            put.append((point, outcomes))
        self.access.intake.flush()
        return [point for point, outcomes in put if not self._is_done(point, outcomes)]

    def _is_done(self, point: CheckPoint, outcomes: Sequence[tuple[int, Outcome]]) -> bool:
        """Let the check point go if all its copies were put."""
        if any(outcome.refusal is not None for _, outcome in outcomes):
            self._keep_rest(point, outcomes)
            return False
        missing = len(point.open_offsets) - len(outcomes)
        if missing:
            group, topic, queue_id = self.lanes.table.names(point.lane)
            self.lost += missing
            log.error(
                "MESSAGES WERE LOST BEFORE THEY WERE ACKNOWLEDGED: the log no longer has them, or they are damaged",
                group=group,
                topic=topic,
                queue=queue_id,
                messages=missing,
                first=point.open_offsets[0],
            )
        self.revived += len(outcomes)
        self._gone(point)
        return True

    def _gone(self, point: CheckPoint) -> None:
        self.lanes.table.revived(point)
        self.lanes.settle(point.lane)
        self.lanes.journal.changed()

    def _keep_rest(self, point: CheckPoint, outcomes: Sequence[tuple[int, Outcome]]) -> None:
        """Leave those open that could not be put; the others are in the retry topic and settled."""
        for offset, outcome in outcomes:
            if outcome.refusal is None:
                self.lanes.table.ack(point.lane, point.start, point.pop_time, offset)
            else:
                self._few.warning("messages whose time is over cannot be given again now", why=str(outcome.refusal))
        self.lanes.settle(point.lane)
        self.lanes.journal.changed()

    def _stored(self, copy: Record, offset: int, outcomes: list[tuple[int, Outcome]], outcome: Outcome) -> None:
        outcomes.append((offset, outcome))
        if outcome.refusal is None:
            self.access.count(copy.topic, copy.queue_id, 1, outcome.places[-1].size)

    # --- copies ---------------------------------------------------------------------------------------------------

    def _copies(
        self, point: CheckPoint, group: str, topic: str, queue_id: int, records: Sequence[bytes]
    ) -> dict[int, Record]:
        """Return the copies by the offset of their message."""
        is_open = set(point.open_offsets)
        retry, to_queue = self._retry_place(topic, group, queue_id)
        decoded = (decode_record(raw, verify=False) for raw in records)
        return {
            one.queue_offset: retry_copy(
                one, group, retry, to_queue, point.pop_time, point.suspend, self.access.store_host
            )
            for one in decoded
            if one.queue_offset in is_open
        }

    def _retry_place(self, topic: str, group: str, queue_id: int) -> tuple[str, int]:
        """Return where copies go, with the retry topic made if it is missing."""
        config = self.live.config
        name, to_queue = retry_place(topic, group, queue_id, config)
        if name != topic and self.topics.find(name) is None:
            model = self.topics.find(topic)
            queues = max(1, model.read_queue_nums) if config.use_separate_retry_queue and model is not None else 1
            self.topics.ensure(name, queues)
            self.lanes.commit_start(group, name, to_queue, 0)
        return name, to_queue


def _within(points: Sequence[CheckPoint], messages: int) -> Sequence[CheckPoint]:
    """Return the first of these, with about so many messages; one at least."""
    for count, point in enumerate(points, 1):
        messages -= point.open_bits.bit_count()
        if messages <= 0:
            return points[:count]
    return points


def _key(point: CheckPoint) -> tuple[int, int, int]:
    return point.lane, point.start, point.pop_time
