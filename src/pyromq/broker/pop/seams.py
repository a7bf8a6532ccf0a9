"""Where the parts of popping meet that know nothing of each other: messages in order, check points that grow old, and
the timer.

`handler.py`, `ack.py` and `change.py` ask these for what is not theirs. A part that is None is not there: then what
needs it is refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import NamedTuple, Protocol

from ...kernel.pops import CheckPoint
from ...model.receipt import Receipt
from ...protocol.headers.pop import AckMessage, ChangeInvisibleTime
from ...transport.dispatch import Answer, RequestOf
from ..intake.intake import Done
from .tickets import PopTicket


class Place(NamedTuple):
    """A queue that a pop looks into. `mark` tells normal and retry topics apart, as receipts do."""

    topic: str  # the retry topic's name, if it is one
    mark: str
    queue_id: int


class Source(Protocol):
    """Reads one queue for a pop, and notes what is handed out (`PopTicket.add`) and what is left (`rest`).

    There is one for plain pops and one for those in order.
    """

    def take(self, ticket: PopTicket, place: Place) -> Awaitable[None] | None:
        """Take what there is room for; None: it is done. What is not in memory comes later."""
        ...


class OrderPops(Source, Protocol):
    """Pops in order, and what is done with their messages: receipts whose revive queue is 999."""

    def ack(self, request: RequestOf[AckMessage, None], receipt: Receipt) -> Answer: ...

    def ack_offsets(self, group: str, topic: str, queue_id: int, pop_time: int, offsets: Sequence[int]) -> None:
        """Acknowledge one entry of a batch; what is wrong with it is not said."""
        ...

    def change(self, request: RequestOf[ChangeInvisibleTime, None], receipt: Receipt) -> Answer: ...


class HandedOut(NamedTuple):
    """What a receipt says of a check point that the table does not have: it was spilled, has expired, or never was."""

    group: str
    topic: str  # the retry topic's name, if it is one
    queue_id: int
    start: int
    pop_time: int
    invisible_ms: int
    revive_queue: int


class Spill(Protocol):
    """Check points that leave the table as records of Java's form, and what is done with those afterwards."""

    def spill(self, points: Sequence[CheckPoint]) -> Awaitable[None]:
        """Put a check point record for each, then say `spilled` to the table. One that cannot be put stays there."""
        ...

    def ack(self, handed_out: HandedOut, offsets: Sequence[int], done: Done) -> None:
        """Put what acknowledges these offsets. `done` is called once that is as safe as a send, or was needless."""
        ...

    def current(self, handed_out: HandedOut, offset: int) -> HandedOut | None:
        """Return the check point that a change of this message concerns: another one if it was changed before. None: it
        was acknowledged, is given again, or never was one of ours."""
        ...

    def change(
        self, handed_out: HandedOut, offset: int, pop_time: int, invisible_ms: int, suspend: bool, done: Done
    ) -> None:
        """Put a check point of this one message with a new time, and the ack of the old one."""
        ...


class PausedTimer(Protocol):
    """The timer while it stands still: what waits for a time up to `until_ms` was delivered, or is shown."""

    @property
    def until_ms(self) -> int: ...

    def records(self) -> AsyncIterator[Sequence[bytes]]:
        """Yield the records that wait in the next slot and were not seen before."""
        ...

    def seen(self) -> None:
        """Say that these need not be shown again."""
        ...
