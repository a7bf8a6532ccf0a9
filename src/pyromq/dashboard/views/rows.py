"""Topics, groups and brokers of a snapshot, summed over the brokers that have them. Pure.

A broker that does not answer now counts with nothing: its last figures are old, and a sum with them would be wrong. It
is named in `missing`, and the sum is the least it can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ...admin import groups, topics
from ...model.names import dlq_topic, is_retry, retry_topic
from ...model.topic import permission
from ...model.wire_text import decimal_number, whole_number
from ..watch.figures import (
    NOT_QUERIED,
    BrokerSnapshot,
    ClusterSnapshot,
    FigureTotal,
    PairOnBroker,
    Rate,
    Unknown,
    split_pair,
    total,
)

KEEPS_UP_S = 10.0  # who has no more waiting than it does in so long keeps up: offsets are committed now and then
NEVER = Unknown("never at this rate")


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    perm: str
    queues: int
    brokers: list[str]
    groups: int
    kept: FigureTotal
    in_per_second: FigureTotal
    bytes_per_second: FigureTotal
    lag: FigureTotal
    is_system: bool


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """`oldest_ms`: when the oldest message that waits was stored, None if none waits. `clears_in_s`: when it will have
    caught up at this rate; None if nothing waits, Unknown if never or not known."""

    name: str
    state: str  # online, offline, conflict, stopped
    members: FigureTotal
    mode: str
    topics: list[str]
    lag: FigureTotal
    oldest_ms: int | Unknown | None
    out_per_second: FigureTotal
    in_per_second: FigureTotal
    clears_in_s: float | Unknown | None
    retries: FigureTotal
    dead: FigureTotal
    conflicts: list[str]
    is_system: bool


class BrokerRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    cluster: str
    id: int
    role: str
    address: str
    version: str
    kernel: str | Unknown
    at_ms: int
    fault: str
    in_per_second: Rate
    out_per_second: Rate
    bytes_per_second: Rate
    disk_ratio: float | Unknown
    loop_lag_ms: float | Unknown
    send_p99_ms: float | Unknown
    connections: int | Unknown
    topics: int
    groups: int
    up_since_ms: int | Unknown
    oldest_message_ms: int | Unknown
    troubles: list[str]


def topic_rows(snapshot: ClusterSnapshot, *, system: bool) -> list[TopicRow]:
    """Return every topic of the masters; retries, dead letters and the system's own only if wanted."""
    having: dict[str, list[BrokerSnapshot]] = {}
    own = {word for broker in snapshot.brokers for word in (broker.name, broker.cluster)}
    for broker in snapshot.masters:
        for name in broker.topics:
            if system or not (topics.is_internal(name) or name in own):
                having.setdefault(name, []).append(broker)
    lags: dict[str, list[tuple[str, int | float | Unknown]]] = {}
    readers: dict[str, set[str]] = {}
    for broker in snapshot.masters:
        for key, pair in broker.pairs.items():
            topic, group = split_pair(key)
            if topic in having and not groups.is_internal(group):
                lags.setdefault(topic, []).append((f"{group} on {broker.name}", _now(broker, pair.lag)))
                readers.setdefault(topic, set()).add(group)
    return [
        _topic_row(name, brokers, lags.get(name, ()), len(readers.get(name, ())), own)
        for name, brokers in having.items()
    ]


def _topic_row(
    name: str,
    brokers: list[BrokerSnapshot],
    lags: Iterable[tuple[str, int | float | Unknown]],
    readers: int,
    own: set[str],
) -> TopicRow:
    parts = [(broker, broker.topics[name]) for broker in brokers]
    one = parts[0][1]
    return TopicRow(
        name=name,
        kind=one.kind.lower() or ("order" if one.order else "normal"),
        perm=permission(one.perm),
        queues=sum(part.write_queues for _, part in parts),
        brokers=[broker.name for broker in brokers],
        groups=readers,
        kept=total((broker.name, _now(broker, part.kept)) for broker, part in parts),
        in_per_second=total((broker.name, _now(broker, part.in_per_second)) for broker, part in parts),
        bytes_per_second=total((broker.name, _now(broker, part.bytes_per_second)) for broker, part in parts),
        lag=total(lags),
        is_system=topics.is_internal(name) or name in own,
    )


def group_rows(snapshot: ClusterSnapshot, *, system: bool) -> list[GroupRow]:
    """Return every group of the masters; those of the system and of tools only if wanted."""
    names = {name for broker in snapshot.masters for name in broker.groups}
    names = {name for name in names if system or not groups.is_internal(name)}
    pairs: dict[str, list[tuple[BrokerSnapshot, str, PairOnBroker]]] = {name: [] for name in names}
    for broker in snapshot.masters:
        for key, pair in broker.pairs.items():
            topic, group = split_pair(key)
            if group in pairs:
                pairs[group].append((broker, topic, pair))
    return [_group_row(snapshot, name, pairs[name]) for name in names]


