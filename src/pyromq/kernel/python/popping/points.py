"""All that is open, by lane, by due time and by age; and the same from a journal. `pop_table.py` notes the changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ...pops import MOST_MESSAGES, MOST_REVIVE_QUEUE, MOST_SPAN, DamagedJournal
from .entries import (
    AckEntry,
    ChangeEntry,
    DropEntry,
    Entry,
    GoneEntry,
    LaneEntry,
    NextEntry,
    OtherEntry,
    PopEntry,
    word,
)
from .lane import Epoch, Lane, OpenPoint
from .order import Order
from .reader import read_entries

Others = Callable[[int, bytes], None]


class OpenPoints:
    """The table without its limit and its journal's bytes."""

    def __init__(self) -> None:
        self.lanes: dict[int, Lane] = {}
        self.numbers: dict[tuple[str, str, int], int] = {}
        self.next_number = 0
        self.bytes = self.count = 0
        self.by_due = Order(lambda point: point.due_ms)
        self.by_age = Order(lambda point: point.pop_time)
        self.epochs = deque([Epoch(0)])

    def lane(self, number: int) -> Lane:
        lane = self.lanes.get(number)
        if lane is None:
            raise ValueError(f"there is no lane {number}")
        return lane

    def add_lane(self, number: int, group: str, topic: str, queue_id: int) -> Lane:
        self.lanes[number] = lane = Lane(number, group, topic, queue_id)
        self.numbers[group, topic, queue_id] = number
        self.next_number = max(self.next_number, number + 1)
        return lane

    def message(self, lane: Lane, start: int, pop_time: int, offset: int) -> tuple[OpenPoint | None, int]:
        """Return the check point and the bit of that message; None: there is none with it."""
        point = lane.find(start, pop_time)
        bit = point.bit_of(offset) if point is not None else 0
        return (point, bit) if bit else (None, 0)

    def add(
        self,
        lane: Lane,
        start: int,
        offsets: tuple[int, ...],
        pop_time: int,
        invisible_ms: int,
        revive_queue: int,
        suspend: bool = False,
    ) -> None:
        epoch = self.epochs[-1]
        point = OpenPoint(lane, start, offsets, pop_time, invisible_ms, revive_queue, suspend, epoch)
        lane.add(point)
        epoch.open += 1
        self.count += 1
        self.bytes += point.size
        self.by_due.add(point, self.count)
        self.by_age.add(point, self.count)

    def settle(self, point: OpenPoint, bits: int) -> None:
        """Close these open messages of it, and let it go with the last."""
        if not bits:
            return
        point.lane.messages -= bits.bit_count()
        point.open_bits &= ~bits
        if not point.open_bits:
            point.lane.left()
            point.epoch.open -= 1
            self.count -= 1
            self.bytes -= point.size

    def drop(self, lane: Lane) -> None:
        for point in list(lane.open()):
            self.settle(point, point.open_bits)
        lane.next_offset = -1

    # --- from a journal -------------------------------------------------------------------------------------------

    def replay(self, raw: bytes, others: Others | None) -> None:
        for number, entry in enumerate(read_entries(raw)):
            try:
                self._apply(entry, others)
            except ValueError as fault:
                raise DamagedJournal(f"pop journal: entry {number} of {len(raw)} bytes: {fault}") from None

    def _apply(self, entry: Entry, others: Others | None) -> None:
        match entry:
            case LaneEntry():
                self._bind(entry)
            case PopEntry():
                self._hand_out(entry)
            case AckEntry(lane, start, pop_time, bits):
                if (point := self.lane(lane).find(start, pop_time)) is not None:
                    self.settle(point, bits & point.open_bits)
            case ChangeEntry():
                self._change(entry)
            case GoneEntry(lane, start, pop_time):
                if (point := self.lane(lane).find(start, pop_time)) is not None:
                    self.settle(point, point.open_bits)
            case DropEntry(lane):
                self.drop(self.lane(lane))
            case NextEntry(lane, offset):
                self.lane(lane).next_offset = offset
            case OtherEntry(kind, body):
                if others is not None:
                    others(kind, body)

    def _bind(self, entry: LaneEntry) -> None:
        """Give a lane its number, also one that another lane had which has nothing open."""
        key = (entry.group, entry.topic, entry.queue_id)
        for number in (entry.lane, self.numbers.get(key, entry.lane)):
            lane = self.lanes.get(number)
            if lane is None or (lane.key == key and number == entry.lane):
                continue
            if lane.points:
                raise ValueError(f"lane {entry.lane} is told as {key}, but lane {number} has open check points")
            del self.lanes[number], self.numbers[lane.key]
        lane = self.lanes.get(entry.lane)
        if lane is None:
            lane = self.add_lane(entry.lane, *key)
        lane.next_offset = entry.next_offset

    def _hand_out(self, entry: PopEntry) -> None:
        lane = self.lane(entry.lane)
        check_offsets(entry.start, entry.offsets, entry.next_offset)
        if lane.find(entry.start, entry.pop_time) is not None:
            raise ValueError(f"start {entry.start} of pop time {entry.pop_time} is open already")
        lane.next_offset = entry.next_offset
        self.add(lane, entry.start, entry.offsets, entry.pop_time, entry.invisible_ms, entry.revive_queue)

    def _change(self, entry: ChangeEntry) -> None:
        lane, offset = self.lane(entry.lane), entry.offset
        point, bit = self.message(lane, entry.start, entry.pop_time, offset)
        if point is not None:
            self.settle(point, bit & point.open_bits)
        if lane.find(offset, entry.new_time) is not None:
            raise ValueError(f"start {offset} of pop time {entry.new_time} is open already")
        self.add(lane, offset, (offset,), entry.new_time, entry.invisible_ms, entry.revive_queue, entry.suspend)


def check_offsets(start: int, offsets: Sequence[int], next_offset: int) -> None:
    """Raise ValueError unless they ascend from `start` on and end before `next_offset`."""
    if not 1 <= len(offsets) <= MOST_MESSAGES:
        raise ValueError(f"a check point has 1 to {MOST_MESSAGES} messages, not {len(offsets)}")
    if not 0 <= start <= offsets[0]:
        raise ValueError(f"a read from {start} on cannot give offset {offsets[0]}")
    before = start - 1
    for offset in (*offsets, word(next_offset)):
        if offset <= before:
            raise ValueError(f"offset {offset} comes behind {before}")
        before = offset
    if offsets[-1] - start > MOST_SPAN:
        raise ValueError(f"offset {offsets[-1]} is too far behind {start}")


def check_revive_queue(revive_queue: int) -> None:
    if not 0 <= revive_queue <= MOST_REVIVE_QUEUE:
        raise ValueError(f"a revive queue is 0 to {MOST_REVIVE_QUEUE}, not {revive_queue}")
