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
from ...protocol.bodies.heartbeat import BloomFilterData, ConsumerFilterData, SubscriptionData
from ...store.tables.json_tables import JsonTable
from ..filters.filters import RecordFilter, filter_for, is_by_tags
from ..metadata.table_content import entry, section

log = logs.get("pyromq.broker")

SECTION = "filterDataByTopic"
MOST_BYTES = 32 << 20
ENTRY_BYTES = 1_000  # of a filter besides its expression, about
ASSUMED_DEAD_MS = 30_000  # before a start: all groups are taken for dead then


class ConsumerFilters:
    """Event loop only. Invariant: everything in `_data` compiles, and takes about `table_bytes`; above `most_bytes` the
    filters go of groups that are gone, those first that have been for longest."""

    def __init__(
        self,
        table: JsonTable,
        now_ms: Callable[[], int],
        bloom: Bloom,
        changed: Callable[[], None] = lambda: None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._table = table
        self._now_ms = now_ms
        self._bloom = bloom
        self._changed = changed
        self._most_bytes = most_bytes
        self.table_bytes = 0
        self._data: dict[str, dict[str, ConsumerFilterData]] = {}  # by group and topic
        self._written: dict[str, dict[str, Any]] = {}  # the same by topic and group, as the table has it
        for topic, known in section(table.load(), SECTION).items():
            for group, value in section(known, "groupFilterData").items():
                self._load(entry(ConsumerFilterData, value, f"filter of {group} on {topic} in {table.name}"))

    def _load(self, data: ConsumerFilterData) -> None:
        try:
            filter_for(data.expression_type, data.expression)
        except FilterFault as fault:
            log.error("a kept filter is dropped", group=data.consumer_group, topic=data.topic, why=str(fault))
            return
        if data.dead_time == 0:
            data.dead_time = max(self._now_ms() - ASSUMED_DEAD_MS, data.born_time)
        data.bloom_filter_data = self._bits(data.consumer_group, data.topic)
        self._keep(data)
        self._written.setdefault(data.topic, {})[data.consumer_group] = _kept(data)

    # --- queries ------------------------------------------------------------------------------------------------------

    def find(self, topic: str, group: str) -> ConsumerFilterData | None:
        return self._data.get(group, {}).get(topic)

    def record_filter(self, topic: str, group: str) -> RecordFilter | None:
        data = self.find(topic, group)
        return None if data is None else filter_for(data.expression_type, data.expression)

    # --- changes ------------------------------------------------------------------------------------------------------

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Note all that a heartbeat says the group subscribes to."""
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
            return
        is_newer = wanted.sub_version > old.client_version
        if is_newer and (wanted.sub_string, wanted.expression_type) != (old.expression, old.expression_type):
            self._put(group, wanted)
        elif wanted.sub_version >= old.client_version:
            old.client_version = wanted.sub_version
            self._revive(old, always=is_newer)

    def _put(self, group: str, wanted: SubscriptionData) -> None:
        topic = wanted.topic
        try:
            filter_for(wanted.expression_type, wanted.sub_string)
            self._check_capacity(ENTRY_BYTES + len(wanted.sub_string))
        except FilterFault as fault:
            # The old one goes too, so that the client is told of its mistake instead of getting what it used to want.
            log.warning("a filter is not taken", group=group, topic=topic, why=str(fault))
            self._remove(group, topic)
            return
        data = ConsumerFilterData(
            bloom_filter_data=self._bits(group, topic),
            born_time=self._now_ms(),
            client_version=wanted.sub_version,
            consumer_group=group,
            expression=wanted.sub_string,
            expression_type=wanted.expression_type or "",
            topic=topic,
        )
        self._keep(data)
        self._store(data)

    def _check_capacity(self, size: int) -> None:
        """Raise FilterFault if so much cannot be kept."""
        if self.table_bytes + size <= self._most_bytes:
            return
        dead = (one for topics in self._data.values() for one in topics.values() if _is_dead(one))
        for one in sorted(dead, key=lambda one: one.dead_time):
            self._remove(one.consumer_group, one.topic)
            if self.table_bytes + size <= self._most_bytes // 2:  # not to look through them all for each that comes
                return
        if self.table_bytes + size > self._most_bytes:
            raise FilterFault(
                f"the filters of all groups take {self.table_bytes} bytes, the limit is {self._most_bytes}"
            )

    def unregister(self, group: str) -> None:
        for data in self._data.get(group, {}).values():
            self._die(data)

    def clean(self, keep_ms: int) -> None:
        """Forget the filters of groups that have been dead for so long."""
        now = self._now_ms()
        for group, topics in list(self._data.items()):
            for data in [one for one in topics.values() if _is_dead(one) and now - one.dead_time >= keep_ms]:
                log.info("a filter is forgotten, its group is long gone", group=group, topic=data.topic)
                self._remove(group, data.topic)

    def _die(self, data: ConsumerFilterData) -> None:
        if not _is_dead(data):
            data.dead_time = self._now_ms()
            self._store(data)

    def _revive(self, data: ConsumerFilterData, always: bool = False) -> None:
        if _is_dead(data) or always:
            data.dead_time = 0
            self._store(data)

    # --- the table ----------------------------------------------------------------------------------------------------

    def _bits(self, group: str, topic: str) -> BloomFilterData:
        return BloomFilterData(bit_num=self._bloom.bits, bit_pos=self._bloom.positions(f"{group}#{topic}"))

    def _keep(self, data: ConsumerFilterData) -> None:
        topics = self._data.setdefault(data.consumer_group, {})
        before = topics.get(data.topic)
        self.table_bytes += _bytes(data) - (0 if before is None else _bytes(before))
        topics[data.topic] = data

    def _remove(self, group: str, topic: str) -> None:
        gone = self._data.get(group, {}).pop(topic, None)
        if gone is None:
            return
        self.table_bytes -= _bytes(gone)
        if not self._data[group]:
            del self._data[group]
        del self._written[topic][group]
        self._hand_over(topic)

    def _store(self, data: ConsumerFilterData) -> None:
        self._written.setdefault(data.topic, {})[data.consumer_group] = _kept(data)
        self._hand_over(data.topic)

    def _hand_over(self, topic: str) -> None:
        if self._written[topic]:
            self._table.put(SECTION, topic, {"groupFilterData": dict(self._written[topic]), "topic": topic})
        else:
            del self._written[topic]
            self._table.drop(SECTION, topic)
        self._changed()


def _bytes(data: ConsumerFilterData) -> int:
    return ENTRY_BYTES + len(data.expression)


def _is_dead(data: ConsumerFilterData) -> bool:
    return data.dead_time >= data.born_time


def _kept(data: ConsumerFilterData) -> Any:
    data.dead = _is_dead(data)
    return msgspec.to_builtins(data)
