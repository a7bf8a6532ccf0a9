"""Requests 200054 and 200055: tell a group that a pop would find something, and how many pops wait.

A notification that finds nothing waits in a table of its own, like a pop. It takes nothing and promises nothing: who is
told first may find that another was quicker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ....ambient import Clock
from ....errors import RequestRefused
from ....protocol.bodies.topics import TopicConfig
from ....protocol.headers.header import GroupQueue
from ....protocol.headers.pop import Notification, NotificationAnswer, PollingInfoAnswer
from ....transport.dispatch import Answer, Reply, Request, RequestOf, failed
from ...filters.filters import is_by_tags, tag_codes
from ...intake.put_answers import answer
from ...reading.long_poll import Arrivals, SuspendedPull
from ..handler import PopHandler
from ..order.lanes import HeldQueues
from ..order.table import OrderLane
from ..rollback import NOT_SET
from ..waiting import HeldPops, Holding
from .glances import Glances

NO_MESSAGE = {"hasMsg": "false", "pollingFull": "false"}
NONE_WAIT = {"pollingNum": "0"}
SCANNED = 32  # entries that are compared with a filter by tags


@dataclass(slots=True, eq=False, repr=False)
class NotificationTicket:
    """A notification that waits."""

    request: Request
    header: Notification

    @property
    def size(self) -> int:
        fields = self.request.command.fields
        return sum(map(len, fields)) + sum(map(len, fields.values()))


@dataclass(slots=True, eq=False, repr=False)
class NotificationHandler:
    """Event loop only."""

    glances: Glances
    clock: Clock
    arrivals: Arrivals
    order: HeldQueues
    held: HeldPops[NotificationTicket] = field(init=False)

    def __post_init__(self) -> None:
        self.held = HeldPops(self.clock, self.arrivals, self._retry, self._end, self._dismiss)

    def __call__(self, request: RequestOf[Notification, None]) -> Answer:
        header = request.header
        header.born_time = header.born_time or self.clock.now_ms()
        if self._finds(request, header):
            return _reply(has_message=True)
        held = self._hold(NotificationTicket(request, header))
        return None if held is Holding.WAITS else _reply(is_full=held is Holding.FULL)

    # --- looking --------------------------------------------------------------------------------------------------

    def _finds(self, request: Request, header: Notification) -> bool:
        topic = self.glances.check(header, request.peer, NO_MESSAGE)
        return any(self._has(header, name, queue_id) for name, queue_id in self._places(header, topic))

    def _places(self, header: Notification, topic: TopicConfig) -> Iterator[tuple[str, int]]:
        numbers = range(topic.read_queue_nums) if header.queue_id < 0 else (header.queue_id,)
        yield from ((header.topic, number) for number in numbers)
        for retry in self.glances.retry_topics(header.topic, header.consumer_group):
            yield from ((retry.topic_name, number) for number in range(retry.read_queue_nums))

    def _has(self, header: Notification, topic: str, queue_id: int) -> bool:
        group, config = header.consumer_group, self.glances.live.config
        if header.order and self.order.is_blocked(OrderLane(header.topic, group, queue_id), header.attempt_id):
            return False
        rest = self.glances.rest(topic, group, queue_id)
        if rest <= 0 or not header.exp or not is_by_tags(header.exp_type):
            return rest > 0
        if not config.use_message_filter_for_notification or rest >= config.max_message_filter_num_for_notification:
            return True
        codes = tag_codes(header.exp.split("||"))
        return codes is None or self._has_tag(group, topic, queue_id, codes)

    def _has_tag(self, group: str, topic: str, queue_id: int, codes: frozenset[int]) -> bool:
        queue = self.glances.store.queues.get(topic, queue_id)
        if queue is None:
            return False
        first = max(self.glances.position(topic, group, queue_id), queue.min_offset)
        entries = (queue.entry_at(offset) for offset in range(first, min(first + SCANNED, queue.readable_end)))
        return any(entry is not None and entry.tag_code in codes for entry in entries)

    # --- waiting --------------------------------------------------------------------------------------------------

    def _hold(self, ticket: NotificationTicket) -> Holding:
        header, config = ticket.header, self.glances.live.config
        if header.poll_time <= 0 or ticket.request.command.is_oneway:
            return Holding.NOT
        wait_ms = header.born_time + header.poll_time - self.clock.now_ms()
        place = (header.topic, header.consumer_group, header.queue_id)
        limits = (config.max_pop_polling_size, config.pop_polling_size)
        return self.held.add(place, wait_ms, ticket.request.peer, ticket, limits)

    def _retry(self, waiter: SuspendedPull[NotificationTicket]) -> int:
        if not self._answered(waiter.ticket):
            self.held.put_back(waiter)
        return 1

    def _end(self, ticket: NotificationTicket) -> None:
        if not self._answered(ticket):
            answer(ticket.request, _reply())

    def _dismiss(self, ticket: NotificationTicket) -> None:
        answer(ticket.request, _reply())

    def _answered(self, ticket: NotificationTicket) -> bool:
        """Look again, and answer if there is something to tell: a message, or why none can be had any more."""
        try:
            if not self._finds(ticket.request, ticket.header):
                return False
        except RequestRefused as refusal:
            answer(ticket.request, failed(ticket.request, refusal))
        else:
            answer(ticket.request, _reply(has_message=True))
        return True


def _reply(*, has_message: bool = False, is_full: bool = False) -> Reply:
    return Reply(remark=NOT_SET, header=NotificationAnswer(has_msg=has_message, polling_full=is_full))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PollingInfo:
    """How many pops wait under exactly the queue number that is asked for: -1 for those of any queue."""

    glances: Glances
    pops: PopHandler

    def __call__(self, request: RequestOf[GroupQueue, None]) -> Reply:
        header = request.header
        self.glances.check(header, request.peer, NONE_WAIT)
        count = self.pops.held.count(header.topic, header.consumer_group, header.queue_id)
        return Reply(remark=NOT_SET, header=PollingInfoAnswer(polling_num=count))
