"""What the table of young check points and the broker say to each other: values, answers, the journal's entries.

A *lane* is (group, topic or retry topic, queue). A *check point* is what one pop was given of one lane: messages that
stay invisible to the group until they are acked or their time is over. `python/pop_table.py` has the table and says
what each call promises; `native/pop_table.pxi` is the same with C structs. The table knows no messages, no clock, no
disk.

**The journal.** Every change of the table appends an entry to a buffer in it; `take_entries` gives these bytes to the
broker, which puts them as one record of the journal's topic before any answer that rests on them leaves. `replay`
applies them to another table, which is the same afterwards. Numbers are LEB128 (`v`), signed ones zigzag (`z`):

| kind | entry |
|---|---|
| LANE | v lane, z queue, z next, v length and group, v length and topic (UTF-8) |
| POP | flags, v lane, z start, z pop time, z invisible ms, z revive queue, z next - start, v count, v distances |
| ACK | v lane, z start, z pop time, v bits of the check point's messages |
| CHANGE | flags, v lane, z start, z pop time, v offset - start, z later by, z invisible ms, z revive queue |
| REVIVED, SPILLED | v lane, z start, z pop time |
| DROPPED | v lane |
| NEXT | v lane, z offset |
| BASE | v journal offset |
| 128 and above | v length, bytes: kept for others (`note_other`), handed to `others` of `replay` |

A POP has distances if its flag WITH_GAPS is set: the first from the start, each other from the offset behind the one
before it. ACKs of one check point that follow each other are one entry.

**Where a replay begins.** The journal is cut into epochs by BASE entries. A lane is told (LANE) before its first entry
in each epoch, so a replay may begin with any epoch. BASE names the journal offset of the oldest epoch that is needed:
the one of the oldest check point that is open, or the one since which committed offsets were not saved. So a start
looks backwards for the last record with a BASE (`base_of`), then replays from there on. Entries of that stretch about
check points that were told before it concern settled ones: they change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ..errors import PyroError
from .put_counts import PutCount
from .seam import FeedConnection

if TYPE_CHECKING:
    from .python.quotas.allowance import Allowance
    from .python.state import QueueTail, ResidentFiles

LANE, POP, ACK, CHANGE, REVIVED, SPILLED, DROPPED, NEXT, BASE = range(1, 10)
FIRST_OTHER: Final = 128  # kinds of entries that the table passes on unread
MOST_OTHER: Final = 255

WITH_GAPS: Final = 1  # flag of POP
SUSPENDED: Final = 2  # flag of CHANGE

MOST_MESSAGES: Final = 64  # of a check point: one bit each
MOST_SPAN: Final = (1 << 31) - 1  # from its start to its last offset
MOST_REVIVE_QUEUE: Final = 65535
POINT_BYTES: Final = 80  # what a check point counts against the table's limit: 64, and its places in ring and orders
GAP_BYTES: Final = 4  # and each of its offsets, if they do not follow each other


class Ack(Enum):
    """What became of an ack or a change."""

    SET = 0
    AGAIN = 1  # that message was acked or changed before: nothing is changed
    UNKNOWN = 2  # no such check point is open here, or it does not have that offset
    CLASH = 3  # of a change: another check point has that start and pop time; say a later `now_ms`


class CheckPoint(NamedTuple):
    """A check point as it was when the table was asked."""

    lane: int
    start: int  # where the read began: at or before the first offset
    pop_time: int
    invisible_ms: int
    revive_queue: int
    offsets: tuple[int, ...]  # all that were given, ascending
    open_bits: int  # bit i: offsets[i] is neither acked nor changed
    suspend: bool = False  # the copy keeps its reconsume times

    @property
    def due_ms(self) -> int:
        """Return when the invisible time is over."""
        return self.pop_time + self.invisible_ms

    @property
    def open_offsets(self) -> list[int]:
        """Return the offsets that are neither acked nor changed."""
        return [offset for bit, offset in enumerate(self.offsets) if self.open_bits >> bit & 1]


class LaneFigures(NamedTuple):
    """What is in flight on one lane."""

    lane: int
    messages: int  # neither acked nor expired
    points: int  # check points that hold them


class DamagedJournal(PyroError):
    """Entries that cannot be read or do not fit the table. The text says which, at which byte, and why."""


# --- copies of what is due ------------------------------------------------------------------------------------------


class CopySettings(NamedTuple):
    """What all copies share."""

    store_host: bytes
    body_bytes: int  # of a message, at most
    with_crc: bool
    index_keys: bool
    index_tags: bool


class CopyTarget(NamedTuple):
    """Where the messages of a lane are, and where copies of them go: both are queues of single messages."""

    queue: QueueTail
    entries: ResidentFiles
    retry_topic: str  # ASCII, of 127 bytes at most
    retry_queue_id: int
    retry_queue: QueueTail


class CopiedDue(NamedTuple):
    """What became of check points that are due."""

    lanes: Sequence[tuple[int, int]]  # whose check points went, and how many messages of each were copied
    counts: Sequence[PutCount]  # of retry topics; each message is a request of its own
    quick: int  # messages that were put within a millisecond
    left: Sequence[CheckPoint]  # for the broker to look at: nothing was done about them
    more: bool  # others may be due


class CopyHost(Protocol):
    """What a `RetryCopier` asks of the broker, on the event loop, within one call of it."""

    def target(self, lane: int) -> CopyTarget | None:
        """Return where copies of a lane's messages go; None: the broker shall make them. The table stays as it is."""
        ...

    def note_slow(self, seconds: float, messages: int) -> None:
        """Count messages whose append took a millisecond or more, for the statistics."""
        ...


