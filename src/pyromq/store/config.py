"""The store's settings, with RocketMQ's key names and defaults. Validated before anything opens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from ..config.settings import check_ranges, option
from ..errors import ConfigError
from ..kernel.records import DelayLevels, parse_delay_levels
from .layout import BATCH_ENTRY_BYTES, BATCH_QUEUES, QUEUE_ENTRY_BYTES, QUEUES

_SIZES = {  # what decides names and layout of files, by Java key
    "mappedFileSizeCommitLog": "commit_log_file_bytes",
    "mappedFileSizeConsumeQueue": "queue_file_bytes",
    "mapperFileSizeBatchConsumeQueue": "batch_queue_file_bytes",
    "maxHashSlotNum": "index_slots",
    "maxIndexNum": "index_entries",
}


class FlushMode(Enum):
    """When a reply may leave: once the bytes are in the page cache, or once they are on the medium."""

    ASYNC = "ASYNC_FLUSH"
    SYNC = "SYNC_FLUSH"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Sizes decide names and offsets of files: a store must be opened with those that it was written with."""

    commit_log_file_bytes: int = option(
        1 << 30, java="mappedFileSizeCommitLog", low=4096, high=1 << 40, help="bytes of a commit log file"
    )
    queue_file_bytes: int = option(
        300_000 * 20, java="mappedFileSizeConsumeQueue", low=20, help="bytes of a consume queue file, 20 an entry"
    )
    batch_queue_file_bytes: int = option(
        300_000 * 46, java="mapperFileSizeBatchConsumeQueue", low=46, help="bytes of a batch queue file, 46 an entry"
    )
    index_slots: int = option(5_000_000, java="maxHashSlotNum", low=1, high=1 << 30, help="hash slots of an index file")
    index_entries: int = option(
        20_000_000,
        java="maxIndexNum",
        low=2,
        high=(1 << 31) - 1,
        help="entries of an index file; the first is not used",
    )
    index_enabled: bool = option(True, java="messageIndexEnable", help="write the index by key")
    index_tags: bool = option(True, help="index the tag too, as 5.5 does and older brokers do not")
    whole_record_crc: bool = option(
        True, java="enabledAppendPropCRC", help="append a CRC over the whole record; Java's covers the body alone"
    )
    max_message_bytes: int = option(4 << 20, java="maxMessageSize", low=1, help="largest body of a message or batch")
    message_delay_level: str = option(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", help="delays of the levels 1, 2 ..."
    )
    flush_mode: FlushMode = option(FlushMode.ASYNC, java="flushDiskType", help="SYNC_FLUSH replies after the sync")
    flush_interval_ms: int = option(
        500, java="flushIntervalCommitLog", low=1, help="time between two flushes of the log"
    )
    flush_least_pages: int = option(
        4, java="flushCommitLogLeastPages", low=0, help="dirty 4 KiB pages below which a flush of the log waits"
    )
    flush_thorough_ms: int = option(
        10_000,
        java="flushCommitLogThoroughInterval",
        low=1,
        help="after this time the log is flushed whatever is dirty",
    )
    queue_flush_interval_ms: int = option(
        1_000, java="flushIntervalConsumeQueue", low=1, help="time between two flushes of queues, index and checkpoint"
    )
    allocation_step_bytes: int = option(
        4096, low=4096, help="room on disk that a queue or index file begins with; it doubles ahead of the writes"
    )
    max_open_queue_files: int = option(1_024, low=8, help="queue and index files held open at a time")

    def __post_init__(self) -> None:
        check_ranges(self)
        for name, value, entry in (
            ("mappedFileSizeConsumeQueue", self.queue_file_bytes, QUEUE_ENTRY_BYTES),
            ("mapperFileSizeBatchConsumeQueue", self.batch_queue_file_bytes, BATCH_ENTRY_BYTES),
        ):
            if value % entry:
                raise ConfigError(f"{name} = {value}: must be a multiple of {entry}, say {value // entry * entry}")
        parse_delay_levels(self.message_delay_level)

    @property
    def file_sizes(self) -> dict[str, int]:
        """Return the settings that decide names and layout of files, by Java key."""
        return {java: getattr(self, name) for java, name in _SIZES.items()}

    def with_file_sizes(self, sizes: Mapping[str, int]) -> StoreConfig:
        """Return the configuration with these sizes, named as in `file_sizes`; what is missing stays as it is."""
        changed: dict[str, Any] = {name: sizes[java] for java, name in _SIZES.items() if java in sizes}
        return replace(self, **changed)

    def queue_files(self, is_batch: bool) -> tuple[str, int, int]:
        """Return where queues of this kind lie, and the bytes of their files and entries."""
        if is_batch:
            return BATCH_QUEUES, self.batch_queue_file_bytes, BATCH_ENTRY_BYTES
        return QUEUES, self.queue_file_bytes, QUEUE_ENTRY_BYTES

    @property
    def delay_levels(self) -> DelayLevels:
        return parse_delay_levels(self.message_delay_level)
