"""What groups filter by when not by tags: `config/consumerFilter.json`, as Java keeps it.

Heartbeats register, the end of a group's last member makes its filters dead, pulls ask. A filter counts for pulls of
its own version and older ones: a pull with a newer version has to wait for the heartbeat that tells of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ... import logs
from ...model.filters.bloom import Bloom
from ...model.filters.sql92 import FilterFault
from ...protocol.bodies.filters import BloomFilterData, ConsumerFilterData
from ...protocol.bodies.heartbeat import SubscriptionData
from ...store.tables import Table
from ..filters import Sieve, is_by_tags, sieve_for
from ..metadata.table_content import entry, section

log = logs.get("pyromq.broker")

SECTION = "filterDataByTopic"
ASSUMED_DEAD_MS = 30_000  # before a start: all groups are taken for dead then


class ConsumerFilters:
    """Event loop only. Invariant: everything in `_data` compiles."""

    def __init__(
        self, table: Table, now_ms: Callable[[], int], bloom: Bloom, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._table = table
        self._now_ms = now_ms
        self._bloom = bloom
        self._changed = changed
        self._data: dict[str, dict[str, ConsumerFilterData]] = {}  # by group and topic
        for topic, held in section(table.load(), SECTION).items():
            for group, value in section(held, "groupFilterData").items():
                self._load(entry(ConsumerFilterData, value, f"filter of {group} on {topic} in {table.name}"))

    def _load(self, data: ConsumerFilterData) -> None:
        try:
            sieve_for(data.expression_type, data.expression)
        except FilterFault as fault:
            log.error("a kept filter is dropped", group=data.consumer_group, topic=data.topic, why=str(fault))
            return
        if data.dead_time == 0:
            data.dead_time = max(self._now_ms() - ASSUMED_DEAD_MS, data.born_time)
        data.bloom_filter_data = self._bits(data.consumer_group, data.topic)
        self._data.setdefault(data.consumer_group, {})[data.topic] = data

    # --- asked ----------------------------------------------------------------------------------------------------

    def find(self, topic: str, group: str) -> ConsumerFilterData | None:
        return self._data.get(group, {}).get(topic)

    def sieve(self, topic: str, group: str) -> Sieve | None:
        data = self.find(topic, group)
        return None if data is None else sieve_for(data.expression_type, data.expression)

    # --- told -----------------------------------------------------------------------------------------------------

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """What a heartbeat says that the group subscribes to, all of it."""
        topics = set()
        for one in subscriptions:
            topics.add(one.topic)
            if not is_by_tags(one.expression_type) and one.sub_string:
                self._register(group, one)
        for data in self._data.get(group, {}).values():
            if data.topic not in topics:
                self._die(data)

    def _register(self, group: str, wanted: SubscriptionData) -> None:
        old = self.find(wanted.topic, group)
        if old is None:
            self._put(group, wanted)
        elif wanted.sub_version < old.client_version:
            return
        elif wanted.sub_version == old.client_version:
            self._revive(old)
        elif (wanted.sub_string, wanted.expression_type) != (old.expression, old.expression_type):
            self._put(group, wanted)
        else:
            old.client_version = wanted.sub_version
            self._revive(old, always=True)

    def _put(self, group: str, wanted: SubscriptionData) -> None:
        topic = wanted.topic
        try:
            sieve_for(wanted.expression_type, wanted.sub_string)
        except FilterFault as fault:
            # The old one goes too, so that the client is told of its mistake instead of getting what it used to want.
            log.warning("a filter cannot be parsed", group=group, topic=topic, why=str(fault))
            if self._data.get(group, {}).pop(topic, None) is not None:
                self._store(topic)
            return
        self._data.setdefault(group, {})[topic] = ConsumerFilterData(
            bloom_filter_data=self._bits(group, topic),
            born_time=self._now_ms(),
            client_version=wanted.sub_version,
            consumer_group=group,
            expression=wanted.sub_string,
            expression_type=wanted.expression_type or "",
            topic=topic,
        )
        self._store(topic)

    def unregister(self, group: str) -> None:
        """Its last member is gone."""
        for data in self._data.get(group, {}).values():
            self._die(data)

    def clean(self, keep_ms: int) -> None:
        """Forget what has been dead for so long."""
        now = self._now_ms()
        for group, topics in list(self._data.items()):
            for data in [one for one in topics.values() if _is_dead(one) and now - one.dead_time >= keep_ms]:
                log.info("a filter is forgotten, its group is long gone", group=group, topic=data.topic)
                del topics[data.topic]
                self._store(data.topic)
            if not topics:
                del self._data[group]

    def _die(self, data: ConsumerFilterData) -> None:
        if not _is_dead(data):
            data.dead_time = self._now_ms()
            self._store(data.topic)

    def _revive(self, data: ConsumerFilterData, always: bool = False) -> None:
        if _is_dead(data) or always:
            data.dead_time = 0
            self._store(data.topic)

    # --- kept -----------------------------------------------------------------------------------------------------

    def _bits(self, group: str, topic: str) -> BloomFilterData:
        return BloomFilterData(bit_num=self._bloom.bits, bit_pos=self._bloom.positions(f"{group}#{topic}"))

    def _store(self, topic: str) -> None:
        held = {group: _kept(topics[topic]) for group, topics in self._data.items() if topic in topics}
        if held:
            self._table.put(SECTION, topic, {"groupFilterData": held, "topic": topic})
        else:
            self._table.drop(SECTION, topic)
        self._changed()


def _is_dead(data: ConsumerFilterData) -> bool:
    return data.dead_time >= data.born_time


def _kept(data: ConsumerFilterData) -> Any:
    data.dead = _is_dead(data)
    return msgspec.to_builtins(data)
