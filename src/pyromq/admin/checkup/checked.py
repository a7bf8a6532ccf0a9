"""What the checks share: what is checked and what was learned of it, and what a check finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...protocol.bodies.route import TopicRouteData
from ...protocol.bodies.topics import TopicConfig
from ..calls import Calls
from ..cluster import BrokerPlace
from ..replicas import ReadElectedState

GOOD, WARNING, BROKEN = "good", "warning", "broken"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """`command`: what to type for the cure, as it stands. `ends_it`: nothing further can be checked.

    Pasted at once, no command may change more than the words before it say: who drops messages gets --dry-run.
    """

    check: str
    state: str
    text: str
    cure: str = ""
    command: str = ""
    ends_it: bool = False

    def as_row(self) -> dict[str, Any]:
        return {"check": self.check, "state": self.state, "text": self.text, "cure": self.cure, "command": self.command}


RIGHTS = "Ask an administrator for the rights Get and List on cluster, topics and groups:"
GRANT = "pyromq acl role USER reader"


@dataclass(slots=True)
class CheckedCluster:
    """What is checked, and what was learned so far."""

    calls: Calls
    topic: str | None = None
    group: str | None = None
    endpoints: tuple[str, ...] = ()  # of gRPC clients, besides those of brokers
    read_elected: ReadElectedState | None = None  # None: elected sets are not looked at
    brokers: list[BrokerPlace] = field(default_factory=list)
    reached: dict[str, dict[str, str]] = field(default_factory=dict)  # by address: what it counts and measures
    inspected: dict[str, dict[str, Any]] = field(default_factory=dict)  # those of ours
    closed: set[str] = field(default_factory=set)  # names of brokers that their own setting keeps from being used
    configs: dict[str, dict[str, TopicConfig]] = field(default_factory=dict)  # by broker name: its topics
    routes: dict[str, TopicRouteData | None] = field(default_factory=dict)  # by topic: what the name server answers

    @property
    def masters(self) -> list[BrokerPlace]:
        return [place for place in self.brokers if place.is_master and place.address in self.reached]
