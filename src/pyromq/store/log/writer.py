"""Putting records: queue offsets are given out, records encoded, and all of it goes to the log by one append.

A native kernel that made records itself goes by the same `Appender`, and asks here for room and for the next file.

Everything that may be refused (too large, disk full) is refused before the first byte. An error after that leaves
bytes that nobody knows of, so it ends writing until the store is opened again; reads go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import logs
from ...kernel import state
from ...kernel.records import KEY, Placed
from ...kernel.state import AppendCalls, QueueTail
from ...model.message import MOST_INNER_MESSAGES, WRAPPED_BATCH, Property, SysFlag
from ...model.wire_text import whole_number
from ...protocol.batch import BatchEntries, decode_batch
from ...protocol.properties import find_property
from ...protocol.record import FIXED_BYTES, Record
from ..config import StoreConfig
from ..errors import RecordTooLarge, StoreError, StoreNotWritable
from ..files.disk import Bytes, DiskError
from ..files.free_space import FreeSpace
from ..index.key_index import Index
from ..queues.batch_queue import BatchQueue
from ..queues.consume_queue import ConsumeQueue
from ..queues.queue import StoredQueue
from ..queues.queue_table import QueueTable
from .commit_log import CommitLog
from .dispatch import RecordDispatcher
from .watermarks import Watermarks

log = logs.get("pyromq.store")

_INNER_BASE = Property.INNER_BASE.encode()
_MOST_OFFSETS = 1 << 56  # of a queue: its entries' places are numbers of 63 bits
_MOST_LOST = 1 << 20  # offsets of messages that a power cut took from a master's log


class Writer:
    """The one writer. Event loop only."""

    def __init__(
        self,
        config: StoreConfig,
        commit_log: CommitLog,
        queues: QueueTable,
        index: Index | None,
        watermarks: Watermarks,
        free_space: FreeSpace,
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._dispatcher = RecordDispatcher(queues, index)
        self._watermarks = watermarks
        self._free_space = free_space
        self._now_ms = now_ms
        arrivals = watermarks.arrivals
        self.appender = state.Appender(
            commit_log.tail,
            None if index is None else index.state,
            watermarks.appended.state,
            watermarks.readable.state,
            arrivals.listeners,
            watermarks.on_append,
            not watermarks.gates.needs_sync,  # and while a second gate holds `readable`, `publish` moves it
            AppendCalls(self._make_room, self._break_off, watermarks.publish, self._roll_on, arrivals.log_failure),
        )
        self.follow = state.FollowFeed(self.appender, config.index_tags, self._plain_queue)

    @property
    def is_writable(self) -> bool:
        return self.appender.stopped is None

    def stop(self, reason: str) -> None:
        """Take no more records. The first reason is kept."""
        if self.appender.stopped is None:
            self.appender.stopped = reason

    def put(self, records: Sequence[Record], *, together: bool = False) -> list[Placed]:
        """Append a burst, in one write where it fits into the log's file. `together`: it must lie in one file.

        Raises RecordTooLarge, DiskFull (nothing written) or StoreNotWritable. Anything else that is raised is a record
        that cannot be encoded: nothing is written then either.
        """
        self._check_writable()
        self._assign(records)
        store_time = max(self._now_ms(), self._log.tail.last_time)  # the clock may step back, the log does not
        buffers, places = self._log.place(records, store_time)
        runs = self._log.split(buffers, together)
        if len(runs) > 1:
            return self._append_runs(records, places, runs)
        self._append(buffers, places)
        return places

    def _append(self, buffers: Sequence[bytes], places: Sequence[Placed]) -> None:
        self._append_to(self._dispatcher.by_queue(places), buffers, places)

    def _append_to(
        self, groups: Sequence[tuple[StoredQueue, list[Placed]]], buffers: Sequence[bytes], places: Sequence[Placed]
    ) -> None:
        queues = [
            (queue.tail, queue.pack(group), group[-1].queue_offset + group[-1].messages - queue.tail.next_offset)
            for queue, group in groups
        ]
        keys = b"" if self._index is None else self._index.hashed(places)
        last = places[-1]
        records = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        self.appender.append(records, last.position, last.store_time, queues, keys)

    def _append_runs(self, records: Sequence[Record], places: Sequence[Placed], runs: Sequence[int]) -> list[Placed]:
        """Append records that go to several files, so many to each. `places`: as if they all fitted into the first."""
        needs = [(queue.tail, len(group)) for queue, group in self._dispatcher.by_queue(places)]
        keys = b"" if self._index is None else self._index.hashed(places)
        self._make_room(needs, len(keys) // KEY.size, len(runs) - 1)
        appended: list[Placed] = []
        for number, count in enumerate(runs):
            try:
                if number:
                    self._log.roll()
                buffers, run = self._log.place(records[len(appended) : len(appended) + count], places[0].store_time)
                if run:
                    self._append(buffers, run)
            except Exception as fault:
                if not number or self.appender.stopped is not None:
                    raise
                raise self._break_off(fault) from fault
            appended += run
        return appended

    def put_batch(self, batch: Record, entries: BatchEntries | None = None) -> list[Placed]:
        """Put a batch body (request 320) as records of its own: same queue, times and hosts, one file.

        `entries` are stored in place of the body, where that was decoded before, or changed.
        """
        self._check_body(batch)
        if entries is None:
            entries = bytes(batch.body)
        if isinstance(entries, bytes):
            places = self._put_whole(batch, entries)
            if places is not None:
                return places
            entries = decode_batch(entries)
        records = [
            Record(
                topic=batch.topic,
                queue_id=batch.queue_id,
                body=body,
                properties=properties,
                flag=flag,
                sys_flag=batch.sys_flag,
                born_timestamp=batch.born_timestamp,
                born_host=batch.born_host,
                store_host=batch.store_host,
                reconsume_times=batch.reconsume_times,
            )
            for body, flag, properties in entries
        ]
        return self.put(records, together=True) if records else []

    def _put_whole(self, batch: Record, body: bytes) -> list[Placed] | None:
        """Put a batch body without looking at each message. None, and nothing is put, where they are put one by one."""
        self._check_writable()
        queue = self._queues.get(batch.topic, batch.queue_id)
        if not isinstance(queue, ConsumeQueue) or batch.sys_flag & (SysFlag.TRANSACTION_MASK | WRAPPED_BATCH):
            return None
        store_time = max(self._now_ms(), self._log.tail.last_time)
        found = self._log.place_batch(batch, body, queue.next_offset, store_time)
        if found is None or len(found[0]) > self._log.tail.room:
            return None
        records, places = found
        self._append_to([(queue, places)], (records,), places)
        return places

    # -- a master's records -------------------------------------------------------------------------------------------

    def take(self, record: Bytes, placed: Placed) -> None:
        """Append a record as another broker placed it: at the log's end, in its file. Most go by `follow` instead.

        Raises DiskFull (nothing written) or StoreNotWritable."""
        self._check_writable()
        queues = []
        for queue, group in self._dispatcher.by_queue((placed,)):
            if placed.queue_offset != queue.next_offset and not queue.make_next(placed):
                queue.accept(group)  # it has had this offset: of a record that is damaged here
            else:
                queues.append((queue.tail, queue.pack(group), placed.messages))
        keys = b"" if self._index is None else self._index.hashed((placed,))
        store_time = max(placed.store_time, self._log.tail.last_time)
        self.appender.append(record, placed.position, store_time, queues, keys)

    def _plain_queue(self, topic: str, queue_id: int) -> QueueTail | None:
        queue = self._queues.get(topic, queue_id)
        return queue.tail if isinstance(queue, ConsumeQueue) else None

    def may_have(self, placed: Placed) -> bool:
        """Return whether a record of another broker can have the offset that it says: a gap before it is filled.

        Offsets without a record are those of damaged ones, which lie between, and of a tail that a power cut took."""
        if not 0 <= placed.queue_offset < _MOST_OFFSETS or placed.queue_id < 0:
            return False
        queue = self._queues.get(placed.topic, placed.queue_id)
        if not isinstance(queue, ConsumeQueue) or placed.queue_offset - queue.next_offset <= _MOST_LOST:
            return True
        last = queue.last_entry()
        gap = placed.queue_offset - queue.next_offset - _MOST_LOST
        return last is None or gap <= (placed.position - last.position) // FIXED_BYTES

    def next_file(self) -> None:
        """Go on in the log's next file, which is made if it is not there. Raises as `take` does."""
        self._check_writable()
        self._make_room((), 0, 1)
        try:
            self._log.roll()
        except Exception as fault:
            raise self._break_off(fault) from fault
        self._watermarks.publish((), self._log.end)

    def _check_writable(self) -> None:
        if self.appender.stopped is not None:
            raise StoreNotWritable(f"the store takes no more messages: {self.appender.stopped}")

    # -- before the first byte ----------------------------------------------------------------------------------------

    def _assign(self, records: Sequence[Record]) -> None:
        """Give out queue offsets, counted on within the burst."""
        offsets: dict[tuple[str, int], int] = {}
        for record in records:
            self._check_body(record)
            if record.sys_flag & SysFlag.TRANSACTION_MASK not in (0, SysFlag.TRANSACTION_COMMIT):
                record.queue_offset = 0  # prepared or rolled back: in the log alone
                continue
            key = (record.topic, record.queue_id)
            wrapped = record.sys_flag & WRAPPED_BATCH == WRAPPED_BATCH
            if key not in offsets:
                queue = self._queues.get_or_make(*key, holds_batch=wrapped)
                if wrapped and not isinstance(queue, BatchQueue):
                    raise StoreError(
                        f"topic {record.topic} holds single messages: an inner batch needs queue.type=BatchCQ"
                    )
                offsets[key] = queue.next_offset
            record.queue_offset = offsets[key]
            offsets[key] += _take_base(record) if wrapped else 1

    def _check_body(self, record: Record) -> None:
        if len(record.body) > self._config.max_message_bytes:
            raise RecordTooLarge(
                f"the body has {len(record.body)} bytes, maxMessageSize is {self._config.max_message_bytes}"
            )

    def _make_room(self, queues: Sequence[tuple[QueueTail, int]], keys: int, files: int = 0) -> None:
        """Open the files of an append and make room for so many entries of each queue, keys, and files of the log.

        While the disk was too full, every append comes here first, so that it is noted when there is room again.
        """
        try:
            with self._free_space:
                self._log.open_end()
                for tail, entries in queues:
                    self._queues.by_topic[tail.topic][tail.queue_id].reserve(entries)
                if self._index is not None:
                    self._index.reserve(keys)
                self._log.make_ahead(files)
        finally:
            self.appender.is_short = self._free_space.refused is not None

    def _roll_on(self) -> bool:
        """Let a kernel go on in the log's next file. False: that is not made yet, or Python shall say what is wrong."""
        if self.appender.stopped is not None or self.appender.is_short or not self._log.has_file_ahead:
            return False
        try:
            self._log.roll()
            return True
        except Exception as fault:
            self._break_off(fault)
            return False

    def _break_off(self, fault: Exception) -> StoreNotWritable:
        """End writing and return what to raise.

        Log and queues do not agree any more, and a record put behind that would take an offset that another one has.
        """
        why = str(fault) if isinstance(fault, DiskError) else f"{type(fault).__name__}: {fault}"
        self.stop(f"a write failed half-way: {why}. Open the store again to recover")
        log.error("the store takes no more messages", why=why)
        return StoreNotWritable(why)


def _take_base(record: Record) -> int:
    """Write its first offset into an inner batch, as INNER_BASE, and return how many messages it holds."""
    count = find_property(record.properties, b"INNER_NUM")
    number = whole_number(count, 1, MOST_INNER_MESSAGES)
    if number is None:
        raise StoreError(f"an inner batch needs the property INNER_NUM, from 1 to {MOST_INNER_MESSAGES}")
    base = b"%d" % record.queue_offset
    if find_property(record.properties, _INNER_BASE) != base:
        pairs = [
            pair for pair in record.properties.split(b"\x02") if pair and not pair.startswith(_INNER_BASE + b"\x01")
        ]
        record.properties = b"".join(pair + b"\x02" for pair in [*pairs, _INNER_BASE + b"\x01" + base])
    return number
