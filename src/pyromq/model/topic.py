"""Topics as values: configuration, permission bits, the names that belong to the system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


class Perm:
    """Permission bits of a topic's queues on one broker."""

    INHERIT = 1
    WRITE = 2
    READ = 4
    PRIORITY = 8


class TopicFlag:
    """Bits of a topic's system flag: units are RocketMQ's word for data centres that share topics."""

    UNIT = 1
    UNIT_SUB = 2


SYNC_BROKER_MEMBER_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


@dataclass(frozen=True, slots=True)
class DataVersion:
    """How often and when a broker's topic table changed. Equal versions mean equal tables."""

    state_version: int = 0  # the controller's epoch; 0 without one
    timestamp: int = 0
    counter: int = 0


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic as one broker has it."""

    name: str
    read_queues: int = 16
    write_queues: int = 16
    perm: int = Perm.READ | Perm.WRITE
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)
