"""A pop on its way: what it asked for, what was found for it, and its answer with Java's three texts.

`walk.py` goes through the queues with it, a `Source` adds what it takes, `handler.py` answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ...kernel.pops import PopResumes
from ...kernel.state import Allowance
from ...model.codes import ResponseCode
from ...model.receipt import ORDER_REVIVE_QUEUE
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...protocol.bodies.topics import TopicConfig
from ...protocol.frame import decode_frames
from ...protocol.headers.pop import PopMessage, PopMessageAnswer
from ...transport.dispatch import Reply, Request, RequestOf
from ...transport.peer import FramePeer
from ..filters.filters import EVERYTHING, Wanted

FOUND = "FOUND"
NOTHING = "NO_MESSAGE_IN_QUEUE"


@dataclass(frozen=True, slots=True)
class PopAllowed:
    """A pop that passed the checks. `born_ms` is when its client sent it, or when it came."""

    topic: TopicConfig
    group: SubscriptionGroupConfig
    born_ms: int
    wanted: Wanted = EVERYTHING


@dataclass(slots=True, eq=False, repr=False)
class PopTicket:
    """A pop in work: what is needed to look through the queues, also again, and to answer.

    `pop_time`, `revive_queue` and `chance` are set anew for each look.
    """

    request: Request
    header: PopMessage
    allowed: PopAllowed
    begun: float = 0.0
    pop_time: int = 0
    revive_queue: int = 0
    chance: int = 0  # of 0 to 99
    rest: int = 0  # messages that are there and were left
    records: list[bytes] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)  # `retry queue start`, one for each queue
    offsets: list[str] = field(default_factory=list)  # `retry queue offset,offset`
    order_counts: list[str] = field(default_factory=list)  # order pops: how often each was consumed before

    @property
    def born_ms(self) -> int:
        return self.allowed.born_ms

    @property
    def is_ordered(self) -> bool:
        """Return whether it is served in order: it asks for that, or its group is set so (`-o true`)."""
        return self.header.order or self.allowed.group.consume_message_orderly

    @property
    def room(self) -> int:
        """Return how many messages more the answer may have."""
        return self.header.max_msg_nums - len(self.records)

    @property
    def size(self) -> int:
        """Return the size of the request, about: all its fields are kept while it waits."""
        fields = self.request.command.fields
        return sum(map(len, fields)) + sum(map(len, fields.values()))

    def begin(self, pop_time: int, revive_queue: int, chance: int) -> None:
        """Forget what an earlier look has left."""
        self.pop_time, self.chance, self.rest = pop_time, chance, 0
        self.revive_queue = ORDER_REVIVE_QUEUE if self.is_ordered else revive_queue
        for found in (self.records, self.starts, self.offsets, self.order_counts):
            found.clear()

    def add(self, mark: str, queue_id: int, start: int, offsets: Sequence[int], records: Sequence[bytes]) -> None:
        """Note what one queue gives: `start` is where the read began, also if the first messages did not match."""
        self.starts.append(f"{mark} {queue_id} {start}")
        self.offsets.append(f"{mark} {queue_id} {','.join(map(str, offsets))}")
        self.records.extend(records)

    def reply(self, code: int | None = None) -> Reply:
        """Return the answer; `code` is that of an answer with nothing in it."""
        if code is None:
            code = ResponseCode.SUCCESS if self.records else ResponseCode.POLLING_TIMEOUT
        header = PopMessageAnswer(
            pop_time=self.pop_time,
            invisible_time=self.header.invisible_time,
            revive_qid=self.revive_queue,
            rest_num=self.rest,
            start_offset_info=";".join(self.starts),
            msg_offset_info=";".join(self.offsets),
            order_count_info=";".join(self.order_counts) if self.is_ordered else None,
        )
        return Reply(code, FOUND if self.records else NOTHING, header, body=b"".join(self.records))


@dataclass(slots=True, eq=False, repr=False)
class KernelPop:
    """A pop that a kernel took and found nothing for, as the bytes that came: decoded only if Python has to look."""

    peer: FramePeer
    frame: bytes
    born_ms: int
    kernel: PopResumes
    allowance: Allowance | None = None  # what it draws from, if there are quotas
    on_answer: Callable[[Reply], None] | None = None  # hears of an answer that the kernel did not make

    @property
    def size(self) -> int:
        return len(self.frame)

    @property
    def request(self) -> Request:
        return RequestOf(decode_frames(self.frame)[0][0], self.peer, on_answer=self.on_answer)


AnyPop: TypeAlias = PopTicket | KernelPop
