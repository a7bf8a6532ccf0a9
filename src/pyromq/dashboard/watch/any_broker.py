"""What any broker tells by RocketMQ's own requests, Apache's too: a few questions at each look, by turns.

A broker with a thousand groups is not asked about all of them at once: what was not asked yet is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle

import msgspec

from ...admin import cluster, groups, offsets, topics
from ...admin.calls import Calls
from ...client.errors import Refused
from ...model.wire_text import whole_number
from ...protocol.bodies.topics import TopicConfig
from .figures import (
    NO_RATE_YET,
    NOT_QUERIED,
    OURS_ALONE,
    BrokerSnapshot,
    GroupOnBroker,
    PairOnBroker,
    TopicOnBroker,
    Unknown,
)
from .rates import rate

QUESTIONS = 40  # of a look at one broker; every two seconds
NAMES_S = 20.0  # between two looks at which topics and groups there are


@dataclass(slots=True)
class QueryRounds:
    """Whose turn it is. One for each broker; event loop only."""

    calls: Calls
    names_at: float = float("-inf")
    configs: dict[str, TopicConfig] = field(default_factory=dict)
    may_consume: dict[str, bool] = field(default_factory=dict)
    queried: dict[str, int] = field(default_factory=dict)  # by name of a group or topic: when, in ms
    order: Iterator[tuple[str, str]] | None = None

    async def refresh(self, before: BrokerSnapshot, now_ms: int, now: float) -> BrokerSnapshot:
        address = before.address
        runtime = await cluster.runtime(self.calls, address)
        if now - self.names_at >= NAMES_S:
            await self._learn_names(address)
            self.names_at = now
        topics_now = {name: before.topics.get(name) or _unasked(config) for name, config in self.configs.items()}
        groups_now = {name: before.groups.get(name) or _silent(may) for name, may in self.may_consume.items()}
        pairs = {key: one for key, one in before.pairs.items() if key.rpartition("@")[2] in groups_now}
        for _ in range(min(QUESTIONS, len(topics_now) + len(groups_now))):
            kind, name = next(self.order or iter(()))
            seconds = (now_ms - self.queried.get(f"{kind}/{name}", now_ms)) / 1000
            self.queried[f"{kind}/{name}"] = now_ms
            if kind == "topic":
                topics_now[name] = await self._topic(address, self.configs[name], topics_now[name], seconds)
            else:
                groups_now[name] = await self._group(address, name, self.may_consume[name])
                pairs = {key: one for key, one in pairs.items() if key.rpartition("@")[2] != name} | (
                    await self._pairs(address, name, pairs, seconds)
                )
        put = whole_number(runtime.get("msgPutTotalTodayNow"))
        return msgspec.structs.replace(
            before,
            at_ms=now_ms,
            fault="",
            runtime=runtime,
            put_total=NOT_QUERIED if put is None else put,
            put_bytes=OURS_ALONE,
            got_total=NOT_QUERIED,
            in_per_second=_rate_of(runtime, "putTps"),
            out_per_second=_rate_of(runtime, "getTransferredTps", "getTransferedTps"),
            bytes_per_second=OURS_ALONE,
            topics=topics_now,
            groups=groups_now,
            pairs=pairs,
        )

    async def _learn_names(self, address: str) -> None:
        self.configs = await topics.configs(self.calls, address)
        found = await groups.configs(self.calls, address)
        self.may_consume = {name: config.consume_enable for name, config in found.items()}
        everything = [("group", name) for name in self.may_consume] + [("topic", name) for name in self.configs]
        self.order = cycle(everything)

    async def _topic(self, address: str, config: TopicConfig, before: TopicOnBroker, seconds: float) -> TopicOnBroker:
        try:
            table = (await topics.stats(self.calls, address, config.topic_name)).offset_table
        except Refused as fault:
            reason = Unknown(str(fault))
            return msgspec.structs.replace(before, kept=reason, end=reason)
        end = sum(one.max_offset for one in table.values())
        return msgspec.structs.replace(
            _unasked(config),
            kept=sum(one.count for one in table.values()),
            end=end,
            in_per_second=rate(before.in_per_second, before.end, end, seconds) if seconds else NO_RATE_YET,
        )

    async def _group(self, address: str, name: str, may_consume: bool) -> GroupOnBroker:
        online = await groups.connections(self.calls, address, name)
        return GroupOnBroker(
            members=0 if online is None else len({one.client_id for one in online.connection_set}),
            mode="" if online is None or online.message_model is None else online.message_model.value.lower(),
            kind="" if online is None or online.consume_type is None else online.consume_type.value,
            may_consume=may_consume,
            conflicts=(),
        )

    async def _pairs(
        self, address: str, name: str, before: dict[str, PairOnBroker], seconds: float
    ) -> dict[str, PairOnBroker]:
        progress = await offsets.waiting(self.calls, address, name)
        found: dict[str, PairOnBroker] = {}
        for topic in {queue.topic for queue in progress.offset_table}:
            own = [one for queue, one in progress.offset_table.items() if queue.topic == topic]
            key, committed = f"{topic}@{name}", sum(one.consumer_offset for one in own)
            known = before.get(key)
            lag = sum(one.lag for one in own)
            found[key] = PairOnBroker(
                queues=len(own),
                queues_behind=sum(1 for one in own if one.lag),
                lag=lag,
                in_flight=sum(max(0, one.in_flight) for one in own),
                committed=committed,
                out_per_second=NO_RATE_YET
                if known is None or not seconds
                else rate(known.out_per_second, known.committed, committed, seconds),
                oldest_ms=OURS_ALONE if lag else None,
            )
        return found


def _unasked(config: TopicConfig) -> TopicOnBroker:
    return TopicOnBroker(
        kind=config.attributes.get("message.type", ""),
        perm=config.perm,
        write_queues=config.write_queue_nums,
        read_queues=config.read_queue_nums,
        order=config.order,
        kept=NOT_QUERIED,
        end=NOT_QUERIED,
        bytes=OURS_ALONE,
        in_per_second=NOT_QUERIED,
        bytes_per_second=OURS_ALONE,
    )


def _silent(may_consume: bool) -> GroupOnBroker:
    return GroupOnBroker(members=NOT_QUERIED, mode="", kind="", may_consume=may_consume, conflicts=())


def _rate_of(runtime: dict[str, str], *names: str) -> float | Unknown:
    found = cluster.first_number(runtime, *names)
    return Unknown("the broker does not tell it") if found is None else found
