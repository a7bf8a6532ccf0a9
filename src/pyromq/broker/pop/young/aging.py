"""Lets check points leave the table that have been open for long, or that it has no room for: as records of the log.

Java's broker reads those records too. What is about to be given again stays: it leaves by that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .... import logs
from ....ambient import Clock
from ....config import Live
from ....kernel.pops import CheckPoint
from ...config import BrokerConfig
from ..seams import Spill
from .lanes import Lanes

log = logs.get("pyromq.broker")

TICK_S = 0.1
AT_ONCE = 64  # check points in a turn of the loop when somebody waits for them to leave: below two milliseconds
AGED_AT_ONCE = 16
REST = 2.0  # of the time that these took: others are served meanwhile
_EVER = 1 << 62
SOON_MS = 1_000


@dataclass(slots=True, eq=False, repr=False)
class Aging:
    """Event loop only. Without `spill` check points stay until their time is over."""

    live: Live[BrokerConfig]
    clock: Clock
    lanes: Lanes
    spill: Spill | None = None
    leaving: Callable[[Sequence[CheckPoint]], None] | None = None  # told of what is about to leave
    spilled: int = 0

    async def run(self) -> None:
        stirred = self.lanes.journal.stirred()
        while True:
            if not self.lanes.table.used_bytes:
                stirred.clear()
                await stirred.wait()
            await self.clock.sleep(TICK_S)
            begun = self.clock.monotonic()
            while await self.round():
                await self.clock.sleep(self._rest_s(self.clock.monotonic() - begun))
                begun = self.clock.monotonic()

    def _rest_s(self, took_s: float) -> float:
        """Return how long others come first: pops beside many that leave are as fast as without them.

        Where half of the memory is in use there is no time for that.
        """
        return 0.0 if self.lanes.table.used_bytes * 2 > self.live.config.pop_table_bytes else REST * took_s

    async def round(self) -> bool:
        """Let some of the old ones leave. True: there are more."""
        if self.spill is None:
            return False
        now_ms = self.clock.now_ms()
        aged = self.lanes.table.aged(now_ms - self.live.config.pop_ck_stay_buffer_time, AGED_AT_ONCE)
        leaving = [point for point in aged if point.due_ms > now_ms + SOON_MS]
        if leaving:
            await self._spill(self.spill, leaving)
            for lane in {point.lane for point in leaving}:
                self.lanes.settle(lane)
            self.lanes.journal.changed()
            self.spilled += len(leaving)
        return len(leaving) == AGED_AT_ONCE

    async def _spill(self, spill: Spill, points: list[CheckPoint]) -> None:
        if self.leaving is not None:
            self.leaving(points)
        await spill.spill(points)

    async def leave_lane(self, group: str, topic: str, queue_id: int) -> None:
        """Let everything of one lane leave, and commit where its next pop would have read: others go on from there."""
        lane = self.lanes.find(group, topic, queue_id)
        if lane is None or self.spill is None:
            return
        while points := self.lanes.table.points(lane, AT_ONCE):
            await self._spill(self.spill, points)
            if points[0] in self.lanes.table.points(lane, AT_ONCE):
                return  # it cannot be put now
        if self.lanes.find(group, topic, queue_id) != lane:
            return  # a reset came in between
        next_offset = self.lanes.table.next_offset(lane)  # others may have popped while these were put
        self.lanes.close(group, topic, queue_id)
        self.lanes.commit_start(group, topic, queue_id, next_offset)

    async def leave_all(self) -> None:
        """Let everything leave: the broker stops, and whoever opens the store next finds all of it in the log."""
        if self.spill is None:
            return
        while points := self.lanes.table.aged(_EVER, AT_ONCE):
            await self._spill(self.spill, points)
            if self.lanes.table.aged(_EVER, 1) == points[:1]:
                log.error("POPPED MESSAGES STAY IN OUR JOURNAL ALONE: a Java broker would hand them out again")
                return
            await self.clock.sleep(0)
        for group, topic, queue_id, lane in [*self.lanes.all()]:
            next_offset = self.lanes.table.next_offset(lane)
            self.lanes.close(group, topic, queue_id)
            self.lanes.commit_start(group, topic, queue_id, next_offset)
