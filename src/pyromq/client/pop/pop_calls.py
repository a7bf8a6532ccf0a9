"""What a consumer asks of those who hand out messages: the seam between consumers and the way to brokers.

A popped message is hidden from its group for a time and comes again unless it is acknowledged within it. Over remoting
`remoting_pops.py` does this, by requests to brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ...model.message import StoredMessage
from ...protocol.bodies.keyed import MessageQueue
from ..subscription import Filter
from .popped import Popped

ANY_QUEUE = -1  # of a place: all queues of its broker
MOST_POPPED = 32  # by one request, as brokers have it


class Handed(NamedTuple):
    """One message of an answer. `receipt` is for whoever made the call; `queue` names the topic that was asked for."""

    message: StoredMessage
    queue: MessageQueue
    receipt: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PopRequest:
    place: MessageQueue  # a broker's queue, or ANY_QUEUE of it
    wanted: Filter
    most: int
    hold_s: float  # for which the broker may wait for something to come
    invisible_s: float
    is_ordered: bool = False
    attempt: str = ""  # the same for a repeated call, which then gets the same messages
    from_first: bool = False  # where a group without offsets begins
    is_renewed: bool = False  # by the server, if it does that


class PopCalls(Protocol):
    """Event loop only. Calls raise the errors of `errors.py`."""

    is_cancellable: bool  # the server takes back what it would hand to a pop that was cancelled, and has no `watch`
    is_renewing: bool  # the server makes invisible times longer, as long as the consumer is there

    async def places(self, topic: str) -> list[MessageQueue]:
        """Return who can be asked for messages of a topic. TopicNotFound, NoBroker."""
        ...

    async def pop(self, request: PopRequest) -> list[Handed]:
        """Return up to `most` messages, which are hidden from the group for the invisible time."""
        ...

    async def begin(self, request: PopRequest) -> list[Handed]:
        """Let the group begin at this place, if it is new there, and return what is there already."""
        ...

    async def watch(self, request: PopRequest) -> bool:
        """Return whether a message may be there, at the latest after `hold_s`. Nothing is handed out by this."""
        ...

    async def ack(self, messages: Sequence[Popped]) -> None:
        """Acknowledge messages that one broker has handed out."""
        ...

    async def change(self, message: Popped, seconds: float, *, counts: bool) -> Any:
        """Let the message come again after so many seconds from now. Return its new receipt.

        `counts`: as another attempt.
        """
        ...

    async def dead_letter(self, message: Popped, reason: str) -> None:
        """Put the message among the group's dead letters, and acknowledge it."""
        ...
