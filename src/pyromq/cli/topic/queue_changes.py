"""Warns of what other queues of a topic do to its messages: hidden ones, ones that nobody will read, keys that move.

Called by `pyromq topic create` and `update` and by `pyromq apply`, before anything is changed and in a dry run too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...model.foreign_text import shell_word
from ...text.values import plural
from ..terminal.printing import print_lines
from ..terminal.shell import Shell
from ..terminal.tree import Fail
from ..terminal.validation import check_name_servers

if TYPE_CHECKING:
    from ...admin.changes.topic_queues import Pairs, QueueLosses
    from ...protocol.bodies.topics import TopicConfig


async def check_queues(shell: Shell, now: Pairs, then: Pairs, *, move_keys: bool) -> QueueLosses:
    """Return what is lost, warned of on standard error, also after --yes: those messages were acknowledged.

    Fail if keys of an order topic would leave queues that are not consumed yet. `now` has the brokers that have the
    topic, of those in `then`.
    """
    from ...admin.changes.topic_queues import losses_of

    await _check_order(shell, now, then, move_keys)
    losses = await losses_of(shell.calls, now, then)
    name = shell_word(then[0][1].topic_name)
    if losses.hidden:
        _warn_of_hidden(name, {place.name: config for place, config in now}, then, losses)
    for broker, queues in losses.unread.items():
        writes = max(config.write_queue_nums for _, config in then)
        print_lines(
            f"WARNING: {queues} of {name} on {broker} would be written and read by nobody. "
            f"A topic needs as many queues to read as to write: --read-queues {writes}",
            err=True,
        )
    return losses


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


async def _check_order(shell: Shell, now: Pairs, then: Pairs, move_keys: bool) -> None:
    """Fail if keys would move to other queues, by other numbers or brokers, while messages wait to be consumed."""
    from ...admin.changes.topic_queues import concerns_order, moved_keys

    if not concerns_order(now, then):
        return
    await check_name_servers(shell)  # they keep what `put_order` writes
    moved = await moved_keys(shell.calls, now, then)
    if moved is None:
        return
    consequence = (
        f"{plural(moved.count, 'message')} of the order topic {then[0][1].topic_name} not consumed by every group: "
        f"with {moved.then} in place of {moved.now} keys move to other queues, where their next messages may overtake "
        "these"
    )
    if not move_keys:
        raise Fail(f"{consequence}. Wait until they are consumed, or accept it by --move-keys")
    print_lines(f"WARNING: {consequence}", err=True)
