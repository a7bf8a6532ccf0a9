"""What a dashboard follows: every topic, group and pair of the two in one answer (30008, ours), later what has changed.

Read-only. Figures are sums over queues, and totals instead of rates: who asks twice knows the rate of the time between.
The tables are gone through in slices, at most once a second however many ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...ambient import Clock
from ...model.lag import lag
from ...model.names import retry_topic
from ...protocol.bodies.own import GroupFigures, PairFigures, SnapshotAnswer, TopicFigures
from ...protocol.bodies.topics import TopicConfig
from ...protocol.headers.admin import SnapshotRequest
from ...transport.dispatch import Reply, RequestOf
from ..stats.counters import GROUP_GET_NUMS, TOPIC_PUT_SIZE, Counters
from .view import BrokerView

FRESH_S = 1.0  # who asks again within it gets the same figures
MOST_GONE = 10_000  # names remembered as gone; who asked before them gets everything
_TABLES = ("topics", "groups", "pairs")


@dataclass(slots=True)
class _Kept:
    """Rows of one kind, with the number of the picture in which each changed last."""

    rows: dict[str, tuple[int, msgspec.Struct]] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)

    def take(self, fresh: Mapping[str, msgspec.Struct], number: int) -> None:
        for name in self.rows.keys() - fresh.keys():
            del self.rows[name]
            self.gone[name] = number
        for name, row in fresh.items():
            known = self.rows.get(name)
            if known is None or known[1] != row:
                self.rows[name] = (number, row)
                self.gone.pop(name, None)

    def since(self, number: int) -> dict[str, Any]:
        return {name: row for name, (changed, row) in self.rows.items() if changed > number}


@dataclass(slots=True, eq=False, repr=False)
class SnapshotAdmin(BrokerView):
    """Event loop only."""

    clock: Clock
    counters: Counters
    life: str  # another one after each start: then numbers begin anew
    _number: int = 0
    _floor: int = 0  # names that went in earlier pictures are forgotten
    _taken: float = float("-inf")
    _kept: dict[str, _Kept] = field(default_factory=lambda: {name: _Kept() for name in _TABLES})
    _times: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)  # by queue: an offset, and its time
    _taking: bool = False

    async def __call__(self, request: RequestOf[SnapshotRequest, None]) -> Reply:
        began = self.clock.monotonic()
        if began - self._taken >= FRESH_S and not self._taking:
            self._taking = True
            try:
                await self._take()
            finally:
                self._taking = False
        since, header = 0, request.header
        if header.life == self.life and self._floor <= header.since <= self._number:
            since = header.since
        found = {name: self._kept[name].since(since) for name in _TABLES}
        gone = {name: [one for one, at in self._kept[name].gone.items() if at > since] for name in _TABLES if since}
        answer = SnapshotAnswer(
            life=self.life,
            number=self._number,
            since=since,
            at_ms=self.clock.now_ms(),
            took_ms=round((self.clock.monotonic() - began) * 1000, 1),
            put_total=self.counters.put_total,
            put_bytes=self.counters.put_bytes,
            got_total=self.counters.got_total,
            gone={name: names for name, names in gone.items() if names},
            **found,
        )
        return Reply(body=answer)

    async def _take(self) -> None:
        sizes, got = self.counters.table(TOPIC_PUT_SIZE), self.counters.table(GROUP_GET_NUMS)
        topics: dict[str, TopicFigures] = {}
        async for config in self.slices.each(list(self.topics.all().values())):
            counter = sizes.get(config.topic_name)
            topics[config.topic_name] = self._topic(config, 0 if counter is None else counter.value)
        groups = {}
        async for name in self.slices.each(list(self.groups.all())):
            groups[name] = self._group(name)
        pairs = {}
        async for key in self.slices.each([*self.offsets.all(), *self._unread_retries(groups, topics)]):
            topic, _, group = key.rpartition("@")
            if topic in topics and self.is_of_interest(group, topic):
                counter = got.get(key)
                pairs[key] = await self._pair(topic, group, 0 if counter is None else counter.value)
        self._number += 1
        for name, fresh in (("topics", topics), ("groups", groups), ("pairs", pairs)):
            self._kept[name].take(fresh, self._number)
        if sum(len(one.gone) for one in self._kept.values()) > MOST_GONE:
            self._floor = self._number
            for one in self._kept.values():
                one.gone.clear()
        self._taken = self.clock.monotonic()

    def _topic(self, config: TopicConfig, size: int) -> TopicFigures:
        first = end = 0
        for queue_id in range(max(config.write_queue_nums, config.read_queue_nums)):
            low, high = self.offset_range(config.topic_name, queue_id)
            first, end = first + low, end + high
        return TopicFigures(
            kind=config.attributes.get("message.type", ""),
            perm=config.perm,
            write_queues=config.write_queue_nums,
            read_queues=config.read_queue_nums,
            order=config.order,
            first=first,
            end=end,
            bytes=size,
        )

    def _group(self, name: str) -> GroupFigures:
        members, config = self.consumers.find(name), self.groups.find(name)
        return GroupFigures(
            members=0 if members is None else len(members.client_ids),
            mode="" if members is None else members.message_model.value,
            kind="" if members is None else members.consume_type.value,
            may_consume=config is None or config.consume_enable,
            retries=0 if config is None else config.retry_max_times,
            conflicts=self.consumers.conflicts.of_group(name),
        )

    def _unread_retries(self, groups: Iterable[str], topics: Mapping[str, TopicFigures]) -> list[str]:
        """Return the pairs of groups with retry topics that no member has read yet: all that is there waits."""
        known = self.offsets.all()
        pairs = [(retry_topic(group), f"{retry_topic(group)}@{group}") for group in groups]
        return [key for retry, key in pairs if retry in topics and key not in known]

    async def _pair(self, topic: str, group: str, handed_out: int) -> PairFigures:
        """Return the figures over all queues, as request 208 counts: nothing committed is offset 0."""
        found, config = PairFigures(handed_out=handed_out), self.topics.find(topic)
        for queue_id in range(0 if config is None else config.read_queue_nums):
            low, high = self.offset_range(topic, queue_id)
            done = max(0, self.offsets.find(topic, group, queue_id) or 0)
            found.queues += 1
            found.committed += done
            found.in_flight += max(0, (self.offsets.pulled(topic, group, queue_id) or 0) - done)
            found.lag += lag(high, done)
            if high > done:
                found.queues_behind += 1
                stored = await self._time(topic, queue_id, max(low, done)) if high > low else 0
                if stored > 0 and not 0 < found.oldest_ms < stored:
                    found.oldest_ms = stored
        return found

    async def _time(self, topic: str, queue_id: int, offset: int) -> int:
        """Return when a message was stored. What stands still is read once."""
        known = self._times.get((topic, queue_id))
        if known is not None and known[0] == offset:
            return known[1]
        stored = await self.store.ask(lambda: self.store.reader.store_time(topic, queue_id, offset))
        if len(self._times) > MOST_GONE:
            self._times.clear()
        self._times[topic, queue_id] = (offset, stored)
        return stored
