"""What one of our brokers tells by request 30008, added to what it told before. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...protocol.bodies.own import GroupFigures, PairFigures, SnapshotAnswer, TopicFigures
from .figures import NO_RATE_YET, BrokerSnapshot, GroupOnBroker, PairOnBroker, TopicOnBroker
from .rates import rate


def take(before: BrokerSnapshot, answer: SnapshotAnswer) -> BrokerSnapshot:
    """Return the broker's next snapshot. Rows that did not change keep their totals, so that their rates fall."""
    is_same_life = answer.life == before.life and before.at_ms > 0
    seconds = (answer.at_ms - before.at_ms) / 1000 if is_same_life else 0.0
    keeps = is_same_life and answer.since > 0
    topics, pairs = dict(before.topics), dict(before.pairs)
    groups = dict(before.groups) if keeps else {}
    for name in _gone(before.topics, answer.topics, answer.gone.get("topics", ()), keeps):
        topics.pop(name, None)
    for name in answer.gone.get("groups", ()):
        groups.pop(name, None)
    for name in _gone(before.pairs, answer.pairs, answer.gone.get("pairs", ()), keeps):
        pairs.pop(name, None)
    _let_rates_fall(topics, pairs, answer, seconds)
    for name, told in answer.topics.items():
        topics[name] = _topic(told, topics.get(name) if is_same_life else None, seconds)
    for name, found in answer.pairs.items():
        pairs[name] = _pair(found, pairs.get(name) if is_same_life else None, seconds)
    groups |= {name: _group(each) for name, each in answer.groups.items()}
    if not is_same_life:
        before = msgspec.structs.replace(
            before, in_per_second=NO_RATE_YET, out_per_second=NO_RATE_YET, bytes_per_second=NO_RATE_YET
        )
    return msgspec.structs.replace(
        before,
        at_ms=answer.at_ms,
        fault="",
        is_ours=True,
        life=answer.life,
        number=answer.number,
        put_total=answer.put_total,
        put_bytes=answer.put_bytes,
        got_total=answer.got_total,
        in_per_second=rate(before.in_per_second, before.put_total, answer.put_total, seconds),
        out_per_second=rate(before.out_per_second, before.got_total, answer.got_total, seconds),
        bytes_per_second=rate(before.bytes_per_second, before.put_bytes, answer.put_bytes, seconds),
        topics=topics,
        groups=groups,
        pairs=pairs,
    )


def _gone(before: Iterable[str], told: Iterable[str], named: Iterable[str], keeps: bool) -> set[str]:
    """Return the names that went: those that the answer names, or all that a whole answer does not have."""
    return set(named) if keeps else set(before) - set(told)


def _let_rates_fall(
    topics: dict[str, TopicOnBroker], pairs: dict[str, PairOnBroker], answer: SnapshotAnswer, seconds: float
) -> None:
    if seconds <= 0:
        return
    for name, topic in topics.items():
        if name not in answer.topics and (topic.in_per_second or topic.bytes_per_second):
            topics[name] = msgspec.structs.replace(
                topic,
                in_per_second=rate(topic.in_per_second, topic.end, topic.end, seconds),
                bytes_per_second=rate(topic.bytes_per_second, topic.bytes, topic.bytes, seconds),
            )
    for name, pair in pairs.items():
        if name not in answer.pairs and pair.out_per_second:
            falling = rate(pair.out_per_second, pair.committed, pair.committed, seconds)
            pairs[name] = msgspec.structs.replace(pair, out_per_second=falling)


def _topic(told: TopicFigures, before: TopicOnBroker | None, seconds: float) -> TopicOnBroker:
    return TopicOnBroker(
        kind=told.kind,
        perm=told.perm,
        write_queues=told.write_queues,
        read_queues=told.read_queues,
        order=told.order,
        kept=max(0, told.end - told.first),
        end=told.end,
        bytes=told.bytes,
        in_per_second=NO_RATE_YET if before is None else rate(before.in_per_second, before.end, told.end, seconds),
        bytes_per_second=(
            NO_RATE_YET if before is None else rate(before.bytes_per_second, before.bytes, told.bytes, seconds)
        ),
    )


def _group(told: GroupFigures) -> GroupOnBroker:
    return GroupOnBroker(
        members=told.members,
        mode=told.mode.lower(),
        kind=told.kind,
        may_consume=told.may_consume,
        conflicts=tuple(told.conflicts),
    )


def _pair(told: PairFigures, before: PairOnBroker | None, seconds: float) -> PairOnBroker:
    moved = NO_RATE_YET if before is None else rate(before.out_per_second, before.committed, told.committed, seconds)
    return PairOnBroker(
        queues=told.queues,
        queues_behind=told.queues_behind,
        lag=told.lag,
        in_flight=told.in_flight,
        committed=told.committed,
        out_per_second=moved,
        oldest_ms=told.oldest_ms or None,
    )
