"""Reads a lane for a plain pop: where it goes on, what is there, and what the table says is handed out now.

One read is one check point. Whatever is in memory is read, noted and added to the answer in one go, so no two pops can
get the same message; a lane whose records come from the medium is passed over by others until they are there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from ....config import Live
from ....errors import RequestRefused
from ....kernel.records import Range
from ....model import names
from ....model.codes import ResponseCode
from ....protocol.record import HEAD
from ....store.log.reader import GetStatus, Selection
from ....store.message_store import MessageStore
from ....store.queues.queue import StoredQueue
from ...clients.pulled_queues import PulledQueues
from ...config import BrokerConfig
from ...reading.filtered_read import Search
from ...reading.queue_reads import QueueReads
from ..retry_records import as_handed_out
from ..seams import Place
from ..tickets import PopTicket
from .lanes import Lanes

FROM_MIN, FROM_MAX = 0, 1  # initMode
_WRONG = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY)

# Called with topic, group, queue, messages and bytes that were handed out, the ms that it took, and whether they came
# from the medium.
GetCounter = Callable[[str, str, int, int, int, float, bool], None]


@dataclass(slots=True, eq=False, repr=False)
class LaneSource:
    """Event loop only."""

    live: Live[BrokerConfig]
    store: MessageStore
    reads: QueueReads
    lanes: Lanes
    pulled: PulledQueues
    count: GetCounter
    in_flight: Callable[[int], int]  # messages of a lane that are handed out
    reading: set[tuple[str, str, int]] = field(default_factory=set)  # lanes that wait for the medium

    def take(self, ticket: PopTicket, place: Place) -> Awaitable[None] | None:
        """Take what there is room for; None: it is done. Of a queue that a member pulls not even the rest is told."""
        config, group = self.live.config, ticket.header.consumer_group
        if self.pulled.is_pulled(place.topic, group, place.queue_id):
            return None
        offset = self._offset(ticket, place, config)
        if ticket.room <= 0 or self._is_passed_over(group, place, config):
            ticket.rest += self._behind(place, offset)
            return None
        search = self._search(ticket, place, offset, config)
        if self.reads.is_cold(search):
            return self._take_cold(ticket, place, search)
        found = self.reads.find(search, ticket.allowed.wanted, config)
        if found.selection.status in _WRONG:
            search = self._search(ticket, place, self._corrected(group, place, found.selection), config)
            found = self.reads.find(search, ticket.allowed.wanted, config)
        if found.unread is not None and found.selection.status is not GetStatus.FOUND:
            return self._match_cold(ticket, place, search, found.unread)
        records = self.store.reader.read_resident(found.selection.ranges)
        if records is None:
            return self._read_cold(ticket, place, search.offset, found.selection)
        self._hand_out(ticket, place, search.offset, found.selection, records)
        return None

    # --- where to read --------------------------------------------------------------------------------------------

    def _offset(self, ticket: PopTicket, place: Place, config: BrokerConfig) -> int:
        """Return where the lane goes on. A group that is new begins by its initMode, and that is committed at once."""
        header = ticket.header
        lane = self.lanes.find(header.consumer_group, place.topic, place.queue_id)
        if lane is not None:
            return self.lanes.table.next_offset(lane)
        committed = self.lanes.committed(header.consumer_group, place.topic, place.queue_id)
        if committed is not None:
            return committed
        starts = self._starts(ticket, place, config)
        if not self.lanes.commit_starts(header.consumer_group, place.topic, starts):
            raise RequestRefused(
                f"group {header.consumer_group} has no offset in {place.topic} and gets none: this broker keeps those "
                f"of {config.max_consumer_offsets} pairs of group and topic (maxConsumerOffsets)",
                ResponseCode.SYSTEM_BUSY,
            )
        return starts[place.queue_id]

    def _starts(self, ticket: PopTicket, place: Place, config: BrokerConfig) -> dict[int, int]:
        """Return where the group begins in a queue; at the end, in all queues, so that it gets what comes from now on.

        The last message is handed out too, as in Java. In Java each queue begins when a pop first reaches it.
        """
        if ticket.header.init_mode == FROM_MIN or names.is_retry(place.topic):
            queue = self.store.queues.get(place.topic, place.queue_id)
            return {place.queue_id: 0 if queue is None else queue.min_offset}
        numbers = {place.queue_id, *range(ticket.allowed.topic.read_queue_nums)}
        queues = {number: self.store.queues.get(place.topic, number) for number in numbers}
        is_young = config.init_pop_offset_by_check_msg_in_mem and self._is_young([*filter(None, queues.values())])
        return {
            number: 0 if queue is None or is_young else max(0, queue.readable_end - 1)
            for number, queue in queues.items()
        }

    def _is_young(self, queues: Sequence[StoredQueue]) -> bool:
        """Return whether the first message of a topic is there, and in memory."""
        if any(queue.min_offset > 0 for queue in queues):
            return False
        entries = [queue.entry_at(0) for queue in queues if queue.readable_end > 0]
        first = min((entry for entry in entries if entry is not None), key=lambda entry: entry.position, default=None)
        if first is None:
            return True
        return self.store.reader.read_resident((Range(first.position, first.size, 0),)) is not None

    def _behind(self, place: Place, offset: int) -> int:
        queue = self.store.queues.get(place.topic, place.queue_id)
        return 0 if queue is None else max(0, queue.readable_end - offset)

    def _is_passed_over(self, group: str, place: Place, config: BrokerConfig) -> bool:
        if (group, place.topic, place.queue_id) in self.reading:
            return True
        if not config.enable_pop_message_threshold:
            return False
        lane = self.lanes.find(group, place.topic, place.queue_id)
        return lane is not None and self.in_flight(lane) > config.pop_inflight_message_threshold

    def _search(self, ticket: PopTicket, place: Place, offset: int, config: BrokerConfig) -> Search:
        count = min(ticket.room, config.max_transfer_count_on_message_in_memory)
        return Search(place.topic, place.queue_id, offset, count, config.max_transfer_bytes_on_message_in_memory)

    def _corrected(self, group: str, place: Place, selection: Selection) -> int:
        """Go on where the store says: retention has passed the group, or the topic was made anew."""
        self._move(group, place, selection.next_offset)
        return selection.next_offset

    def _move(self, group: str, place: Place, offset: int) -> None:
        lane = self.lanes.open(group, place.topic, place.queue_id, offset)
        self.lanes.table.set_next(lane, offset)
        self.lanes.settle(lane)
        self.lanes.journal.changed()

    # --- from the medium ------------------------------------------------------------------------------------------

    async def _take_cold(self, ticket: PopTicket, place: Place, search: Search) -> None:
        with self._reserved(ticket, place):
            config = self.live.config
            found = await self.reads.find_cold(search, ticket.allowed.wanted, config)
            if found.selection.status in _WRONG:
                self._corrected(ticket.header.consumer_group, place, found.selection)
                return
            if found.unread is not None and found.selection.status is not GetStatus.FOUND:
                selection = await self.reads.match_cold(search, ticket.allowed.wanted, found.unread, config)
            else:
                selection = found.selection
            await self._hand_out_cold(ticket, place, search.offset, selection)

    async def _match_cold(self, ticket: PopTicket, place: Place, search: Search, unread: Selection) -> None:
        with self._reserved(ticket, place):
            selection = await self.reads.match_cold(search, ticket.allowed.wanted, unread, self.live.config)
            await self._hand_out_cold(ticket, place, search.offset, selection)

    async def _read_cold(self, ticket: PopTicket, place: Place, start: int, selection: Selection) -> None:
        with self._reserved(ticket, place):
            await self._hand_out_cold(ticket, place, start, selection)

    async def _hand_out_cold(self, ticket: PopTicket, place: Place, start: int, selection: Selection) -> None:
        group = ticket.header.consumer_group
        records = self.store.reader.read_resident(selection.ranges)
        if records is None:
            read = await self.reads.read_cold(group, selection, self.live.config)
            if read.records is None:  # the group reads too much from the medium: the next pop may find it free again
                ticket.rest += read.selection.max_offset - start
                return
            selection, records = read.selection, read.records
        if self._offset(ticket, place, self.live.config) != start:
            return  # the group was reset meanwhile
        if self.pulled.is_pulled(place.topic, group, place.queue_id):
            return
        self._hand_out(ticket, place, start, selection, records, from_disk=True)

    def _reserved(self, ticket: PopTicket, place: Place) -> _Reserved:
        return _Reserved(self.reading, (ticket.header.consumer_group, place.topic, place.queue_id))

    # --- handing out ----------------------------------------------------------------------------------------------

    def _hand_out(
        self,
        ticket: PopTicket,
        place: Place,
        start: int,
        selection: Selection,
        records: Sequence[bytes],
        from_disk: bool = False,
    ) -> None:
        header, next_offset = ticket.header, selection.next_offset
        if not records:
            if next_offset > start:  # nothing matches, or all of it is damaged: the group goes on behind it
                self._move(header.consumer_group, place, next_offset)
            ticket.rest += max(0, selection.max_offset - next_offset)
            return
        offsets = [HEAD.unpack_from(raw)[5] for raw in records]
        lane = self.lanes.open(header.consumer_group, place.topic, place.queue_id, start)
        handed_out = self.lanes.table.hand_out(
            lane, start, offsets, next_offset, ticket.pop_time, header.invisible_time, ticket.revive_queue
        )
        if not handed_out:  # the same lane in the same millisecond again, or no room: they stay for another pop
            ticket.rest += max(0, selection.max_offset - start)
            return
        self.lanes.settle(lane)
        ticket.rest += max(0, selection.max_offset - next_offset)
        ticket.add(place.mark, place.queue_id, start, offsets, as_handed_out(ticket, place, start, records, self.live))
        size, took_ms = sum(map(len, records)), (self.reads.clock.monotonic() - ticket.begun) * 1000
        self.count(place.topic, header.consumer_group, place.queue_id, len(records), size, took_ms, from_disk)


@dataclass(slots=True)
class _Reserved:
    """Keeps other pops from a lane while its records come from the medium."""

    lanes: set[tuple[str, str, int]]
    lane: tuple[str, str, int]

    def __enter__(self) -> None:
        self.lanes.add(self.lane)

    def __exit__(self, *_: object) -> None:
        self.lanes.discard(self.lane)
