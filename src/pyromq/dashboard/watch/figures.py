"""What is known of a cluster at a moment: values, made anew at each look and never changed. Pure.

A figure that nobody told is `Unknown` with the reason. It is left out of sums, which then name the brokers that are
missing: such a sum is the least it can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

N = TypeVar("N", int, float)


class Unknown(msgspec.Struct, frozen=True):
    """Instead of a figure: why there is none. In JSON `{"unknown": "why"}`."""

    unknown: str


Count = int | Unknown
Rate = float | Unknown

NOT_QUERIED = Unknown("not asked yet")
OURS_ALONE = Unknown("only brokers of PyroMQ tell this")
NO_RATE_YET = Unknown("a rate takes two looks, a few seconds apart")


class TopicOnBroker(msgspec.Struct, frozen=True, kw_only=True):
    """`kept`: messages that are still there. Rates are of the last ten seconds or so."""

    kind: str
    perm: int
    write_queues: int
    read_queues: int
    order: bool
    kept: Count
    end: Count
    bytes: Count
    in_per_second: Rate
    bytes_per_second: Rate


class GroupOnBroker(msgspec.Struct, frozen=True, kw_only=True):
    members: Count
    mode: str
    kind: str
    may_consume: bool
    conflicts: tuple[str, ...]


class PairOnBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A group on a topic. `oldest_ms`: when the oldest message that waits was stored; None if none waits."""

    queues: int
    queues_behind: int
    lag: Count
    in_flight: Count
    committed: Count
    out_per_second: Rate
    oldest_ms: int | Unknown | None


class BrokerSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One broker as it answered last. `fault`: why it does not answer now."""

    cluster: str
    name: str
    id: int
    address: str
    at_ms: int  # when it answered last, 0 if never
    fault: str = ""
    is_ours: bool = False
    life: str = ""
    number: int = 0
    runtime: Mapping[str, str] = {}
    inspection: Mapping[str, object] = {}
    put_total: Count = NOT_QUERIED
    put_bytes: Count = NOT_QUERIED
    got_total: Count = NOT_QUERIED
    in_per_second: Rate = NO_RATE_YET
    out_per_second: Rate = NO_RATE_YET
    bytes_per_second: Rate = NO_RATE_YET
    topics: Mapping[str, TopicOnBroker] = {}
    groups: Mapping[str, GroupOnBroker] = {}
    pairs: Mapping[str, PairOnBroker] = {}

    @property
    def is_master(self) -> bool:
        return self.id == 0


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All brokers of one name server set. `fault`: why no name server answers."""

    number: int
    at_ms: int
    fault: str = ""
    brokers: tuple[BrokerSnapshot, ...] = ()

    @property
    def masters(self) -> tuple[BrokerSnapshot, ...]:
        return tuple(one for one in self.brokers if one.is_master)

    @property
    def silent(self) -> tuple[BrokerSnapshot, ...]:
        return tuple(one for one in self.masters if one.fault)


class FigureTotal(msgspec.Struct, frozen=True):
    """A sum. `missing`: parts that are not in it, and why, so that it is the least it can be."""

    value: int | float | Unknown
    missing: tuple[str, ...] = ()


def total(parts: Iterable[tuple[str, int | float | Unknown]]) -> FigureTotal:
    """Sum what is known of the brokers' parts. Unknown if none is, but 0 if there are no parts at all."""
    known: list[int | float] = []
    missing: list[str] = []
    for name, part in parts:
        if isinstance(part, Unknown):
            missing.append(f"{name}: {part.unknown}")
        else:
            known.append(part)
    if missing and not known:
        return FigureTotal(Unknown("; ".join(missing)), tuple(missing))
    return FigureTotal(sum(known), tuple(missing))


def split_pair(key: str) -> tuple[str, str]:
    """Return topic and group of `topic@group`."""
    topic, _, group = key.rpartition("@")
    return topic, group
