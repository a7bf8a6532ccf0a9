"""One pull of a queue, said once for brokers, the SDK, the tools and Spark: its flags, and what an answer means."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ..model.codes import ResponseCode
from ..model.topic import MASTER_ID
from .headers.pull import PullMessageAnswer


class PullFlag:  # bits of a pull's sysFlag
    COMMIT_OFFSET = 1
    SUSPEND = 2  # may wait until there is a message
    SUBSCRIPTION = 4  # carries its own, so the group need not be online


class Pulled(Enum):
    """How a pull was answered. Every other code is a refusal."""

    FOUND = ResponseCode.SUCCESS
    NONE = ResponseCode.PULL_NOT_FOUND
    NO_MATCH = ResponseCode.PULL_RETRY_IMMEDIATELY  # the broker looked some way ahead and found none that fits
    ILLEGAL_OFFSET = ResponseCode.PULL_OFFSET_MOVED


PULL_CODES = tuple(status.value for status in Pulled)


class PullAnswer(NamedTuple):
    """An answer to a pull: pull on from `next_offset`; the queue reaches from `min_offset` to before `max_offset`."""

    status: Pulled
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker: int  # the id of the replica to ask next time

    @classmethod
    def of(cls, code: int, header: PullMessageAnswer, offset: int) -> PullAnswer:
        """Return what an answer with one of `PULL_CODES` to a pull from `offset` on says. What it leaves out is 0."""
        return cls(
            Pulled(code),
            offset if header.next_begin_offset is None else header.next_begin_offset,
            header.min_offset or 0,
            header.max_offset or 0,
            header.suggest_which_broker_id or MASTER_ID,
        )
