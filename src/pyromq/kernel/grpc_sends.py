"""What native gRPC sends and the proxy say to each other: settings and verdicts in, frames for the broker's feed out.

A plain SendMessage is turned into the frame that a remoting client would have sent and goes to the broker's feed with
all others of its buffer, so that every rule of storing stays where it is. What the proxy checks before (`SendRules`) is
decided by it, too: the kernel takes only what surely passes, and leaves the rest to the RPC in Python untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class SendRules(NamedTuple):
    """The proxy's limits of a message. New ones void all verdicts."""

    path: str  # the method
    body_bytes: int
    properties: int  # how many a user may set
    property_bytes: int  # of names and values, tag and keys
    group_bytes: int  # of a message group; the limit itself is too long
    names: Sequence[str]  # property names that users may not set, or that say more than a property does
    ok_status: bytes  # `Status` of success, as protobuf


class TopicRules(NamedTuple):
    """A verdict: messages of these kinds may go to the queues 0 to `queues` - 1 of this broker."""

    queues: int
    takes_plain: bool
    takes_fifo: bool
    broker: str


class GrpcSendHost(Protocol):
    """What the kernel asks of the proxy, on the event loop."""

    def judge(self, topic: str) -> TopicRules | None:
        """Return the verdict on a topic, which holds until it is revoked; None: leave its messages to Python."""
        ...

    def answer_of(self, code: int, remark: str) -> bytes:
        """Return the SendMessageResponse of a message that the broker answered with another code than success."""
        ...


@dataclass(slots=True, eq=False)
class HotPeer:
    """One connection as the broker's feed knows it. Calls of HTTP/2 have no order among them, so none is unfinished."""

    address: str
    listener: str
    notes: object = None
    answers_later: bool = False
    unfinished: int = 0
    unfinished_sends: int = 0
