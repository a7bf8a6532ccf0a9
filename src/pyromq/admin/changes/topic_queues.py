"""What other queues of a topic do to its messages: hidden ones, ones that nobody will read, keys that move.

Found before anything is changed, by `pyromq topic create` and `update`, by `pyromq apply` and by the dashboard's plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...model.topic import order_text
from ...text.values import plural
from .. import cluster, offsets, settings, topics

if TYPE_CHECKING:
    from ...protocol.bodies.topics import TopicConfig
    from ..calls import Calls
    from ..cluster import BrokerPlace

    Pairs = Sequence[tuple[BrokerPlace, TopicConfig]]


@dataclass(frozen=True, slots=True)
class QueueLosses:
    """Messages that nobody would read any more, and those to come."""

    hidden: dict[str, dict[int, int]]  # by broker and queue: messages that are not consumed
    unread: dict[str, str]  # by broker: the queues that would be written and not read, in words

    def __bool__(self) -> bool:
        return bool(self.hidden or self.unread)

    @property
    def count(self) -> int:
        return sum(sum(queues.values()) for queues in self.hidden.values())

    def in_words(self) -> str:
        """Return what is lost, as the end of a sentence that begins with what is done. Nothing where nothing is."""
        hidden = f" and hide {plural(self.count, 'message')} that are not consumed" if self.hidden else ""
        where = "; ".join(f"{queues} on {broker}" for broker, queues in self.unread.items())
        return hidden + (f" and let nobody read what is sent to {where}" if where else "")

    def columns(self, broker: str) -> dict[str, Any]:
        """Return what a plan says of a broker."""
        hides = {str(queue): count for queue, count in self.hidden.get(broker, {}).items()}
        return ({"hides": hides} if self.hidden else {}) | ({"unread": self.unread.get(broker)} if self.unread else {})


@dataclass(frozen=True, slots=True)
class MovedKeys:
    """Keys of an order topic that would leave their queues, with messages that are not consumed by every group."""

    count: int
    now: str  # as in broker-a:4;broker-b:4
    then: str


async def losses_of(calls: Calls, now: Pairs, then: Pairs) -> QueueLosses:
    """Return what is lost by the change. `now` has the brokers that have the topic, of those in `then`."""
    before = {place.name: config for place, config in now}
    return QueueLosses(await _hidden(calls, before, then), _unread(before, then))


async def _hidden(calls: Calls, before: Mapping[str, TopicConfig], then: Pairs) -> dict[str, dict[int, int]]:
    """Return, by broker and queue, the messages that are not consumed and that nobody would read any more."""
    found = {
        place.name: await offsets.unread_beyond(calls, place.address, new.topic_name, new.read_queue_nums)
        for place, new in then
        if place.name in before and new.read_queue_nums < before[place.name].read_queue_nums
    }
    return {name: queues for name, queues in found.items() if queues}


def _unread(before: Mapping[str, TopicConfig], then: Pairs) -> dict[str, str]:
    """Return the queues that are to be written and not read, by broker, unless that is so already."""
    found = {}
    for place, new in then:
        reads, writes = new.read_queue_nums, new.write_queue_nums
        old = before.get(place.name)
        if reads < writes and (old is None or (reads, writes) != (old.read_queue_nums, old.write_queue_nums)):
            found[place.name] = f"queue {reads}" if writes - reads == 1 else f"queues {reads} to {writes - 1}"
    return found


# --- order topics -----------------------------------------------------------------------------------------------------


async def broker_name(calls: Calls, place: BrokerPlace) -> str:
    """Return the broker's own name, also where the user gave its address."""
    if place.cluster:
        return place.name
    return (await settings.of_broker(calls, place.address)).get("brokerName", place.name)


def concerns_order(now: Pairs, then: Pairs) -> bool:
    """Return whether the topic is or becomes an order topic: then its keys may move."""
    return any(config.order for _, config in (*now, *then))


async def moved_keys(calls: Calls, now: Pairs, then: Pairs) -> MovedKeys | None:
    """Return what would move to other queues, by other numbers or brokers, while messages wait; None: nothing."""
    if not concerns_order(now, then):
        return None
    name, before = then[0][1].topic_name, {place.name: config for place, config in now}
    having = [
        (place, config)
        for place in await cluster.masters(calls)
        if (config := await topics.config(calls, place.address, name)) is not None
    ]
    by_config = {place.name: config.write_queue_nums for place, config in having if config.order}
    ordered = await topics.ordered_queues(calls, name) or by_config
    wanted = {await broker_name(calls, place): config.write_queue_nums * config.order for place, config in then}
    after = {broker: count for broker, count in (ordered | wanted).items() if count}
    is_resized = any(
        place.name in before
        and before[place.name].order
        and before[place.name].write_queue_nums != new.write_queue_nums
        for place, new in then
    )
    if not ordered or (after == ordered and not is_resized):
        return None
    unread = [await offsets.unread_beyond(calls, place.address, name, 0) for place, _ in having]
    count = sum(sum(queues.values()) for queues in unread)
    return MovedKeys(count, order_text(ordered), order_text(after) or "none") if count else None
