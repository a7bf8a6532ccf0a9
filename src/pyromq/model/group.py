"""Consumer groups: how they consume. The order of members is Java's: C++ clients send the place instead of the name."""

from __future__ import annotations

from enum import Enum


class ConsumeType(Enum):
    ACTIVELY = "CONSUME_ACTIVELY"
    PASSIVELY = "CONSUME_PASSIVELY"
    POP = "CONSUME_POP"


class MessageModel(Enum):
    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"
    LITE_SELECTIVE = "LITE_SELECTIVE"


class ConsumeFromWhere(Enum):
    """Where a group without offsets begins."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"  # as LAST_OFFSET
    MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class MessageRequestMode(Enum):
    """Whether a consumer takes queues and pulls, or pops messages."""

    PULL = "PULL"
    POP = "POP"
