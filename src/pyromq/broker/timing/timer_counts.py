"""How many messages wait for a time, by topic: `config/timermetrics` and request 61, as Java keeps them.

After a kill the counts may be off by what happened in the last second; the sum over all topics is counted by the wheel
itself. A recall of what does not wait (its half message may still be committed) takes one from both until its time.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ...model.java_hash import java_hash
from ...protocol.bodies.body import encode_body
from ...protocol.bodies.stats import TimerCount, TimerMetrics
from ...protocol.json import Dialect
from ...store.tables.json_tables import JsonTable
from ..metadata.table_content import entry, next_version, read_version, section

SECTION = "timingCount"


class TimerCounts:
    """Event loop only."""

    def __init__(self, table: JsonTable, now_ms: Callable[[], int]) -> None:
        self._table = table
        self._now_ms = now_ms
        content = table.load()
        self._version = read_version(content, table.name)
        self._counts = entry(dict[str, TimerCount], section(content, SECTION), f"{SECTION} in {table.name}")
        self._changed: set[str] = set()

    def add(self, topic: str, change: int) -> None:
        count = self._counts.setdefault(topic, TimerCount())
        count.count = max(0, count.count + change)
        count.time_stamp = self._now_ms()
        self._changed.add(topic)

    def start_anew(self) -> None:
        for topic in [topic for topic, one in self._counts.items() if one.count]:
            self.add(topic, -self._counts[topic].count)

    def lose(self, topic_hash: int) -> None:
        """Count one less whose record is gone: only the hash of its topic is left."""
        for topic in [topic for topic in self._counts if java_hash(topic) == topic_hash][:1]:
            self.add(topic, -1)

    def store_changed(self) -> bool:
        """Hand what is new to the table. False: nothing is."""
        changed, self._changed = self._changed, set()
        for topic in changed:
            self._table.put(SECTION, topic, msgspec.to_builtins(self._counts[topic]))
        if changed:
            self._version = next_version(self._version, self._now_ms())
            self._table.replace("dataVersion", msgspec.to_builtins(self._version))
        return bool(changed)

    def by_topic(self) -> dict[str, int]:
        return {topic: one.count for topic, one in self._counts.items() if one.count}

    def body(self) -> bytes:
        return encode_body(TimerMetrics(data_version=self._version, timing_count=self._counts), Dialect.JAVA)
