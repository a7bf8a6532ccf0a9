"""The options of simple consumers, checked when they are given. Durations are seconds."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.group import ConsumeFromWhere
from ..arguments import check_begin, check_count, check_length
from ..consume.options import NO_POP_BEGIN, POP_BEGIN_HINT, PushWay, check_way
from ..errors import Error
from ..values import Codec, check_codec

MOST_RECEIVED = 1024
LAST = (ConsumeFromWhere.LAST_OFFSET, ConsumeFromWhere.MAX_OFFSET)
FIRST = (ConsumeFromWhere.FIRST_OFFSET, ConsumeFromWhere.MIN_OFFSET)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleOptions:
    """How a simple consumer receives. All members of a group should be ordered, or none."""

    invisible_s: float = 30.0  # for which a message is hidden from others; then it comes again, unless it is acked
    ack_linger_s: float = 0.0  # for which an ack waits for others; 0: while the request before is under way
    orderly: bool | None = None  # None: as the group is set at its brokers (consumeMessageOrderly)
    begin: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET  # of a group that was never here; no TIMESTAMP
    batch: int = 16  # messages that `async for` asks for at a time
    hold_s: float = 15.0  # for which it lets the broker wait
    on_unreadable: PushWay = "dead-letter"  # records that nobody can read
    codec: Codec | None = None  # for `Popped.decode`: None is the client's

    def __post_init__(self) -> None:
        check_pop_begin(self.begin)
        if self.codec is not None:
            check_codec(self.codec)
        check_way("on_unreadable", self.on_unreadable, ("dead-letter", "skip"))
        check_count("batch", self.batch, MOST_RECEIVED)
        check_length("invisible_s", self.invisible_s)
        check_length("hold_s", self.hold_s)
        check_length("ack_linger_s", self.ack_linger_s, may_be_zero=True, example=0.005)


def check_pop_begin(begin: object) -> None:
    check_begin(begin, None if begin is not ConsumeFromWhere.TIMESTAMP else 0)
    if begin is ConsumeFromWhere.TIMESTAMP:
        raise Error(NO_POP_BEGIN, hint=POP_BEGIN_HINT)
