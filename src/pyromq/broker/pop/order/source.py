"""Reads a queue for a pop in order: from the first message that is not acked, if no block holds the queue.

What is read and how is `young/lane_source.py`'s; here is where it begins and what is noted of it. Nothing is given
again by a retry topic: a message in order stays where it is until somebody acks it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from ....model.message import Property
from ....protocol.properties import find_property
from ....protocol.record import HEAD, property_bytes
from ....store.log.reader import GetStatus, Selection
from ...config import BrokerConfig
from ...reading.filtered_read import Search
from ..seams import Place
from ..tickets import PopTicket
from ..young.lane_source import LaneSource
from .block import Block, count_text, next_block
from .lanes import HeldQueues
from .message_groups import Choice
from .table import OrderLane

_KEY = Property.SHARDING_KEY.encode()


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class OrderSource(LaneSource):
    """Event loop only."""

    order: HeldQueues

    def take(self, ticket: PopTicket, place: Place) -> Awaitable[None] | None:
        """Take what there is room for; None: it is done. Of a queue that is held nothing is told, not even the rest."""
        lane = _lane(ticket, place)
        is_read = (lane.group, lane.topic, lane.queue_id) in self.reading
        is_pulled = self.pulled.is_pulled(lane.topic, lane.group, lane.queue_id)
        if is_read or is_pulled or self.order.is_blocked(lane, ticket.header.attempt_id):
            return None
        if self.live.config.pop_order_by_group and ticket.room > 0:
            return self._take_groups(ticket, place, lane)
        return LaneSource.take(self, ticket, place)

    # --- by message group -----------------------------------------------------------------------------------------

    async def _take_groups(self, ticket: PopTicket, place: Place, lane: OrderLane) -> None:
        """Take messages of groups that nobody else has, from the position on."""
        with self._reserved(ticket, place):
            start = self._sound_offset(ticket, place, lane)
            old = self.order.table.find(lane)
            before = old if old is not None and old.is_by_group else None
            choice = Choice(before, start, ticket.header.attempt_id, self.order.clock.now_ms())
            chosen: list[bytes] = []
            at = start
            while len(chosen) < ticket.room and at < choice.end:
                selection, records = await self._stretch(ticket, place, at)
                if selection.next_offset <= at:
                    break
                choice.begin_at(HEAD.unpack_from(records[0])[5] if records else selection.next_offset)
                stretch = range(at, min(selection.next_offset, choice.end))
                chosen += _offered(choice, stretch, records, ticket.room - len(chosen))
                at = selection.next_offset
                if len(chosen) == ticket.room:
                    ticket.rest += max(0, selection.max_offset - at)
            # Else the group was reset meanwhile.
            if self.order.table.find(lane) is old and self._offset(ticket, place, self.live.config) == start:
                if chosen:
                    self._hand_out_groups(ticket, place, lane, choice, chosen)
                else:
                    self._pass_unwanted(lane, before, choice, start, at)

    def _sound_offset(self, ticket: PopTicket, place: Place, lane: OrderLane) -> int:
        """Return where to read: not before the first message that retention has left."""
        offset = self._offset(ticket, place, self.live.config)
        queue = self.store.queues.get(place.topic, place.queue_id)
        if queue is not None and offset < queue.min_offset:
            self.order.move(lane, queue.min_offset)
            return queue.min_offset
        return offset

    def _pass_unwanted(self, lane: OrderLane, before: Block | None, choice: Choice, start: int, end: int) -> None:
        """Go on behind messages that the group's filter does not want, up to the first that somebody has."""
        if before is None or not before.groups:
            self.order.move(lane, max(start, end))
        else:
            choice.pass_on(before)
            self.order.pass_on(lane, before)

    async def _stretch(self, ticket: PopTicket, place: Place, at: int) -> tuple[Selection, Sequence[bytes]]:
        """Read the next messages that the group's filter wants, from the medium if need be."""
        config, wanted = self.live.config, ticket.allowed.wanted
        search = Search(
            place.topic,
            place.queue_id,
            at,
            config.max_transfer_count_on_message_in_memory,
            config.max_transfer_bytes_on_message_in_memory,
        )
        find = self.reads.find_cold if self.reads.is_cold(search) else None
        found = self.reads.find(search, wanted, config) if find is None else await find(search, wanted, config)
        selection = found.selection
        if found.unread is not None and selection.status is not GetStatus.FOUND:
            selection = await self.reads.match_cold(search, wanted, found.unread, config)
        records = self.store.reader.read_resident(selection.ranges)
        if records is not None:
            return selection, records
        read = await self.reads.read_cold(ticket.header.consumer_group, selection, config)
        return read.selection, read.records or ()

    def _hand_out_groups(
        self, ticket: PopTicket, place: Place, lane: OrderLane, choice: Choice, records: Sequence[bytes]
    ) -> None:
        start = self._offset(ticket, place, self.live.config)
        block = choice.block(ticket.pop_time, ticket.header.invisible_time, self.order.clock.now_ms())
        self.order.hold(lane, block)
        ticket.add(place.mark, place.queue_id, start, choice.given, records)
        ticket.order_counts.append(count_text(choice.counts(block), len(records), place.queue_id))
        size, took_ms = sum(map(len, records)), (self.reads.clock.monotonic() - ticket.begun) * 1000
        self.count(place.topic, lane.group, place.queue_id, len(records), size, took_ms, False)

    # --- by queue -------------------------------------------------------------------------------------------------

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
        ticket.order_counts.append(count_text(block.counts or {}, len(offsets), place.queue_id))
        size, took_ms = sum(map(len, records)), (self.reads.clock.monotonic() - ticket.begun) * 1000
        self.count(place.topic, lane.group, place.queue_id, len(records), size, took_ms, from_disk)


def _offered(choice: Choice, stretch: range, records: Sequence[bytes], room: int) -> list[bytes]:
    """Return what is chosen of a stretch of the queue, and note what is in none of its records."""
    chosen: list[bytes] = []
    there = set()
    for raw in records:
        offset = HEAD.unpack_from(raw)[5]
        there.add(offset)
        key = find_property(property_bytes(raw), _KEY)
        if len(chosen) < room and choice.offer(offset, "" if key is None else key.decode("utf-8", "replace")):
            chosen.append(raw)
    choice.pass_over(offset for offset in stretch if offset not in there)
    return chosen


def _lane(ticket: PopTicket, place: Place) -> OrderLane:
    return OrderLane(place.topic, ticket.header.consumer_group, place.queue_id)
