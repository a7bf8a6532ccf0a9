"""What other queues of a topic do to its messages: hidden ones, ones that nobody will read, keys that move.

Asked by `pyromq topic create` and `update` and by `pyromq apply`, before anything is changed and in a dry run too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ... import admin
from ...model.foreign_text import shell_word
from ...model.topic import order_text
from ...text.values import plural
from ..terminal.printing import print_lines
from ..terminal.shell import Shell
from ..terminal.tree import Fail
from ..terminal.validation import check_name_servers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...admin.cluster import BrokerPlace
    from ...protocol.bodies.topics import TopicConfig

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


async def check_queues(shell: Shell, now: Pairs, then: Pairs, *, move_keys: bool) -> QueueLosses:
    """Return what is lost, warned of on standard error, also after --yes: those messages were acknowledged.

    Fail if keys of an order topic would leave queues that are not consumed yet. `now` has the brokers that have the
    topic, of those in `then`.
    """
    before = {place.name: config for place, config in now}
    await _check_order(shell, before, then, move_keys)
    losses = QueueLosses(await _hidden(shell, before, then), _unread(before, then))
    name = shell_word(then[0][1].topic_name)
    if losses.hidden:
        _warn_of_hidden(name, before, then, losses)
    for broker, queues in losses.unread.items():
        writes = max(config.write_queue_nums for _, config in then)
        print_lines(
            f"WARNING: {queues} of {name} on {broker} would be written and read by nobody. "
            f"A topic needs as many queues to read as to write: --read-queues {writes}",
            err=True,
        )
    return losses


async def _hidden(shell: Shell, before: Mapping[str, TopicConfig], then: Pairs) -> dict[str, dict[int, int]]:
    """Return, by broker and queue, the messages that are not consumed and that nobody would read any more."""
    found = {
        place.name: await admin.offsets.unread_beyond(shell.calls, place.address, new.topic_name, new.read_queue_nums)
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


def _warn_of_hidden(name: str, before: Mapping[str, TopicConfig], then: Pairs, losses: QueueLosses) -> None:
    where = "; ".join(
        f"{broker}: " + ", ".join(f"{unread} in queue {queue}" for queue, unread in queues.items())
        for broker, queues in losses.hidden.items()
    )
    reads = max(config.read_queue_nums for config in before.values())
    writes = min(min(config.write_queue_nums, config.read_queue_nums) for _, config in then)
    print_lines(
        f"WARNING: {plural(losses.count, 'message')} of {name} not consumed yet would be in queues that nobody reads "
        f"({where}). To have them consumed first: pyromq topic update {name} --queues {writes} --read-queues {reads}",
        err=True,
    )


# --- order topics -----------------------------------------------------------------------------------------------------


async def broker_name(shell: Shell, place: BrokerPlace) -> str:
    """Return the broker's own name, also where the user gave its address."""
    if place.cluster:
        return place.name
    return (await admin.settings.of_broker(shell.calls, place.address)).get("brokerName", place.name)


async def _check_order(shell: Shell, before: Mapping[str, TopicConfig], then: Pairs, move_keys: bool) -> None:
    """Fail if keys would move to other queues, by other numbers or brokers, while messages wait to be consumed."""
    name = then[0][1].topic_name
    if not any(config.order for config in (*before.values(), *(config for _, config in then))):
        return
    await check_name_servers(shell)  # they keep what `put_order` writes
    having = [
        (place, config)
        for place in await shell.masters()
        if (config := await admin.topics.config(shell.calls, place.address, name)) is not None
    ]
    by_config = {place.name: config.write_queue_nums for place, config in having if config.order}
    now = await admin.topics.ordered_queues(shell.calls, name) or by_config
    wanted = {await broker_name(shell, place): config.write_queue_nums * config.order for place, config in then}
    after = {broker: count for broker, count in (now | wanted).items() if count}
    is_resized = any(
        place.name in before
        and before[place.name].order
        and before[place.name].write_queue_nums != new.write_queue_nums
        for place, new in then
    )
    if not now or (after == now and not is_resized):
        return
    unread = [await admin.offsets.unread_beyond(shell.calls, place.address, name, 0) for place, _ in having]
    if not (count := sum(sum(queues.values()) for queues in unread)):
        return
    consequence = (
        f"{plural(count, 'message')} of the order topic {name} not consumed by every group: with "
        f"{order_text(after) or 'none'} in place of {order_text(now)} keys move to other queues, where their next "
        "messages may overtake these"
    )
    if not move_keys:
        raise Fail(f"{consequence}. Wait until they are consumed, or accept it by --move-keys")
    print_lines(f"WARNING: {consequence}", err=True)
