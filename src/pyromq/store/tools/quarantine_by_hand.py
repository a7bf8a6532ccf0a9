"""`pyromq store quarantine`: a person quarantines a record, or releases it. Offline: both take the store's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...protocol.record import BLANK, BLANK_BYTES, Record, RecordError, decode_record
from ..config import StoreConfig
from ..errors import StoreError
from ..files.disk import Disk
from ..log.commit_log import CommitLog
from ..recovery.claim import claim_store
from ..recovery.quarantine import BY_HAND, TABLE, Quarantine, QuarantinedRecord
from ..tables.json_tables import JsonTable


def quarantine_by_hand(disk: Disk, config: StoreConfig, position: int, now_ms: Callable[[], int]) -> QuarantinedRecord:
    """Keep every loop of a broker from handling the record at this position. Raises StoreError if there is none."""
    with _opened(disk, now_ms) as quarantine:
        record = _record_at(disk, config, position)
        noted = QuarantinedRecord(
            position=position,
            size=record.size,
            topic=record.topic,
            queue_id=record.queue_id,
            loop=BY_HAND,
            reason="wanted by its owner",
            time_ms=now_ms(),
        )
        quarantine.note(noted)
        return noted


def release_by_hand(disk: Disk, position: int, now_ms: Callable[[], int]) -> QuarantinedRecord:
    """Let the next start put the record to the end of its queue. Raises StoreError if it is not quarantined."""
    with _opened(disk, now_ms) as quarantine:
        found = quarantine.release(position)
        if found is None:
            raise StoreError(
                f"{disk.root}: no record at {position} is put aside; `pyromq store quarantine {disk.root}` lists them"
            )
        return found


@contextmanager
def _opened(disk: Disk, now_ms: Callable[[], int]) -> Iterator[Quarantine]:
    lock = claim_store(disk)
    try:
        table = JsonTable(disk, TABLE)
        yield Quarantine(table, now_ms)
        table.save()
    finally:
        lock.release()


def _record_at(disk: Disk, config: StoreConfig, position: int) -> Record:
    log = CommitLog(disk, config)
    log.load()
    try:
        head = log.read(position, BLANK_BYTES)
        size = BLANK.unpack(head)[0] if len(head) == BLANK_BYTES else 0
        record = decode_record(log.read(position, size))
    except RecordError as fault:
        raise StoreError(
            f"{disk.root}: no record can be read at {position}: {fault}. `pyromq store dump` shows where records start"
        ) from None
    finally:
        log.close()
    if record.physical_offset != position:
        raise StoreError(f"{disk.root}: what lies at {position} is a part of another record")
    return record
