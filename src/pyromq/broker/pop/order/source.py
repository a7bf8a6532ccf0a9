"""Reads a queue for a pop in order: from the first message that is not acked, if no block holds the queue.

What is read and how is `lane_source.py`'s; here is where it begins and what is noted of it. Nothing is given again by a
retry topic: a message in order stays where it is until somebody acks it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from ....protocol.record import HEAD
from ....store.log.reader import Selection
from ...config import BrokerConfig
from ..lane_source import LaneSource
from ..seams import Place
from ..tickets import PopTicket
from .block import count_text, next_block
from .lanes import HeldQueues
from .table import OrderLane


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class OrderSource(LaneSource):
    """Event loop only."""

    order: HeldQueues

    def take(self, ticket: PopTicket, place: Place) -> Awaitable[None] | None:
        """Take what there is room for; None: it is done. Of a queue that is held nothing is told, not even the rest."""
        lane = _lane(ticket, place)
        is_read = (lane.group, lane.topic, lane.queue_id) in self._reading
        if is_read or self.order.is_blocked(lane, ticket.header.attempt_id):
            return None
        return LaneSource.take(self, ticket, place)

    def _offset(self, ticket: PopTicket, place: Place, config: BrokerConfig) -> int:
        position = self.order.position(_lane(ticket, place))
        return LaneSource._offset(self, ticket, place, config) if position is None else position

    def _move(self, group: str, place: Place, offset: int) -> None:
        self.order.move(OrderLane(place.topic, group, place.queue_id), offset)

    def _hand_out(
        self,
        ticket: PopTicket,
        place: Place,
        start: int,
        selection: Selection,
        records: Sequence[bytes],
        from_disk: bool = False,
    ) -> None:
        if not records:
            LaneSource._hand_out(self, ticket, place, start, selection, records, from_disk)
            return
        header, lane = ticket.header, _lane(ticket, place)
        offsets = [HEAD.unpack_from(raw)[5] for raw in records]
        old, now_ms = self.order.table.find(lane), self.order.clock.now_ms()
        block = next_block(old, header.attempt_id, offsets, ticket.pop_time, header.invisible_time, now_ms)
        self.order.hold(lane, block)
        self.lanes.journal.changed()
        ticket.rest += max(0, selection.max_offset - selection.next_offset)
        ticket.add(place.mark, place.queue_id, start, offsets, records)
        ticket.order_counts.append(count_text(block, place.queue_id))
        size, took_ms = sum(map(len, records)), (self.reads.clock.monotonic() - ticket.begun) * 1000
        self.count(place.topic, lane.group, place.queue_id, len(records), size, took_ms, from_disk)


def _lane(ticket: PopTicket, place: Place) -> OrderLane:
    return OrderLane(place.topic, ticket.header.consumer_group, place.queue_id)
