"""What a person decides about a store while no broker runs: each call takes the store's lock.

`store accept-loss`: a part of the log is gone for good, and the broker may start without it. What is missing is put
back as empty files: its records then count as damaged ones, which nobody is shown, while their positions and queue
offsets stay reserved. So no offset is given out twice, and everything else goes on. Files that are missing at the front
of the log count as expired.

`store quarantine`: no loop of the broker handles this record any more, or the next start puts it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from ...protocol.record import BLANK, BLANK_BYTES, FIXED_BYTES, Record, RecordError, decode_record
from ..config import StoreConfig
from ..errors import StoreError
from ..files.disk import Disk, make_folder_durably
from ..files.file_sequence import segment_name
from ..layout import COMMIT_LOG
from ..log.commit_log import CommitLog
from ..recovery.checkpoint import SyncedFile
from ..recovery.claim import claimed
from ..recovery.store_state import MissingRange, log_file_sizes, missing_log, read_store_state, refuse_other_sizes
from ..tables.json_tables import JsonTable
from ..tables.quarantine import BY_HAND, TABLE, Quarantine, QuarantinedRecord


def accept_loss(disk: Disk, config: StoreConfig, *, dry_run: bool = False) -> list[MissingRange]:
    """Put missing parts back as empty files, and return them. Blocking. Takes the store's lock."""
    with claimed(disk):
        state = read_store_state(disk)
        refuse_other_sizes(disk, config, state)
        missing = missing_log(disk, config, state)
        if missing and state.synced is not None and not dry_run:
            _put_back_empty(disk, config, missing, state.synced)
        return missing


def _put_back_empty(disk: Disk, config: StoreConfig, missing: list[MissingRange], synced: int) -> None:
    size = config.commit_log_file_bytes
    make_folder_durably(disk, COMMIT_LOG)
    last = (synced - 1) // size * size  # the file that is written next
    first = min((*log_file_sizes(disk, config), last))
    for one in missing:
        for base in range(max(one.start // size * size, first), one.end, size):
            _fill(disk, f"{COMMIT_LOG}/{segment_name(base)}", size, whole=base == last)
    disk.sync_folder(COMMIT_LOG)
    with closing(SyncedFile(disk)) as synced_file:
        synced_file.raise_start(first)


def _fill(disk: Disk, name: str, size: int, *, whole: bool) -> None:
    """Fill a file with zeroes up to its full length; without space reserved on disk where nothing will be written."""
    with closing(disk.open(name, create=True)) as file:
        if whole:
            file.allocate(0, size)
        else:
            file.truncate(size)
        file.sync()


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
    with claimed(disk):
        table = JsonTable(disk, TABLE)
        yield Quarantine(table, now_ms)
        table.save()


def _record_at(disk: Disk, config: StoreConfig, position: int) -> Record:
    log = CommitLog(disk, config)
    log.load()
    try:
        head = log.read(position, BLANK_BYTES)
        size = BLANK.unpack(head)[0] if len(head) == BLANK_BYTES else 0
        raw = log.read(position, size)
        if len(raw) < FIXED_BYTES:  # a size that no record has, or beyond the log's end
            raise RecordError("no record begins there")
        record = decode_record(raw)
    except RecordError as fault:
        raise StoreError(
            f"{disk.root}: no record can be read at {position}: {fault}. `pyromq store dump` shows where records start"
        ) from None
    finally:
        log.close()
    if record.physical_offset != position:
        raise StoreError(f"{disk.root}: what lies at {position} is a part of another record")
    return record
