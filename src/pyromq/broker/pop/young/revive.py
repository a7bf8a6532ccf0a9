"""Gives messages again whose invisible time is over: their copies go to the group's retry topic, ten times a second.

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
from ....model import names, pop_names
from ....protocol.record import Record, decode_record
from ....store.log.reader import GetStatus, Selection
from ...config import BrokerConfig
from ...intake.intake import LogAccess, Outcome
from ...metadata.groups import Groups
from ...metadata.topics import Topics
from ..retry_records import retry_copy
from .lanes import Lanes

log = logs.get("pyromq.broker")

TICK_S = 0.1
AT_ONCE = 256  # check points in a turn of the loop: some milliseconds
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

    def __post_init__(self) -> None:
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
        due = self.lanes.table.due(self.access.clock.now_ms(), AT_ONCE)
        if not due:
            return False
        left = [point for point in due if not self._revive(point)]
        if left:
            await self._revive_cold(left)
        return len(due) == AT_ONCE and len(left) < AT_ONCE

    # --- one check point ------------------------------------------------------------------------------------------

    def _revive(self, point: CheckPoint) -> bool:
        """Put the copies if the messages are in memory. False: they are not, or cannot be put now."""
        ranges = self._ranges(point)
        records = self.access.store.reader.read_resident(ranges)
        return records is not None and self._put_copies(point, records)

    async def _revive_cold(self, points: Sequence[CheckPoint]) -> None:
        """Fetch the messages of these, then put copies of what is still open: acks go on meanwhile."""
        read: dict[tuple[int, int, int], list[bytes]] = {}
        for point in points:
            selection = Selection(GetStatus.FOUND, self._ranges(point), 0, 0, 0)
            read[_key(point)] = await self.access.store.read(selection)
        for point in self.lanes.table.due(self.access.clock.now_ms(), AT_ONCE):
            records = read.get(_key(point))
            if records is not None:
                self._put_copies(point, records)

    def _ranges(self, point: CheckPoint) -> list[Range]:
        _, topic, queue_id = self.lanes.table.names(point.lane)
        queue = self.access.store.queues.get(topic, queue_id)
        if queue is None:
            return []
        low = self.access.store.commit_log.start
        entries = ((offset, queue.entry_at(offset)) for offset in point.open_offsets if offset >= queue.min_offset)
        return [Range(e.position, e.size, at) for at, e in entries if e is not None and e.position >= low]

    def _put_copies(self, point: CheckPoint, records: Sequence[bytes]) -> bool:
        """Put a copy of each open message. False: one could not be put, so the check point stays."""
        group, topic, queue_id = self.lanes.table.names(point.lane)
        if self.topics.find(pop_names.normal_topic(topic, group)) is None or self.groups.find(group) is None:
            self._gone(point)
            return True
        copies = self._copies(point, group, topic, queue_id, records)
        outcomes: list[tuple[int, Outcome]] = []
        for offset, copy in copies.items():
            self.access.intake.put(copy, partial(self._stored, copy, offset, outcomes))
        self.access.intake.flush()
        if any(outcome.refusal is not None for _, outcome in outcomes):
            self._keep_rest(point, outcomes)
            return False
        missing = len(point.open_offsets) - len(copies)
        if missing:
            self.lost += missing
            log.error(
                "MESSAGES WERE LOST BEFORE THEY WERE ACKNOWLEDGED: the log no longer has them, or they are damaged",
                group=group,
                topic=topic,
                queue=queue_id,
                messages=missing,
                first=point.open_offsets[0],
            )
        self.revived += len(copies)
        self._gone(point)
        return True

    def _gone(self, point: CheckPoint) -> None:
        self.lanes.table.revived(point)
        self.lanes.settle(point.lane)
        self.lanes.journal.changed()

    def _keep_rest(self, point: CheckPoint, outcomes: list[tuple[int, Outcome]]) -> None:
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
        config = self.live.config
        is_open = set(point.open_offsets)
        to_queue = queue_id if config.use_separate_retry_queue else 0
        retry = self._retry_topic(topic, group, to_queue, config)
        decoded = (decode_record(raw, verify=False) for raw in records)
        return {
            one.queue_offset: retry_copy(
                one, group, retry, to_queue, point.pop_time, point.suspend, self.access.store_host
            )
            for one in decoded
            if one.queue_offset in is_open
        }

    def _retry_topic(self, topic: str, group: str, queue_id: int, config: BrokerConfig) -> str:
        """Return the retry topic of a topic, made if it is missing; one that is a retry topic is its own."""
        if names.is_retry(topic):
            return topic
        name = pop_names.retry_topic(topic, group, config.enable_retry_topic_v2)
        if self.topics.find(name) is None:
            model = self.topics.find(topic)
            queues = max(1, model.read_queue_nums) if config.use_separate_retry_queue and model is not None else 1
            self.topics.ensure(name, queues)
            self.lanes.commit_start(group, name, queue_id, 0)
        return name


def _key(point: CheckPoint) -> tuple[int, int, int]:
    return point.lane, point.start, point.pop_time
