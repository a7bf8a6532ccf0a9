"""Putting records: queue offsets are given out, room is made, then log, queues and index are written in one call.

Everything that may be refused (too large, disk full) is refused before the first byte. An error after that leaves
bytes that nobody knows of, so it ends writing until the store is opened again; reads go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import logs
from ...kernel.appends import KEY_BYTES, Burst
from ...kernel.records import Placed
from ...model.message import WRAPPED_BATCH, Property, SysFlag
from ...model.wire_text import whole_number
from ...protocol.batch import BatchEntry, decode_batch
from ...protocol.properties import find_property
from ...protocol.record import Record
from ..config import StoreConfig
from ..errors import RecordTooLarge, StoreError, StoreNotWritable
from ..files.disk import DiskError
from ..index.key_index import Index
from ..layout import QUEUE_ENTRY_BYTES
from ..queues.batch_queue import BatchQueue
from ..queues.queue import StoredQueue
from ..queues.queue_table import QueueTable
from .commit_log import CommitLog
from .dispatch import RecordDispatcher
from .readable import Readable

log = logs.get("pyromq.store")

_INDEX_ENTRIES_GUESS = 8  # entries that a record needs room for when its keys are not counted
_INNER_BASE = Property.INNER_BASE.encode()


class Writer:
    """The one writer. Event loop only."""

    def __init__(
        self,
        config: StoreConfig,
        commit_log: CommitLog,
        queues: QueueTable,
        index: Index | None,
        readable: Readable,
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._dispatcher = RecordDispatcher(queues, index)
        self._readable = readable
        self._now_ms = now_ms
        self.stopped: str | None = None

    @property
    def is_writable(self) -> bool:
        return self.stopped is None

    def stop(self, reason: str) -> None:
        """No more writing. The first reason is kept."""
        if self.stopped is None:
            self.stopped = reason

    def put(self, records: Sequence[Record], *, together: bool = False) -> list[Placed]:
        """Append a burst. Raises RecordTooLarge, DiskFull (nothing written) or StoreNotWritable. Anything else that is
        raised is a record that cannot be encoded: nothing is written then either."""
        if self.stopped is not None:
            raise StoreNotWritable(f"the store takes no more messages: {self.stopped}")
        queues = self._assign(records)
        self._reserve(records, queues)
        try:
            places = self._log.append(records, self._now_ms(), together=together)
        except StoreError:
            raise
        except Exception as fault:
            if self._log.untouched:
                raise  # the next file could not be made: a full disk recovers by itself
            raise self.broken(fault) from fault
        try:
            self._dispatcher.dispatch(places)
        except Exception as fault:
            raise self.broken(fault) from fault
        self._readable.appended([queue.tail for queue, _ in queues.values()], self._log.end)
        return places

    def put_batch(self, batch: Record, entries: Sequence[BatchEntry] | None = None) -> list[Placed]:
        """A batch body (request 320) as records of its own: same queue, times and hosts, one file.

        `entries` are stored in place of the body, where that was decoded before.
        """
        self._check_body(batch)
        if entries is None:
            entries = decode_batch(batch.body)
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

    def put_encoded(self, burst: Burst) -> None:
        """What a kernel made of plain sends: the same steps, on bytes. Raises what `put` raises."""
        if self.stopped is not None:
            raise StoreNotWritable(f"the store takes no more messages: {self.stopped}")
        for queue, entries in burst.queues:
            queue.reserve(len(entries) // QUEUE_ENTRY_BYTES)
        if self._index is not None:
            self._index.reserve(len(burst.keys) // KEY_BYTES)
        try:
            self._log.append_encoded(burst.records, burst.last_position, burst.store_time)
            for queue, entries in burst.queues:
                queue.accept_encoded(entries)
            if self._index is not None:
                self._index.accept_encoded(burst.keys, burst.store_time)
        except Exception as fault:
            if self._log.untouched:
                raise
            raise self.broken(fault) from fault
        self._readable.appended([queue.tail for queue, _ in burst.queues], self._log.end)

    # -- before the first byte ----------------------------------------------------------------------------------------

    def _assign(self, records: Sequence[Record]) -> dict[tuple[str, int], tuple[StoredQueue, int]]:
        """Queue offsets, counted on within the burst. Returns each queue with its number of entries."""
        used: dict[tuple[str, int], tuple[StoredQueue, int]] = {}
        offsets: dict[tuple[str, int], int] = {}
        for record in records:
            self._check_body(record)
            if record.sys_flag & SysFlag.TRANSACTION_MASK not in (0, SysFlag.TRANSACTION_COMMIT):
                record.queue_offset = 0  # prepared or rolled back: in the log alone
                continue
            key = (record.topic, record.queue_id)
            wrapped = record.sys_flag & WRAPPED_BATCH == WRAPPED_BATCH
            if key not in used:
                queue = self._queues.get_or_make(*key, holds_batch=wrapped)
                if wrapped and not isinstance(queue, BatchQueue):
                    raise StoreError(
                        f"topic {record.topic} holds single messages: an inner batch needs queue.type=BatchCQ"
                    )
                used[key] = (queue, 0)
                offsets[key] = queue.next_offset
            queue, entries = used[key]
            used[key] = (queue, entries + 1)
            record.queue_offset = offsets[key]
            offsets[key] += _take_base(record) if wrapped else 1
        return used

    def _check_body(self, record: Record) -> None:
        if len(record.body) > self._config.max_message_bytes:
            raise RecordTooLarge(
                f"the body has {len(record.body)} bytes, maxMessageSize is {self._config.max_message_bytes}"
            )

    def _reserve(self, records: Sequence[Record], queues: dict[tuple[str, int], tuple[StoredQueue, int]]) -> None:
        for queue, entries in queues.values():
            queue.reserve(entries)
        if self._index is not None:
            keys = sum(record.properties.count(b" ") for record in records)
            self._index.reserve(len(records) * _INDEX_ENTRIES_GUESS + keys)

    def broken(self, fault: Exception) -> StoreNotWritable:
        """Log and queues do not agree any more, whatever the reason: a record put behind that would take an offset
        that another one has."""
        told = str(fault) if isinstance(fault, DiskError) else f"{type(fault).__name__}: {fault}"
        self.stop(f"a write failed half-way: {told}. Open the store again to recover")
        log.error("the store takes no more messages", why=told)
        return StoreNotWritable(told)


def _take_base(record: Record) -> int:
    """An inner batch carries its own first offset in INNER_BASE; returns how many messages it holds."""
    count = find_property(record.properties, b"INNER_NUM")
    number = whole_number(count, 1, (1 << 15) - 1)
    if number is None:
        raise StoreError("an inner batch needs the property INNER_NUM, from 1 to 32767")
    base = b"%d" % record.queue_offset
    if find_property(record.properties, _INNER_BASE) != base:
        pairs = [
            pair for pair in record.properties.split(b"\x02") if pair and not pair.startswith(_INNER_BASE + b"\x01")
        ]
        record.properties = b"".join(pair + b"\x02" for pair in [*pairs, _INNER_BASE + b"\x01" + base])
    return number
