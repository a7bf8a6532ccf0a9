"""What timing keeps in tables: how far each delay level is delivered, how many messages wait for the timer, the levels.

`config/delayOffset.json` and `config/timermetrics` are as Java keeps them. An offset of a level goes to disk only once
everything delivered below it is on the medium: else a power cut could lose a message for good. Counts of the timer may
be off, after a kill, by what happened in the last second; the sum over all topics is counted by the wheel itself.
Requests ask how far each level is (45), the timer is (60), and what waits by topic (61).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from ... import logs
from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.java_hash import java_hash
from ...model.names import SCHEDULE_TOPIC
from ...protocol.bodies.body import DataVersion, encode_body
from ...protocol.bodies.offsets import DelayOffsetSerializeWrapper
from ...protocol.bodies.stats import TimerCount, TimerMetrics
from ...protocol.headers.admin import SwitchTimerEngine
from ...protocol.json import Dialect
from ...store.queues.queue_table import QueueTable
from ...store.recovery.sizes import LEVELS
from ...store.tables.json_tables import JsonTable
from ...store.timer.timer_store import TimerStore
from ...transport.dispatch import Reply, Request, RequestOf
from ..metadata.table_content import entry, next_version, read_table
from ..stats.events import delays

log = logs.get("pyromq.broker")

OFFSETS = "offsetTable"
COUNTS = "timingCount"
READ_MS = "readMs"
FILE_WHEEL, ROCKSDB = "F", "R"  # engines of the timer


class _Unsaved(NamedTuple):
    level: int
    offset: int
    end: int  # of what was delivered, in the log


class DelayProgress:
    """Event loop only. `offsets` has the next entry of each level's queue; what is on disk may be behind it."""

    def __init__(self, table: JsonTable, now_ms: Callable[[], int]) -> None:
        self._table = table
        self._now_ms = now_ms
        self.version, self.offsets = read_table(table, OFFSETS, dict[int, int])
        self._unsafe: deque[_Unsaved] = deque()
        self.changes = 0  # another number after each change

    def moved(self, level: int, offset: int, end: int) -> None:
        """Note that everything below `offset` has left; it is safe once the log is on the medium up to `end`."""
        self.offsets[level] = offset
        self.changes += 1
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
            self._table.put(OFFSETS, level, offset)
        self.version = next_version(self.version, self._now_ms())
        self._table.replace("dataVersion", msgspec.to_builtins(self.version))
        return True

    def waiting_in(self, queues: QueueTable) -> dict[str, int]:
        """Return how many messages of each level have not left yet, for the inspection command."""
        levels = sorted(queues.of_topic(SCHEDULE_TOPIC), key=lambda queue: queue.queue_id)
        offset = self.offsets.get
        counts = {
            one.queue_id + 1: one.next_offset - max(one.min_offset, offset(one.queue_id + 1, 0)) for one in levels
        }
        return {f"delay level {level}": count for level, count in counts.items() if count > 0}

    def levels(self, queues: QueueTable) -> dict[int, tuple[int, int]]:
        """Return how far each level that was ever used is delivered, and where its queue ends, for the runtime info."""
        ends = {queue.queue_id + 1: queue.readable_end for queue in queues.of_topic(SCHEDULE_TOPIC)}
        return {level: (self.offsets.get(level, 0), ends.get(level, 0)) for level in sorted({*self.offsets, *ends})}

    def body(self) -> bytes:
        table = DelayOffsetSerializeWrapper(data_version=self.version, offset_table=dict(self.offsets))
        return encode_body(table, Dialect.JAVA)


class TimerCounts:
    """Event loop only. A recall of what does not wait (its half message may still be committed) takes one away until
    its time.
    """

    def __init__(self, table: JsonTable, now_ms: Callable[[], int]) -> None:
        self._table = table
        self._now_ms = now_ms
        self._version, self._counts = read_table(table, COUNTS, dict[str, TimerCount])
        self._changed: set[str] = set()
        self.changes = 0  # another number after each change
        self.delays = delays()  # from when they came, by topic
        self.came, self.left = Counter[str](), Counter[str]()  # by topic, since the start
        self.is_followed = False  # the counts are a master's, and come with its log

    def add(self, topic: str, change: int) -> None:
        if self.is_followed:
            return
        count = self._counts.setdefault(topic, TimerCount())
        count.count = max(0, count.count + change)
        count.time_stamp = self._now_ms()
        (self.came if change > 0 else self.left)[topic] += abs(change)
        self._changed.add(topic)
        self.changes += 1

    def of(self, topic: str) -> int:
        count = self._counts.get(topic)
        return 0 if count is None else count.count

    def adopt(self, version: DataVersion, counts: Mapping[str, TimerCount]) -> None:
        """Make the counts what they are at the master."""
        if self._counts == counts:
            return
        self.changes += 1
        self._version, self._counts = version, dict(counts)
        self._changed.clear()
        self._table.replace(COUNTS, msgspec.to_builtins(self._counts))
        self._table.replace("dataVersion", msgspec.to_builtins(version))

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
            self._table.put(COUNTS, topic, msgspec.to_builtins(self._counts[topic]))
        if changed:
            self._version = next_version(self._version, self._now_ms())
            self._table.replace("dataVersion", msgspec.to_builtins(self._version))
        return bool(changed)

    def by_topic(self) -> dict[str, int]:
        return {topic: one.count for topic, one in self._counts.items() if one.count}

    def body(self) -> bytes:
        return encode_body(TimerMetrics(data_version=self._version, timing_count=self._counts), Dialect.JAVA)


def read_progress(table: JsonTable) -> int:
    """Return up to which time the set's master has emptied the timer's slots; 0: it has not said."""
    return entry(int, table.load().get(READ_MS, 0), f"{READ_MS} in {table.name}")


def note_progress(table: JsonTable, read_ms: int) -> None:
    table.replace(READ_MS, read_ms)


def note_levels(table: JsonTable, levels: str) -> bool:
    """Remember the levels of this start; True if the last one had others. Blocking: one small file, new or changed."""
    wanted = " ".join(levels.split())
    before = table.load().get(LEVELS)
    if before == wanted:
        return False
    table.replace(LEVELS, wanted)
    table.save()
    if before is None:
        return False
    log.warning(
        "messageDelayLevel has changed: messages that wait keep their time, new ones get the new delays, and so do "
        "retries of consumers (levels 3 and up)",
        before=before,
        now=wanted,
    )
    return True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TimingHandlers:
    """Event loop only. A slave copies the answers to 45, 60 and 61."""

    progress: DelayProgress
    store: TimerStore
    counts: TimerCounts

    def delay_offsets(self, request: Request) -> Reply:
        return Reply(body=self.progress.body())

    def check_point(self, request: Request) -> Reply:
        return Reply(body=self.store.check().pack())

    def metrics(self, request: Request) -> Reply:
        return Reply(body=self.counts.body())

    def switch(self, request: RequestOf[SwitchTimerEngine, None]) -> Reply:
        """Answer 5001: there is one engine, Java's files."""
        wanted = request.header.engine_type
        if wanted == FILE_WHEEL:
            return Reply()
        why = "timers in RocksDB are not kept here" if wanted == ROCKSDB else f"{wanted!r} is no engine, F is"
        raise RequestRefused(f"switch timer engine failed: {why}", ResponseCode.INVALID_PARAMETER)
