"""A store that holds as many messages as one likes and is mostly holes. bench/backlog.py starts a broker on it.

Its ends are real: the store itself puts head and tail and closes cleanly. Between them it is made to jump: files of log
and queues that were never written, offsets and positions as if they had been. In the hole only those entries and
records are written that a search by time looks at: for the times given out, and as long as nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from pyromq.ambient import SystemClock
from pyromq.kernel.records import place_burst
from pyromq.model.boundary import Boundary
from pyromq.model.ids import pack_host
from pyromq.protocol.record import Record
from pyromq.store.config import StoreConfig
from pyromq.store.files.file_sequence import FileSequence
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.layout import QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from pyromq.store.message_store import MessageStore
from pyromq.store.queues.consume_queue import ConsumeQueue
from pyromq.store.queues.time_search import search_by_time

HOST = pack_host("127.0.0.1", 10911)
QUEUES, BURST, SEARCHES = 4, 500, 50
RECORD_BYTES = 200  # of a message that is not there
AGE_MS = 30 * 24 * 3_600_000  # of the oldest
ALIGNED = 4096  # a record in the hole begins at a page, and no file ends inside it


class Clock(SystemClock):
    """A clock that may be behind."""

    behind_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() - self.behind_ms


class Built(NamedTuple):
    messages: int  # as offsets count them
    times_ms: list[int]  # that may be searched for


class Hole(NamedTuple):
    """Offsets of a queue and positions of the log without anything between them, and the times they would have."""

    first: int
    behind: int
    position: int
    position_behind: int
    time_ms: int
    time_behind_ms: int

    def share(self, offset: int) -> float:
        return (offset - self.first) / max(1, self.behind - self.first)

    def time_of(self, offset: int) -> int:
        """The same for all that have their record at the same place."""
        into, length = self.position_of(offset) - self.position, self.position_behind - self.position
        return self.time_ms + (self.time_behind_ms - self.time_ms) * into // length

    def position_of(self, offset: int) -> int:
        return self.position + int((self.position_behind - self.position) * self.share(offset)) // ALIGNED * ALIGNED


def build(root: Path, topic: str, messages: int, ends: int) -> Built:
    """`ends` real messages, half of them at either end, and what is missing to `messages` as a hole."""
    clock = Clock()
    clock.behind_ms = AGE_MS
    disk, config = RealDisk(root), StoreConfig()
    store = MessageStore(disk, config, clock)
    try:
        put(store, topic, ends // 2)
        clock.behind_ms = 0
        hole = jump(store, disk, topic, messages - ends, clock.now_ms())
        put(store, topic, ends // 2)
        age_ms = hole.time_behind_ms - hole.time_ms
        times = [hole.time_ms + age_ms * part // SEARCHES for part in range(SEARCHES)]
        fill_hole(store, config, topic, hole, times)
        count = sum(queue.next_offset for queue in store.queues.of_topic(topic))
        return Built(count, times)
    finally:
        store.close()


def put(store: MessageStore, topic: str, count: int) -> None:
    for first in range(0, count, BURST):
        store.put([record(topic, first + number) for number in range(BURST)])
    store.flush_now()


def record(topic: str, number: int) -> Record:
    return Record(
        topic=topic,
        queue_id=number % QUEUES,
        body=b"0123456789abcdef",
        properties=b"UNIQ_KEY\x01C000020240734E0E2F2A4C2B%08X\x02" % number,
        born_host=HOST,
        store_host=HOST,
    )


def jump(store: MessageStore, disk: RealDisk, topic: str, missing: int, now_ms: int) -> Hole:
    """Queues and log go on behind files that were never written."""
    log, queues = store.commit_log, store.queues.of_topic(topic)
    first, position, time_ms = queues[0].next_offset, log.sequence.limit, log.tail.last_time
    if not missing:
        return Hole(first, first, position, position, time_ms, now_ms)
    behind = first
    for queue in queues:
        assert isinstance(queue, ConsumeQueue)
        per_file = queue.entries.sequence.file_bytes // QUEUE_ENTRY_BYTES
        behind = -(-(first + missing // QUEUES) // per_file) * per_file
        make_holes(disk, queue.entries.sequence, behind * QUEUE_ENTRY_BYTES)
        queue.tail.end = queue.tail.readable_end = behind
    size = log.sequence.file_bytes
    end = position + -(-missing * RECORD_BYTES // size) * size
    make_holes(disk, log.sequence, end)
    log.make_file(end)
    log.sequence.bases.append(end)
    log.continue_at(end, log.tail.last_position, time_ms)
    return Hole(first, behind, position, end, time_ms, now_ms)


def make_holes(disk: RealDisk, files: FileSequence, until: int) -> None:
    for base in range(files.limit, until, files.file_bytes):
        file = disk.open(files.name(base), create=True)
        file.truncate(files.file_bytes)
        file.close()
        files.bases.append(base)


def fill_hole(store: MessageStore, config: StoreConfig, topic: str, hole: Hole, times_ms: list[int]) -> None:
    """What searches for these times in queue 0 look at."""
    queue = store.queues.get(topic, 0)
    assert isinstance(queue, ConsumeQueue)
    for offset in sorted(set(looked_at(store, queue, hole, times_ms))):
        if not hole.first <= offset < hole.behind:
            continue
        position, time_ms = hole.position_of(offset), hole.time_of(offset)
        one = msgspec.structs.replace(record(topic, 0), queue_offset=offset)
        buffers, places = place_burst([one], position, time_ms, config.delay_levels, config.whole_record_crc)
        store.commit_log.sequence.write(position, b"".join(buffers))
        entry = QUEUE_ENTRY.pack(position, places[0].size, places[0].tag_code)
        queue.entries.overwrite(offset, entry)


def looked_at(store: MessageStore, queue: ConsumeQueue, hole: Hole, times_ms: list[int]) -> Iterator[int]:
    """A search goes by the times that it finds, so those in front of the hole and behind it are the real ones."""
    for time_ms in times_ms:
        seen: list[int] = []

        def time_of(offset: int, seen: list[int] = seen) -> int:
            seen.append(offset)
            if hole.first <= offset < hole.behind:
                return hole.time_of(offset)
            return store.reader.store_time(queue.topic, queue.queue_id, offset)

        search_by_time(queue.min_offset, queue.readable_end, time_ms, Boundary.LOWER, time_of)
        yield from seen
