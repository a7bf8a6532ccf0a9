"""Records that nobody can read: a damaged or unknown compression, a body that grows too large, a broken inner batch.

They have their places among the messages of a queue, so that everything else is delivered and the offset goes on.
Consumers log_unreadable of each once, here; handlers never see one. Which way it goes is an option of the consumer:

| option | push | broadcast | pull |
|---|---|---|---|
| `dead-letter` | the default: given back to the broker as a dead letter, as it is stored | | |
| `skip` | left out | the default | left out |
| `raise` | | | the default: `poll` raises `Unreadable` with its place; `seek` goes on behind it |
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import Literal

from ... import logs
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.messages import UnreadableMessage
from ..core.retry import Reject
from ..errors import Error, Unreadable
from ..received import Received
from .attempts import Attempt
from .handlers import Outcomes

log = logs.get("pyromq.client")

PushWay = Literal["dead-letter", "skip"]
PullWay = Literal["raise", "skip"]


def check_way(value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        words = " or ".join(f'"{each}"' for each in allowed)
        raise Error(f"on_unreadable={value!r} is no way for a record that cannot be read", hint=f"Give {words}")


def log_unreadable(group: str, queue: MessageQueue, messages: Iterable[UnreadableMessage], way: str) -> None:
    """Name each one in the log, with its place and its cause."""
    for message in messages:
        log.error(
            "a record cannot be read",
            group=group,
            queue=str(queue),
            offset=message.queue_offset,
            position=message.physical_offset,
            id=message.message_id,
            fault=message.fault,
            way=way,
        )


def unreadable_error(queue: MessageQueue, message: UnreadableMessage, end: int) -> Unreadable:
    """Return what a caller of `poll` gets. `end`: the offset behind everything that was pulled."""
    return Unreadable(
        f"the record at offset {message.queue_offset} of {queue} (commit log position {message.physical_offset}, "
        f"message {message.message_id}) cannot be read: {message.fault}",
        hint='Go on behind it with `await consumer.seek(fault.queue, fault.next_offset)`, or give on_unreadable="skip"',
        queue=queue,
        message=message,
        next_offset=min(message.next_offset, max(end, message.queue_offset + 1)),
    )


def before_handlers(attempt: Attempt, way: PushWay) -> Attempt:
    """Keep unreadable messages from the handler: they are rejected, or done with where they are to be skipped."""

    def outcome(message: UnreadableMessage) -> Exception | None:
        """Return what becomes of it. One whose frame is broken has no position by which the broker could find it."""
        return None if way == "skip" or message.physical_offset < 0 else Reject(message.fault)

    async def mixed(received: Sequence[Received]) -> Outcomes:
        readable = [each for each in received if not isinstance(each.message, UnreadableMessage)]
        outcomes = iter(await attempt(readable) if readable else ())
        return [
            outcome(each.message) if isinstance(each.message, UnreadableMessage) else next(outcomes)
            for each in received
        ]

    def checked(received: Sequence[Received]) -> Awaitable[Outcomes]:
        if len(received) == 1:  # nearly always
            is_odd = isinstance(received[0].message, UnreadableMessage)
        else:
            is_odd = any(isinstance(each.message, UnreadableMessage) for each in received)
        return mixed(received) if is_odd else attempt(received)

    return checked
