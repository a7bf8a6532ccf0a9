"""How far each delay level has been delivered: `config/delayOffset.json`, as Java keeps it.

The delivery loop tells it what left and at which place of the log the delivered message ends. An offset goes to disk
only once everything delivered below it is on the medium: else a power cut could lose a message for good.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from ...model.names import SCHEDULE_TOPIC
from ...protocol.bodies.body import encode_body
from ...protocol.bodies.offsets import DelayOffsetSerializeWrapper
from ...protocol.json import Dialect
from ...store.queues.queue import StoredQueue
from ...store.queues.queue_table import QueueTable
from ...store.tables.json_tables import JsonTable
from ..metadata.table_content import entry, next_version, read_version, section

SECTION = "offsetTable"


class _Unsaved(NamedTuple):
    level: int
    offset: int
    end: int  # of what was delivered, in the log


class DelayProgress:
    """Event loop only. `offset` is the next entry of a level's queue; what is on disk may be behind it."""

    def __init__(self, table: JsonTable, now_ms: Callable[[], int]) -> None:
        self._table = table
        self._now_ms = now_ms
        content = table.load()
        self.version = read_version(content, table.name)
        self._offsets = entry(dict[int, int], section(content, SECTION), f"{SECTION} in {table.name}")
        self._unsafe: deque[_Unsaved] = deque()

    def offset(self, level: int) -> int | None:
        return self._offsets.get(level)

    def all(self) -> Mapping[int, int]:
        return self._offsets

    def moved(self, level: int, offset: int, end: int) -> None:
        """Note that everything below `offset` has left; it is safe once the log is on the medium up to `end`."""
        self._offsets[level] = offset
        self._unsafe.append(_Unsaved(level, offset, end))

    def store_changed(self, flushed: int) -> bool:
        """Hand to the table what is safe by now. False: nothing new is."""
        safe: dict[int, int] = {}
        while self._unsafe and self._unsafe[0].end <= flushed:
            one = self._unsafe.popleft()
            safe[one.level] = one.offset
        if not safe:
            return False
        for level, offset in safe.items():
            self._table.put(SECTION, level, offset)
        self.version = next_version(self.version, self._now_ms())
        self._table.replace("dataVersion", msgspec.to_builtins(self.version))
        return True

    def waiting_in(self, queues: QueueTable) -> dict[str, int]:
        """Return how many messages of each level have not left yet, for the inspection command."""
        levels = sorted(queues.of_topic(SCHEDULE_TOPIC), key=lambda queue: queue.queue_id)
        counts = {one.queue_id + 1: one.next_offset - max(one.min_offset, self._departed(one)) for one in levels}
        return {f"delay level {level}": count for level, count in counts.items() if count > 0}

    def levels(self, queues: QueueTable) -> dict[int, tuple[int, int]]:
        """Return how far each level that was ever used is delivered, and where its queue ends, for the runtime info."""
        ends = {queue.queue_id + 1: queue.readable_end for queue in queues.of_topic(SCHEDULE_TOPIC)}
        return {level: (self._offsets.get(level, 0), ends.get(level, 0)) for level in sorted({*self._offsets, *ends})}

    def _departed(self, queue: StoredQueue) -> int:
        return self._offsets.get(queue.queue_id + 1, 0)

    def body(self) -> bytes:
        table = DelayOffsetSerializeWrapper(data_version=self.version, offset_table=dict(self._offsets))
        return encode_body(table, Dialect.JAVA)