# --- the feed of pops, which the native kernel alone has: without it the handlers serve -----------------------------


class PopQuery(NamedTuple):
    """What a verdict on pops depends on: fields of the request. None: the field was not sent."""

    group: bytes
    topic: bytes
    queue_id: int
    init_mode: int
    expression_type: bytes | None
    expression: bytes | None


class SearchRules(NamedTuple):
    """How a pop goes through its queues: those of the topic, and of its retry topic, first or last, by chance."""

    any_queue: bool  # not one alone
    most: int  # messages of one read
    ascending: bool  # the highest number first
    retry_percent: int  # of the pops that look into the retry topic first
    second_form: bool  # of the retry topic's name is read
    both_forms: bool  # the first form by half of the pops then
    renamed: bytes  # the topic under which messages of a retry topic leave; empty: as they are stored
    broker: bytes  # in their receipts


class AnswerTemplate(NamedTuple):
    """The header of an answer in JSON, cut where its own values stand: `slots` says which value follows each piece."""

    pieces: Sequence[bytes]  # one more than slots
    slots: Sequence[int]  # POP_TIME and so on


POP_TIME, INVISIBLE_TIME, REVIVE_QUEUE, REST, START_OFFSETS, MESSAGE_OFFSETS, OPAQUE = range(7)


class PopTemplates(NamedTuple):
    """Answers of the feed: messages that were found, none, an acknowledgement, another invisible time."""

    found: AnswerTemplate
    empty: AnswerTemplate
    acked: AnswerTemplate
    changed: AnswerTemplate


class PopResumes(Protocol):
    """What the broker asks of a feed that has given it pops to hold. Many are resumed, then it is finished once."""

    @property
    def messages(self) -> int:
        """Return how many were handed out since the start."""
        ...

    def resume(self, frame: bytes, born_ms: int, allowance: Allowance | None, is_last: bool) -> bytes | bool | None:
        """Look again for a pop, from its frame and when it was born. Return the answer, which leaves after `finish`;
        False: there is still nothing, and it waits on, unless `is_last`; None: Python's to look."""
        ...

    def finish(self) -> int:
        """Write down what was handed out since the first `resume`. Return the place in the log that its answers wait
        for; 0: none."""
        ...


class PopHost(Protocol):
    """What a feed of pops asks of the broker, on the event loop, within one call of `feed` or `resume`."""

    def judge_pop(self, query: PopQuery) -> object | None:
        """Return the verdict on such pops (the module's `PopGrant`); None: leave them to Python."""
        ...

    def judge_ack(self, group: bytes, topic: bytes, queue_id: int) -> object | None:
        """Return the verdict on acks and changes of a lane (the module's `AckGrant`); None: leave them to Python."""
        ...

    def next_search(self) -> tuple[int, int]:
        """Return the revive queue of the next pop, and its number of 0 to 99."""
        ...

    def give_back(self, revive_queue: int, chance: int) -> None:
        """Take back what `next_search` gave: that pop is Python's after all."""
        ...

    def hold(
        self,
        connection: FeedConnection,
        verdict: object,
        frame: bytes,
        allowance: Allowance | None,
        born_ms: int,
        poll_ms: int,
    ) -> int:
        """Keep a pop that finds nothing, and `resume` it when there is something. 0: it waits; 1: its time is over;
        2: too many wait, and Python shall say so."""
        ...

    def is_journal_awaited(self) -> bool:
        """Return whether somebody waits until Python has put the table's entries, or others come before them. If not,
        they may stand in a record of the kernel."""
        ...

    def put_journal(self) -> bool:
        """Put the table's entries by Python. False: they could not be put, and are kept."""
        ...

    def settled(self, lanes: Sequence[int], acked: int, is_put: bool) -> None:
        """Commit the offsets of these lanes; so many messages were acked; whether a journal record was put."""
        ...

    def wake(self, verdict: object) -> None:
        """Let another pop of the same kind look for what was left."""
        ...
