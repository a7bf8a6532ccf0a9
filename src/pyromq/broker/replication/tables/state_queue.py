"""The queue of `rmq_sys_PYROMQ_STATE` in the log: its records by offset, and from which one on they make the tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ....model.names import STATE_TOPIC
from ....protocol.record import RecordError, decode_record
from ....protocol.replication.table_records import TableRecord, TableRecordRefused, decode
from ....store.files.disk import DiskError
from ....store.layout import QueueEntry
from ....store.message_store import MessageStore
from .carried import CARRIED


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StateQueue:
    """Reads block unless they are awaited. They see what is in the log, readable or not."""

    store: MessageStore

    @property
    def start(self) -> int:
        queue = self.store.queues.get(STATE_TOPIC, 0)
        return 0 if queue is None else queue.min_offset

    @property
    def end(self) -> int:
        """Return the offset behind the last record of the log, readable or not."""
        queue = self.store.queues.get(STATE_TOPIC, 0)
        return 0 if queue is None else queue.next_offset

    def entry(self, offset: int) -> QueueEntry | None:
        queue = self.store.queues.get(STATE_TOPIC, 0)
        return None if queue is None or not self.start <= offset < self.end else queue.entry_at(offset)

    def position_of(self, offset: int) -> int:
        """Return where a record lies in the log; 0: it is not there."""
        entry = self.entry(offset)
        return 0 if entry is None else entry.position

    def end_before(self, position: int) -> int:
        """Return the offset behind the last record that ends at or before a position of the log."""
        offset = self.end
        while offset > self.start:
            entry = self.entry(offset - 1)
            if entry is not None and entry.position + entry.size <= position:
                break
            offset -= 1
        return offset

    def read(self, offset: int) -> TableRecord:
        """Return a record. TableRecordRefused: it is none that can be taken, and says which."""
        entry = self.entry(offset)
        if entry is None:
            raise TableRecordRefused(f"record {offset} of {STATE_TOPIC} is not in its queue")
        try:
            record = decode_record(self.store.commit_log.read(entry.position, entry.size))
            return decode(record.body, CARRIED)
        except (RecordError, DiskError, TableRecordRefused) as fault:
            raise TableRecordRefused(f"record {offset} of {STATE_TOPIC}, at {entry.position}: {fault}") from None

    async def fetch(self, offset: int) -> TableRecord:
        """Return a record, as `read` does, without blocking the event loop."""
        return await self.store.ask(partial(self.read, offset))

    def snapshot_before(self, end: int) -> int | None:
        """Return where the newest whole snapshot begins before an offset; None: the log has none."""
        if end <= self.start:
            return None
        begun = self.read(end - 1).snapshot
        return begun if self.start <= begun < end else None
