"""Where a group goes on in a queue that it pops in order, and the block that holds the queue. Both change here alone.

The group's position is the first message that is not acked. It is the committed offset; where plain pops have opened
a lane of the queue, it is where that lane's next pop reads, so that a group may change from one kind to the other.
`source.py` hands out by it, `receipts.py` acks and changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from ....ambient import Clock
from ....config import Live
from ...config import BrokerConfig
from ...metadata.offsets import Offsets
from ..young.lanes import Lanes
from . import message_groups
from .block import Block
from .ends import BlockEnds
from .table import OrderLane, OrderTable

# Lets who waits on the queue of a group look again.
Wake = Callable[[OrderLane], None]


class OrderAck(Enum):
    """What became of an ack."""

    NOTED = 0
    NEEDLESS = 1  # the message is behind the group, was acked before, or was given to another pop since
    ILLEGAL = 2  # the block does not have that offset


@dataclass(slots=True, eq=False, repr=False)
class HeldQueues:
    """Event loop only."""

    live: Live[BrokerConfig]
    clock: Clock
    table: OrderTable
    lanes: Lanes
    offsets: Offsets
    wake: Wake
    _ends: BlockEnds = field(init=False)

    def __post_init__(self) -> None:
        self._ends = BlockEnds(self.clock, self._ended)
        self.offsets.watch(self._offsets_moved)

    # --- the group's position ---------------------------------------------------------------------------------------

    def position(self, lane: OrderLane) -> int | None:
        """Return where the group goes on; None: it never popped here, and has no offset."""
        opened = self.lanes.find(lane.group, lane.topic, lane.queue_id)
        if opened is not None:
            offset: int = self.lanes.table.next_offset(opened)
            return offset
        return self.lanes.committed(lane.group, lane.topic, lane.queue_id)

    def move(self, lane: OrderLane, offset: int) -> None:
        """Let the group go on at an offset."""
        opened = self.lanes.find(lane.group, lane.topic, lane.queue_id)
        if opened is None:
            self.lanes.commit_start(lane.group, lane.topic, lane.queue_id, offset)
            return
        self.lanes.table.set_next(opened, offset)
        self.lanes.settle(opened)
        self.lanes.journal.changed()

    # --- the block ------------------------------------------------------------------------------------------------

    def is_blocked(self, lane: OrderLane, attempt_id: str | None) -> bool:
        """Return whether a pop gets nothing of the queue now."""
        block = self.table.find(lane)
        if block is None or (block.is_by_group and self.live.config.pop_order_by_group):
            return False
        return block.is_blocking(attempt_id, self.clock.now_ms())

    def hold(self, lane: OrderLane, block: Block) -> None:
        """Keep what a pop was given: until its end nobody else gets anything of the queue."""
        self.table.put(lane, block)
        self.move(lane, block.first_open)
        self._ends.set(lane, block.next_end(self.clock.now_ms()))

    def pass_on(self, lane: OrderLane, block: Block) -> None:
        """Keep a block of which more is settled: the group goes past what its filter does not want."""
        if block.position != self.position(lane):
            self.table.put(lane, block)
            self.move(lane, block.position)

    def ack(self, lane: OrderLane, pop_time: int, offset: int) -> OrderAck:
        position = self.position(lane)
        if position is None or offset < position:
            return OrderAck.NEEDLESS
        block = self.table.find(lane)
        if block is None or block.is_passed_by(pop_time, offset):
            return self._ack_unknown(lane, position, pop_time, offset)
        if block.is_by_group:
            return self._ack_in_group(lane, block, pop_time, offset)
        if block.pop_time != pop_time:
            return OrderAck.NEEDLESS
        before = block.acked
        if not block.ack(offset):
            return OrderAck.ILLEGAL
        if block.acked == before:
            return OrderAck.NEEDLESS
        self._changed(lane, block)
        return OrderAck.NOTED

    def _ack_in_group(self, lane: OrderLane, block: Block, pop_time: int, offset: int) -> OrderAck:
        if not message_groups.ack_one(block, pop_time, offset):
            return OrderAck.NEEDLESS
        self._changed(lane, block)
        return OrderAck.NOTED

    def _ack_unknown(self, lane: OrderLane, position: int, pop_time: int, offset: int) -> OrderAck:
        """Go on behind a message whose block is forgotten. Java goes on behind any: what lies before would be lost.

        A block that is acked stands for it, so that a kill does not take the ack back."""
        if offset != position:
            return OrderAck.NEEDLESS
        self._changed(lane, Block(pop_time, 0, (offset,), self.clock.now_ms(), acked=1))
        return OrderAck.NOTED

    def change(self, lane: OrderLane, pop_time: int, offset: int, visible_at: int) -> bool:
        """Set when a message may be given again. False: nothing changed, it is not that pop's any more."""
        block = self.table.find(lane)
        if block is None:
            return False
        if block.is_by_group:
            if not message_groups.change_one(block, pop_time, offset, visible_at):
                return False
        elif block.pop_time != pop_time or offset not in block.offsets:
            return False
        else:
            block.change(offset, visible_at)
        self._changed(lane, block)
        return True

    def _changed(self, lane: OrderLane, block: Block) -> None:
        self.table.put(lane, block)
        self.move(lane, block.first_open)
        now_ms = self.clock.now_ms()
        self._ends.set(lane, block.next_end(now_ms))
        if block.is_by_group or not block.is_blocking(None, now_ms):
            self.wake(lane)

    def _offsets_moved(self, pair: str) -> None:
        """Forget the blocks of queues whose offset was reset, or is gone with its topic or group."""
        for lane in self.table.of_pair(pair):
            is_gone = self.offsets.find(lane.topic, lane.group, lane.queue_id) is None
            if is_gone or self.offsets.has_reset(lane.topic, lane.group, lane.queue_id):
                self.table.drop(lane, self.clock.now_ms())
                self._ends.set(lane, 0)
                self.wake(lane)

    def _ended(self, lane: OrderLane) -> None:
        block = self.table.find(lane)
        if block is not None:
            self._ends.set(lane, block.next_end(self.clock.now_ms()))
        if self.live.config.enable_notify_after_pop_order_lock_release:
            self.wake(lane)

    # --- start and stop -------------------------------------------------------------------------------------------

    def adopt(self) -> None:
        """Go on after a start: groups are where the journal says, if that is ahead of the offsets on disk."""
        for lane, block in self._blocks():
            position = self.position(lane)
            if lane in self.table.unsaved and (position is None or position < block.first_open):
                self.move(lane, block.first_open)
            self._ends.set(lane, block.next_end(self.clock.now_ms()))
        self.table.unsaved.clear()

    def _blocks(self) -> Iterator[tuple[OrderLane, Block]]:
        return iter([*self.table.all()])

    def close(self) -> None:
        self._ends.close()
