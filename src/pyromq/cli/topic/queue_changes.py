"""What another number of queues does to messages that are not consumed yet. Asked by `pyromq topic update`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import admin
from ..terminal.printing import print_lines
from ..terminal.shell import Shell
from ..terminal.tree import Fail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...admin.cluster import BrokerPlace
    from ...protocol.bodies.topics import TopicConfig

    Pairs = Sequence[tuple[BrokerPlace, TopicConfig]]
    Hidden = dict[str, dict[int, int]]  # by broker and queue: messages that nobody would read any more


async def hidden_messages(shell: Shell, now: Pairs, then: Pairs) -> Hidden:
    """Return, by broker and queue, the messages that are not consumed and that nobody would read any more."""
    found = {
        place.name: await admin.offsets.unread_beyond(shell.calls, place.address, new.topic_name, new.read_queue_nums)
        for (place, old), (_, new) in zip(now, then, strict=True)
        if new.read_queue_nums < old.read_queue_nums
    }
    return {name: queues for name, queues in found.items() if queues}


def warn_of_hidden(name: str, now: Pairs, then: Pairs, hidden: Hidden) -> None:
    """Warn on standard error, also after --yes: messages that were acknowledged would go out of sight."""
    count = sum(sum(queues.values()) for queues in hidden.values())
    where = "; ".join(
        f"{broker}: " + ", ".join(f"{unread} in queue {queue}" for queue, unread in queues.items())
        for broker, queues in hidden.items()
    )
    reads = max(config.read_queue_nums for _, config in now)
    writes = min(config.write_queue_nums for _, config in then)
    print_lines(
        f"WARNING: {count} message{'s' * (count > 1)} not consumed yet would be in queues that nobody reads ({where}). "
        f"To have them consumed first: pyromq topic update {name} --queues {writes} --read-queues {reads}",
        err=True,
    )


async def check_order(shell: Shell, now: Pairs, then: Pairs, move_keys: bool) -> None:
    """Fail, before anything is changed, if keys of an order topic would leave queues that are not consumed yet."""
    count = 0
    for (place, old), (_, new) in zip(now, then, strict=True):
        if old.order and old.write_queue_nums != new.write_queue_nums:
            unread = await admin.offsets.unread_beyond(shell.calls, place.address, old.topic_name, 0)
            count += sum(unread.values())
    if not count:
        return
    consequence = (
        f"{count} message{'s' * (count > 1)} of the order topic {now[0][1].topic_name} not consumed by every group: "
        "with another number of queues keys move to other queues, where their next messages may overtake these"
    )
    if not move_keys:
        raise Fail(f"{consequence}. Wait until they are consumed, or accept it by --move-keys")
    print_lines(f"WARNING: {consequence}", err=True)
