"""The seam between transport and a kernel: a whole received buffer goes in, what was done with it comes out.

Transport calls `feed(connection, received)` on the event loop each time bytes have arrived that may complete a frame.
The composition root chooses the feed (`feed_nothing`, or one bound to a store). The contract:

- *Bytes.* `received` starts at a frame boundary and holds every byte of the connection that nobody has dealt with yet:
  first the unfinished end of the last call, then what came in. It may end inside a frame. Transport owns it and uses it
  again afterwards, so a feed copies what it keeps; `frames` may be views into it, since they are decoded at once.
- *The unfinished end stays with transport.* A feed keeps no bytes of a frame that is not complete, and it takes a
  frame whole or not at all. `used` counts whole frames from the start. Whole frames at or behind `used` are Python's,
  so a feed may stop anywhere, and handling nothing costs nothing. A frame whose length words look wrong is not the
  feed's to judge: it stops in front of it, and transport refuses the connection.
- *The usual answer is short.* A feed that took every byte, leaves nothing to Python and has no answer that must wait
  gives its answers alone, as bytes (none: empty); `as_fed` makes a `Fed` of that.
- *Order.* Frames for Python are served in the order in which they came within a class of requests; a feed acts on
  its own frames at once. So it must leave to Python each send to a queue for which an earlier send of that
  connection went to Python and may not be finished. `connection.unfinished_sends` tells: at 0 all earlier ones are
  done and the notes on such queues (`connection.notes`, the feed's own slot) can be cleared.
- *Drain.* A feed that left frames for their order alone sets `drain`: transport then reads on once all are finished.
  Else a peer that always has more in flight would be served by Python for good.
- *Replies.* `ready` leaves at once. Each `PendingReply` leaves when `readable` of the log has reached its position;
  positions of successive calls never go down, over all connections (one log, one writer), and each reply leaves
  after those that were handed in before it. Replies of frames served by Python may overtake (responses go by opaque).
- *Failure.* A feed answers for what it has taken. If it raises, the connection is closed, since nobody can tell which
  frames were acted on.

A feed never blocks, awaits, or decides about policy. Transport no longer calls it once the server is stopping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class FeedConnection(Protocol):
    """What a kernel may know of the connection that the bytes came from."""

    notes: object  # None at first; the kernel's own

    @property
    def answers_later(self) -> bool:
        """Return whether frames may be sent to it at any time: what finds nothing may wait as it came then."""
        ...

    @property
    def address(self) -> str:
        """Return `host:port` of the other end: the born host of its messages."""
        ...

    @property
    def identity(self) -> str | None:
        """Return the user that the connection's certificate names, if it was asked for one and checked."""
        ...

    @property
    def listener(self) -> str:
        """Return the name of the server that accepted it: verdicts differ between the ports of a broker."""
        ...

    @property
    def unfinished(self) -> int:
        """Return how many requests went to Python and are not finished."""
        ...

    @property
    def unfinished_sends(self) -> int:
        """Return how many sends went to Python and are not finished."""
        ...


class PendingReply(NamedTuple):
    """Reply frames that leave when `readable` has reached `position`."""

    position: int
    replies: bytes


class Fed(NamedTuple):
    """What a feed did with the bytes."""

    used: int = 0
    ready: bytes = b""
    waiting: Sequence[PendingReply] = ()
    frames: Sequence[bytes | memoryview] = ()  # whole frames within the used bytes that are for Python, in order
    drain: bool = False  # read on when the sends that Python has are finished


NOTHING = Fed()
DRAIN = Fed(drain=True)

Feed = Callable[[FeedConnection, memoryview], Fed | bytes]


def as_fed(outcome: Fed | bytes, received: memoryview) -> Fed:
    """Return what a feed did with these bytes, in full."""
    return Fed(len(received), outcome) if isinstance(outcome, bytes) else outcome


def feed_nothing(connection: FeedConnection, received: memoryview) -> Fed:
    """Leave everything to Python."""
    return NOTHING
