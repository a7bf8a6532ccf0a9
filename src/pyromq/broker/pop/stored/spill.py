"""Check points that leave the table as Java's records, and the acks and changes of what has left it.

A check point that grows old, that the table has no room for, or that is open at a clean stop becomes a record of the
timer topic, as Java's broker writes it, and then leaves the table: its SPILLED is in the first record of the journal
behind it, which `spill_recovery.py` relies on. From then on its acks are records as well, which `revive_topic.py`, or a
Java broker, finds behind it. Receipts whose time is over can change nothing any more: they are counted. One that is
used up (`settled.py`) changes nothing either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from .... import logs
from ....config import Live
from ....kernel.pops import CheckPoint
from ....model import names
from ....model.message import Property
from ....model.pop_names import revive_topic
from ....model.wire_text import whole_number
from ....protocol.properties import find_property
from ....protocol.record import Record
from ...config import BrokerConfig
from ...intake.intake import Done, LogAccess, Outcome
from ...metadata.topics import Topics
from ..seams import HandedOut
from ..young.lanes import Lanes
from .in_flight import NO_SLOT, StoredInFlight
from .java_records import RevivePlace, StoredAck, StoredCheckPoint, ack_record, point_record, stored_point
from .settled import Settled

log = logs.get("pyromq.broker")

MOST_INVISIBLE_MS = 366 * 86_400_000  # a receipt that says more is none of ours
_SAID_AGAIN_S = 10.0
_SLOT = Property.TIMER_OUT_MS.encode()

Until: TypeAlias = Callable[[Record, int], Record]  # parks a record until a time


@dataclass(slots=True, eq=False, repr=False)
class JavaSpill:
    """Event loop only."""

    live: Live[BrokerConfig]
    access: LogAccess
    lanes: Lanes
    topics: Topics
    until: Until
    in_flight: StoredInFlight
    settled: Settled
    points: int = 0  # check points that left as records
    acks: int = 0  # acks that are records
    late: int = 0  # acks and changes of receipts whose time was over
    foreign: int = 0  # and of those that cannot be of this broker
    _gathered: dict[HandedOut, list[tuple[Sequence[int], Done]]] = field(default_factory=dict)
    _few: logs.Limited = field(init=False)

    def __post_init__(self) -> None:
        self._few = logs.Limited(log, self.access.clock, _SAID_AGAIN_S)

    # --- out of the table -----------------------------------------------------------------------------------------

    async def spill(self, points: Sequence[CheckPoint]) -> None:
        """Put check points without a break, and say `spilled` to the table. One that cannot be put stays there."""
        stored: list[CheckPoint] = []
        for point in points:
            self._put_point(self._stored_form(point), point.revive_queue, partial(self._stored, point, stored))
        self.access.intake.flush()
        for point in stored:
            self.settled.left(self._handed_out(point), set(point.offsets).difference(point.open_offsets))
            self.lanes.table.spilled(point)
        for lane in {point.lane for point in stored}:
            self.lanes.settle(lane)
        self.lanes.journal.changed()
        self.points += len(stored)

    def _stored(self, point: CheckPoint, stored: list[CheckPoint], outcome: Outcome) -> None:
        if outcome.refusal is None:
            stored.append(point)
        else:
            self._few.warning("check points cannot leave memory now", why=str(outcome.refusal))

    def _stored_form(self, point: CheckPoint) -> StoredCheckPoint:
        return stored_point(
            self.lanes.table.names(point.lane),
            self.live.config.broker_name,
            point.start,
            point.pop_time,
            point.invisible_ms,
            point.open_offsets,
            suspend=point.suspend,
        )

    def _handed_out(self, point: CheckPoint) -> HandedOut:
        names = self.lanes.table.names(point.lane)
        return HandedOut(*names, point.start, point.pop_time, point.invisible_ms, point.revive_queue)

    # --- what has left it -----------------------------------------------------------------------------------------

    def ack(self, handed_out: HandedOut, offsets: Sequence[int], done: Done) -> None:
        """Put what acknowledges these offsets, with all others of its check point that come in this turn."""
        if not self._can_matter(handed_out):
            done(Outcome())
            return
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self.put_acks)
        self._gathered.setdefault(handed_out, []).append((offsets, done))

    def put_acks(self) -> None:
        """Put the acks that were gathered. By itself at the end of a turn; whoever stops the broker calls it too."""
        gathered, self._gathered = self._gathered, {}
        for point, parts in gathered.items():
            offsets = sorted({offset for some, _ in parts for offset in some})
            self.acks += len(offsets)
            self.settled.acked(point, offsets)
            self._put_ack(point, offsets, partial(_notify_all, [done for _, done in parts]))

    def put_all(self) -> None:
        """Put everything that was accepted up to now: acks of this turn, and the second records of changes."""
        self.put_acks()
        self.access.intake.flush()  # a change's check point, whose ack follows it
        self.access.intake.flush()

    def current(self, handed_out: HandedOut, offset: int) -> HandedOut | None:
        is_lane_open = self.lanes.find(handed_out.group, handed_out.topic, handed_out.queue_id) is not None
        current = self.settled.current(handed_out, offset, is_lane_open=is_lane_open)
        return current if current is not None and self._can_matter(current) else None

    def change(
        self, handed_out: HandedOut, offset: int, pop_time: int, invisible_ms: int, suspend: bool, done: Done
    ) -> None:
        """Put a check point of this one message with a new time, then the ack of the old one."""
        if invisible_ms > MOST_INVISIBLE_MS:
            done(Outcome())
            return
        place = (handed_out.group, handed_out.topic, handed_out.queue_id)
        broker = self.live.config.broker_name
        point = stored_point(place, broker, offset, pop_time, invisible_ms, [offset], suspend=suspend)

        after = handed_out._replace(start=offset, pop_time=pop_time, invisible_ms=invisible_ms)
        self.settled.changed(handed_out, offset, after)

        def put_ack(outcome: Outcome) -> None:
            if outcome.refusal is not None:
                self.settled.unchanged(handed_out, offset)
                done(outcome)
                return
            self.acks += 1
            self._put_ack(handed_out, [offset], done)

        self.points += 1
        self._put_point(point, handed_out.revive_queue, put_ack)

    def _can_matter(self, point: HandedOut) -> bool:
        """Return whether it may be a check point that left the table. Else its ack is a record for nothing."""
        now_ms = self.access.clock.now_ms()
        if point.pop_time + point.invisible_ms <= now_ms:
            self.late += 1
            return False
        topic, revive = self.topics.find(point.topic), self.topics.find(self._revive_topic)
        is_ours = (
            topic is not None
            and 0 <= point.queue_id < topic.read_queue_nums
            and revive is not None
            and 0 <= point.revive_queue < revive.write_queue_nums
            and point.start >= 0
            and 0 < point.pop_time <= now_ms + MOST_INVISIBLE_MS
            and point.invisible_ms <= MOST_INVISIBLE_MS
            and names.group_fault(point.group) is None
        )
        self.foreign += not is_ours
        return is_ours

    # --- records --------------------------------------------------------------------------------------------------

    @property
    def _revive_topic(self) -> str:
        return revive_topic(self.live.config.broker_cluster_name)

    def _place(self, revive_queue: int) -> RevivePlace:
        return RevivePlace(self._revive_topic, revive_queue, self.access.store_host)

    def _put_point(self, point: StoredCheckPoint, revive_queue: int, done: Done) -> None:
        now_ms = self.access.clock.now_ms()
        record = self._parked(point_record(point, self._place(revive_queue), now_ms), point.deliver_ms, now_ms)
        self.access.intake.put(record, self._counting(point, record, done))

    def _put_ack(self, point: HandedOut, offsets: Sequence[int], done: Done) -> None:
        now_ms, revive_ms = self.access.clock.now_ms(), point.pop_time + point.invisible_ms
        ack = StoredAck(
            broker=self.live.config.broker_name,
            group=point.group,
            pop_time=point.pop_time,
            queue_id=point.queue_id,
            start=point.start,
            topic=point.topic,
            **({"offset": offsets[0]} if len(offsets) == 1 else {"offsets": list(offsets)}),
        )
        record = self._parked(ack_record(ack, revive_ms, self._place(point.revive_queue), now_ms), revive_ms, now_ms)
        wait_s = self.live.config.put_wait_s
        self.access.intake.put(record, self._counting(ack, record, done), wait_s)

    def _counting(self, content: StoredCheckPoint | StoredAck, record: Record, done: Done) -> Done:
        """Return what counts it as waiting once it is put."""
        slot_ms = whole_number(find_property(record.properties, _SLOT)) or NO_SLOT

        def counted(outcome: Outcome) -> None:
            if outcome.refusal is None:
                self.in_flight.put(content, slot_ms)
            done(outcome)

        return counted

    def _parked(self, record: Record, deliver_ms: int, now_ms: int) -> Record:
        """Return what waits in the timer topic; what is due goes straight to the revive topic, as in Java."""
        return self.until(record, deliver_ms) if deliver_ms > now_ms else record

    def put_point(self, point: StoredCheckPoint, revive_queue: int, done: Done) -> None:
        """Put a check point that is written again (`revive_topic.py`)."""
        self._put_point(point, revive_queue, done)

    def put_settled(self, point: StoredCheckPoint, offsets: Sequence[int], revive_queue: int, done: Done) -> None:
        """Put what says that messages of a check point are settled, to be read behind it. Its time is over: it does not
        wait.
        """
        ack = StoredAck(
            broker=point.broker,
            group=point.group,
            pop_time=point.pop_time,
            queue_id=point.queue_id,
            start=point.start,
            topic=point.topic,
            offsets=[*offsets],
        )
        record = ack_record(ack, point.revive_ms, self._place(revive_queue), self.access.clock.now_ms())
        self.access.intake.put(record, done)


def _notify_all(dones: Iterable[Done], outcome: Outcome) -> None:
    for done in dones:
        done(outcome)
