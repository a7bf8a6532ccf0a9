"""Goes through the queues of a topic and of its retry topic for one pop, in Java's order, until the answer is full.

What is found stands in the ticket afterwards. The walk itself reads nothing: a `Source` does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from dataclasses import dataclass

from ...config import Live
from ...model import pop_names
from ...model.receipt import NORMAL, RETRY_V1, RETRY_V2
from ...model.wire_text import whole_number
from ..config import BrokerConfig
from ..intake.message_type import PRIORITY
from ..metadata.attributes import MESSAGE_TYPE
from ..metadata.topics import Topics
from . import queue_order
from .seams import Place, Source
from .tickets import PopTicket


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Walk:
    """Event loop only."""

    live: Live[BrokerConfig]
    topics: Topics

    def go(self, ticket: PopTicket, source: Source) -> Awaitable[None] | None:
        """Look into the queues; None: it is done. If records come from the medium, the rest is done later."""
        places = self.places(ticket)
        for place in places:
            pending = source.take(ticket, place)
            if pending is not None:
                return self._go_on(ticket, source, places, pending)
        return None

    async def _go_on(
        self, ticket: PopTicket, source: Source, places: Iterator[Place], pending: Awaitable[None]
    ) -> None:
        await pending
        for place in places:
            later = source.take(ticket, place)
            if later is not None:
                await later

    def places(self, ticket: PopTicket) -> Iterator[Place]:
        """Return the queues to look into. The retry topic comes first by chance, else last; never for order pops."""
        config, header = self.live.config, ticket.header
        chance, percent = ticket.chance, config.pop_from_retry_probability
        topic = ticket.allowed.topic
        is_urgent_first = topic.attributes.get(MESSAGE_TYPE) == PRIORITY and not ticket.is_ordered
        if is_urgent_first and chance < _priority_factor(ticket):
            chance, percent = 0, config.pop_from_retry_probability_for_priority
        is_first = queue_order.retry_comes_first(chance, percent)
        if is_first and not ticket.is_ordered:
            yield from self._retry_places(ticket, chance, config)
        count = topic.read_queue_nums
        for queue_id in queue_order.queues(header.queue_id, count, chance, config.priority_order_asc):
            yield Place(header.topic, NORMAL, queue_id)
        if not is_first and not ticket.is_ordered and ticket.room > 0:
            yield from self._retry_places(ticket, chance, config)

    def _retry_places(self, ticket: PopTicket, chance: int, config: BrokerConfig) -> Iterator[Place]:
        topic, group = ticket.header.topic, ticket.header.consumer_group
        also_v1 = config.retrieve_message_from_pop_retry_topic_v1
        v1 = queue_order.reads_first_form(chance, config.enable_retry_topic_v2, also_v1)
        name = pop_names.retry_topic(topic, group, v2=not v1)
        retry = self.topics.find(name)
        if retry is not None:
            mark = RETRY_V1 if v1 else RETRY_V2
            for queue_id in queue_order.queues(-1, retry.read_queue_nums, chance, config.priority_order_asc):
                yield Place(name, mark, queue_id)


def _priority_factor(ticket: PopTicket) -> int:
    """Return the percentage of pops that look at priorities: the group's attribute `priority.factor`."""
    factor = whole_number(ticket.allowed.group.attributes.get("priority.factor"), high=queue_order.CHANCES)
    return queue_order.CHANCES if factor is None else factor
