"""What a feed of pulls and the broker say to each other: verdicts asked for, pulls to suspend, counts that are read.

The kernel reads and decides nothing; the broker (`broker/pull/verdicts.py`) implements `PullHost`. A pull that the
kernel does not answer (nothing is there, an expression, a cold page, a damaged record, a wrong offset) goes to Python
untouched, and nothing of it was noted before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .seam import FeedConnection

if TYPE_CHECKING:  # the native module imports this
    from .state import Allowance, ChangeFlag, PulledOffset, QueueTail, ResidentFiles


class PullQuery(NamedTuple):
    """Everything of a pull that a verdict depends on, as it came."""

    code: int
    group: bytes
    topic: bytes
    queue_id: int
    sys_flag: int
    max_count: int
    max_bytes: int | None
    sub_version: int
    subscription: bytes | None
    expression_type: bytes | None


class AnswerPieces(NamedTuple):
    """The constant parts of an answer's header."""

    json: Sequence[bytes]  # cut where next, least and largest offset and opaque stand
    binary: Sequence[bytes]  # the same without the opaque; cut at the lengths in front of the values
    block_at: int  # where the binary one has the length of all its fields


class PullLimits(NamedTuple):
    """Of one pull."""

    messages: int
    bytes: int  # the first message is given whatever its size
    entries: int  # that are scanned


class Changes(NamedTuple):
    """What a verdict depends on besides its queue. One that is set makes the verdict void."""

    settings: ChangeFlag
    topic: ChangeFlag
    group: ChangeFlag  # its configuration, its subscription, a reset of its offsets


class PullCount(NamedTuple):
    """What was handed out by one verdict since the last count."""

    topic: str
    group: str
    queue_id: int
    messages: int
    size: int
    took_ms: float
    answers: int
    behind: int  # bytes of log between the last answer's first record and the end


@dataclass(slots=True, eq=False, repr=False)
class PullGrant:
    """A verdict: such pulls may be answered, within limits and by tags, until something changes. The native kernel has
    a class of its own with the same arguments."""

    verdict: object  # the broker's own, which it gets back with its questions
    group: str
    queue: QueueTail
    entries: ResidentFiles
    changes: Changes
    limits: PullLimits
    codes: Collection[int] | None
    pieces: AnswerPieces
    pulled: PulledOffset | None = None  # None: `PullHost.note_pull` is called
    messages: int = 0
    size: int = 0
    answers: int = 0
    behind: int = 0
    took_ms: float = 0.0

    @property
    def is_void(self) -> bool:
        """Return whether something has changed that the verdict depends on."""
        return self.queue.is_removed or any(flag.is_set for flag in self.changes)


class PullHost(Protocol):
    """What a feed asks of the broker, on the event loop, within one call of `feed` or `resume`."""

    def judge(self, query: PullQuery) -> PullGrant | None:
        """Return the verdict on such pulls; None: leave them to Python."""
        ...

    def note_pull(self, grant: PullGrant, offset: int, commit: int) -> None:
        """Note a pull for this offset, which says that all before `commit` is consumed (-1: does not)."""
        ...

    def suspend(
        self,
        connection: FeedConnection,
        grant: PullGrant,
        frame: bytes,
        allowance: Allowance | None,
        offset: int,
        wait_ms: int,
    ) -> bool:
        """Keep a pull that finds nothing yet, and call `resume` when there is something. False: Python shall answer."""
        ...

    def read_counts(self) -> None:
        """Call `take_counts`: the feed has much for the statistics."""
        ...
