"""What native receives, acks and changes of gRPC clients and the proxy say to each other.

A ReceiveMessage, AckMessage or ChangeInvisibleDuration that surely passes every check of the proxy is turned into the
frame that a remoting client would have sent (200050, 200051, 200053) and goes to the broker's feed with the sends of
its buffer; what the feed answers, at once or when a message has come, becomes the response. Everything else is the
RPC's, untouched.

A verdict on receives is for one client, group, topic and filter, and holds until something of these changes. Messages
that are not plain (compressed otherwise than by gzip, not ASCII, delayed, of a transaction, tags of the same hash, too
often delivered) are asked for one by one: `GrpcPopHost.message`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntFlag
from typing import Final, NamedTuple, Protocol


class Meaning(IntFlag):
    """What a property's name says to whoever turns a record into a message. No name: a user's."""

    HIDDEN = 0  # nobody sees it
    USER = 1  # a property of the user's, whatever else it says
    TAG = 2
    KEYS = 4
    ID = 8
    BORN_HOST = 16
    GROUP = 32
    TRACE = 64
    ODD = 128  # Python's
    RECEIPT = 256  # of records of retry topics


PLACE: Final = (
    ">qqi"  # of a message that was handed out: its offset, place in the log, how often it was delivered before
)


class PopRules(NamedTuple):
    """The proxy's limits. New ones void all verdicts."""

    receive_path: str
    ack_path: str
    change_path: str
    broker: str
    least_poll_ms: int
    most_poll_ms: int
    reserve_ms: int  # of a client's deadline, for the answer
    least_invisible_ms: int  # of a receive
    most_invisible_ms: int
    renewed_ms: int  # of receives whose messages are renewed; 0: none are
    messages: int  # of one receive
    names: Mapping[str, int]  # of properties: `Meaning`
    ok_status: bytes  # `Status` of success, as protobuf
    no_match: bytes  # the first element of an answer whose messages were all not for the client


class ReceiveVerdict(NamedTuple):
    """Receives of this client, group, topic and filter may be served."""

    client_id: str
    group: str
    topic: str
    broker: str
    tags: frozenset[str]  # empty: all
    attempts: int  # of a message; then it is a dead letter
    timeout_ms: int  # the client's time for a request
    fields: Mapping[str, str]  # of the pop, without those that each receive has of its own


class AckVerdict(NamedTuple):
    """Acks and changes of this group and topic may be served. `topics`: by the mark in a receipt, 0 to 2."""

    topics: Sequence[str]


class Share(NamedTuple):
    """Messages of an answer that came from one queue. `retry`: the mark in their receipts, 0 to 2."""

    queue_id: int
    start: int
    places: bytes  # `PLACE` of each
    retry: int = 0


class HandedMessages(NamedTuple):
    """The messages of one answer."""

    pop_time: int
    invisible_ms: int
    revive_queue: int
    shares: Sequence[Share]


class GrpcPopHost(Protocol):
    """What the kernel asks of the proxy, on the event loop."""

    def judge_receive(
        self, client_id: str, group: str, topic: str, broker: str, filter_type: int, expression: str
    ) -> ReceiveVerdict | None:
        """Return the verdict on such receives; None: leave them to Python."""
        ...

    def judge_ack(self, group: str, topic: str) -> AckVerdict | None:
        """Return the verdict on acks and changes; None: leave them to Python."""
        ...

    def now_ms(self) -> int: ...

    def is_renewed(self, client_id: str, group: str, receipt: str) -> bool:
        """Return whether the message of a receipt may have another one by now: Python finds that."""
        ...

    def message(self, verdict: ReceiveVerdict, record: bytes, handed: HandedMessages) -> bytes | None:
        """Return the Message of a record that is not plain; None: it is not for the client, and was dealt with.

        `handed` has this one message."""
        ...

    def is_there(self, verdict: ReceiveVerdict) -> bool:
        """Return whether the client of a verdict that was revoked can still be handed messages that are renewed."""
        ...

    def delivered(self, verdict: ReceiveVerdict, handed: HandedMessages) -> bool:
        """Renew these messages from now on: the client has them. False: it is gone, and they were given back."""
        ...

    def give_back(self, verdict: ReceiveVerdict, handed: HandedMessages) -> None:
        """Let messages come again in a moment: their client did not wait for them."""
        ...

    def abandoned(self, peer: object, stream: int) -> bool:
        """Forget a receive that waits: its call is over. False: it does not wait any more."""
        ...

    def gone(self, peer: object) -> None:
        """Forget all receives of a connection that wait."""
        ...

    def refused(self, method: str, code: int, remark: str, answer: bytes) -> Sequence[bytes]:
        """Return the messages that answer a call which the broker refused. `answer`: what was ready for success."""
        ...