def _group_row(snapshot: ClusterSnapshot, name: str, pairs: list[tuple[BrokerSnapshot, str, PairOnBroker]]) -> GroupRow:
    own = [(broker, broker.groups[name]) for broker in snapshot.masters if name in broker.groups]
    conflicts = [f"{broker.name}: {text}" for broker, part in own for text in part.conflicts]
    # a member beats to every broker: the broker that sees most sees all
    known = [part.members for broker, part in own if not broker.fault and not isinstance(part.members, Unknown)]
    silent = tuple(f"{broker.name}: {broker.fault}" for broker, _ in own if broker.fault)
    members = FigureTotal(max(known) if known else (Unknown("; ".join(silent)) if silent else NOT_QUERIED), silent)
    waiting = total((f"{topic} on {broker.name}", _now(broker, pair.lag)) for broker, topic, pair in pairs)
    read = [(broker, topic, pair) for broker, topic, pair in pairs if not is_retry(topic)]
    out = total((f"{topic} on {broker.name}", _now(broker, pair.out_per_second)) for broker, topic, pair in read)
    arriving = total(
        (f"{topic} on {broker.name}", _now(broker, broker.topics[topic].in_per_second))
        for broker, topic, _ in read
        if topic in broker.topics
    )
    retry, dead = retry_topic(name), dlq_topic(name)
    return GroupRow(
        name=name,
        state=_state(members, conflicts, all(part.may_consume for _, part in own)),
        members=members,
        mode=next((part.mode for _, part in own if part.mode), ""),
        topics=sorted({topic for _, topic, _ in read}),
        lag=waiting,
        oldest_ms=_oldest(pairs),
        out_per_second=out,
        in_per_second=arriving,
        clears_in_s=clears_in(waiting, arriving, out),
        retries=total((broker.name, _now(broker, pair.lag)) for broker, topic, pair in pairs if topic == retry),
        dead=total(
            (broker.name, _now(broker, broker.topics[dead].kept))
            for broker in snapshot.masters
            if dead in broker.topics
        ),
        conflicts=conflicts,
        is_system=groups.is_internal(name),
    )


def _state(members: FigureTotal, conflicts: list[str], may_consume: bool) -> str:
    if conflicts:
        return "conflict"
    if not may_consume:
        return "stopped"
    if isinstance(members.value, Unknown):
        return "unknown"
    return "online" if members.value else "offline"


def _oldest(pairs: Iterable[tuple[BrokerSnapshot, str, PairOnBroker]]) -> int | Unknown | None:
    found: list[int] = []
    reasons: list[Unknown] = []
    for broker, _, pair in pairs:
        if broker.fault:
            reasons.append(Unknown(f"{broker.name}: {broker.fault}"))
        elif isinstance(pair.oldest_ms, Unknown):
            reasons.append(pair.oldest_ms)
        elif pair.oldest_ms is not None:
            found.append(pair.oldest_ms)
    return min(found) if found else next(iter(reasons), None)


def clears_in(waiting: FigureTotal, arriving: FigureTotal, out: FigureTotal) -> float | Unknown | None:
    """Return in how many seconds nothing will wait at these rates. None: nothing waits; 0: it keeps up."""
    lag, come, go = waiting.value, arriving.value, out.value
    for one in (lag, come, go):
        if isinstance(one, Unknown):
            return one
    if isinstance(lag, Unknown) or isinstance(come, Unknown) or isinstance(go, Unknown) or not lag:
        return None
    if lag <= go * KEEPS_UP_S:
        return 0.0
    return lag / (go - come) if go > come else NEVER


def _now(broker: BrokerSnapshot, figure: int | float | Unknown) -> int | float | Unknown:
    """Return the figure, unless its broker does not answer now."""
    return Unknown(broker.fault) if broker.fault else figure


def broker_rows(snapshot: ClusterSnapshot) -> list[BrokerRow]:
    return [_broker_row(one) for one in snapshot.brokers]


def _broker_row(one: BrokerSnapshot) -> BrokerRow:
    runtime, inside = one.runtime, one.inspection
    silent = Unknown(one.fault) if one.fault else None
    ours = Unknown("only brokers of PyroMQ tell this")
    lag, connections, troubles = inside.get("loopLagMs"), inside.get("connections"), inside.get("troubles")
    return BrokerRow(
        name=one.name,
        cluster=one.cluster,
        id=one.id,
        role="master" if one.is_master else "slave",
        address=one.address,
        version=runtime.get("brokerVersionDesc", "").replace("_", "."),
        kernel=runtime.get("pyromqKernel") or Unknown("a broker of Apache's"),
        at_ms=one.at_ms,
        fault=one.fault,
        in_per_second=silent or one.in_per_second,
        out_per_second=silent or one.out_per_second,
        bytes_per_second=silent or one.bytes_per_second,
        disk_ratio=silent or _number(runtime, "commitLogDiskRatio"),
        loop_lag_ms=silent or (lag if isinstance(lag, int | float) else ours),
        send_p99_ms=silent or _number(runtime, "putLatency99"),
        connections=silent or (connections if isinstance(connections, int) else ours),
        topics=len(one.topics),
        groups=len(one.groups),
        up_since_ms=_whole(runtime, "bootTimestamp"),
        oldest_message_ms=_whole(runtime, "earliestMessageTimeStamp"),
        troubles=[str(each) for each in troubles] if isinstance(troubles, list) else [],
    )


def _number(runtime: Mapping[str, str], name: str) -> float | Unknown:
    found = decimal_number(runtime.get(name))
    return Unknown("the broker does not tell it") if found is None else found


def _whole(runtime: Mapping[str, str], name: str) -> int | Unknown:
    found = whole_number(runtime.get(name))
    return Unknown("the broker does not tell it") if found is None else found
