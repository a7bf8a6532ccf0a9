"""`store info`: what a store holds, read off names, small files and the ends of files; no walk over the records."""

from __future__ import annotations

from typing import Any

from ..config import StoreConfig
from ..files.disk import Disk, DiskError
from ..files.file_sequence import FileSequence, first_without, parse_queue_name
from ..files.open_files import OpenFiles
from ..files.read_only import read_only
from ..layout import BATCH_ENTRY, COMMIT_LOG, INDEX, QUEUE_ENTRY_BYTES
from ..recovery.checkpoint import read_checkpoint, read_synced, was_stopped_cleanly
from ..recovery.claim import LOCK_FILE, refuse_unknown_kinds
from ..tables.json_tables import TableDamaged, read_table, table_names


def store_info(disk: Disk, config: StoreConfig) -> dict[str, Any]:
    """Return what the store holds. Blocking, but quick. Raises UnknownStoreKind."""
    source = read_only(disk)
    refuse_unknown_kinds(source)
    files = OpenFiles(source, 64)
    log = FileSequence(source, files, COMMIT_LOG, config.commit_log_file_bytes)
    log.load()
    usage = source.usage()
    checkpoint = read_checkpoint(source)
    info: dict[str, Any] = {
        "path": source.root,
        "inUse": source.is_locked(LOCK_FILE),
        "stoppedCleanly": was_stopped_cleanly(source),
        "writtenByPyromq": source.is_folder("pyromq"),
        "commitLogFileBytes": config.commit_log_file_bytes,
        "queueFileBytes": config.queue_file_bytes,
        "commitLogFiles": len(log.bases),
        "commitLogStart": log.start,
        "commitLogRoomEnd": log.limit,
        "synced": read_synced(source),
        "checkpoint": {
            "logTimeMs": checkpoint.log_time_ms,
            "queuesTimeMs": checkpoint.queues_time_ms,
            "indexTimeMs": checkpoint.index_time_ms,
            "confirmed": checkpoint.confirmed,
            "queuesPosition": checkpoint.queues_position,
        },
        "indexFiles": len(source.list(INDEX)),
        "diskUsedRatio": usage.ratio,
        "tables": _tables(source),
        "queues": _queues(source, config, files),
    }
    files.close()
    return info


def _tables(disk: Disk) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in table_names(disk):
        try:
            content = read_table(disk, name, quiet=True).content
        except (TableDamaged, DiskError) as damage:
            found[name] = {"damaged": str(damage)}
            continue
        found[name] = {
            section: len(value)
            for section, value in content.items()
            if isinstance(value, dict | list) and section != "dataVersion"
        }
    return found


def _queues(disk: Disk, config: StoreConfig, files: OpenFiles) -> list[dict[str, Any]]:
    found = []
    for is_batch in (False, True):
        root, file_bytes, entry_bytes = config.queue_files(is_batch)
        for topic in disk.list(root):
            numbers = (parse_queue_name(name) for name in disk.list(f"{root}/{topic}"))
            for queue in sorted(number for number in numbers if number is not None):
                sequence = FileSequence(disk, files, f"{root}/{topic}/{queue}", file_bytes)
                sequence.load()
                end = _end_offset(sequence, entry_bytes)
                found.append({"kind": root, "topic": topic, "queueId": queue, "files": len(sequence.bases), "end": end})
    return found


def _end_offset(sequence: FileSequence, entry_bytes: int) -> int:
    """Return the queue's maximum offset: behind the last written entry, by halving the last file."""
    if not sequence.bases:
        return 0

    def is_written(number: int) -> bool:
        raw = sequence.read(number * entry_bytes, entry_bytes)
        return len(raw) == entry_bytes and any(raw[8:12])

    low = first_without(sequence.bases[-1] // entry_bytes, sequence.limit // entry_bytes, is_written)
    if entry_bytes == QUEUE_ENTRY_BYTES:
        return low
    raw = sequence.read((low - 1) * entry_bytes, entry_bytes) if low else b""
    if len(raw) < entry_bytes:
        return 0
    _, _, _, _, base, count, _, _ = BATCH_ENTRY.unpack(raw)
    return int(base + count)
