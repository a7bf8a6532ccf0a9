"""What goes into the route table and what comes out of it, as values. `handlers.py` makes them from requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..protocol.bodies.body import DataVersion
from ..protocol.bodies.topics import TopicConfig, TopicQueueMappingInfo

DEFAULT_TIMEOUT_MS = 120_000  # of a broker that names none


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One broker saying that it is there and what it holds."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    channel: object  # the connection it came over, known by identity; when that goes, so does the broker
    ha_address: str = ""
    zone: str | None = None
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    acting_master: bool | None = None  # None: a broker from before 5.0, whose slaves never speak for the topics
    version: DataVersion = field(default_factory=DataVersion)
    topics: Mapping[str, TopicConfig] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()  # topics that the broker named too, and for which there is no room
    mappings: Mapping[str, TopicQueueMappingInfo] = field(default_factory=dict)  # of static topics, by topic
    filter_servers: Sequence[str] | None = None  # None: as before


@dataclass(frozen=True, slots=True)
class MinBrokerChange:
    """The smallest id of a broker name is another one now: its replicas are told (request 905)."""

    broker_name: str
    min_id: int
    min_address: str
    notify: tuple[str, ...]
    offline_address: str | None = None
    ha_address: str | None = None


@dataclass(frozen=True, slots=True)
class Registered:
    """How a registration ended. Master and HA address are for slaves."""

    is_new: bool = False
    master_address: str | None = None
    ha_address: str | None = None
    ignored: str | None = None  # why it was answered with success but not taken, as Java does for an outdated replica
    changes: tuple[MinBrokerChange, ...] = ()
    displaced: tuple[Replica, ...] = ()


@dataclass(slots=True)
class Replica:
    """One broker of a name, as the table holds it and hands it out once it has left."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    channel: object
    timeout_ms: int
    seen_ms: int
    version: DataVersion
    filter_servers: list[str]
    silent_ms: int = 0  # when it left, since it was last heard of; only where that is the reason

    @property
    def key(self) -> tuple[str, str]:
        return self.cluster, self.address


@dataclass(frozen=True, slots=True)
class Departures:
    departed: tuple[Replica, ...] = ()
    changes: tuple[MinBrokerChange, ...] = ()
