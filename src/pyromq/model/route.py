"""Routes as values: where a topic's queues are and how their brokers are reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MASTER_ID = 0


@dataclass(frozen=True, slots=True)
class QueueData:
    """The queues of one topic on one broker name."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int = 0


@dataclass(frozen=True, slots=True)
class BrokerData:
    """A broker name and its replicas: id 0 is the master, others are slaves."""

    cluster: str
    name: str
    addresses: Mapping[int, str]
    zone: str | None = None
    acting_master: bool = False  # enableActingMaster: the smallest slave may stand in for a lost master


@dataclass(frozen=True, slots=True)
class QueueMapping:
    """Which queues of a static topic one broker holds: logical queue id to physical one."""

    topic: str
    broker_name: str
    total_queues: int
    epoch: int
    current_ids: Mapping[int, int]
    scope: str = "__global__"
    dirty: bool = False


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """What a client needs to send to a topic or consume from it."""

    queues: tuple[QueueData, ...]
    brokers: tuple[BrokerData, ...]
    filter_servers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by broker address
    mappings: Mapping[str, QueueMapping] | None = None  # by broker name; None where the topic is not static
    order_conf: str | None = None  # `broker-a:4;broker-b:4` of an ordered topic


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """Every broker, and the names of each cluster."""

    brokers: Mapping[str, BrokerData]
    clusters: Mapping[str, frozenset[str]]
