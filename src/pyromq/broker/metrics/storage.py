"""The store and its disk: how full, how far behind, how old."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from ...config import Live
from ...metrics.families import Family, Merge
from ...model.topic import Perm
from ...store.files.disk import Disk
from ...store.log.retention import RetentionConfig
from ...store.message_store import MessageStore
from ..config import BrokerConfig
from .meter import Meter, by_label, with_unit

_LOCAL = {"storage_type": "local", "storage_medium": "disk"}


@dataclass(slots=True, eq=False, repr=False)
class StorageMetrics:
    """Event loop only."""

    meter: Meter
    live: Live[BrokerConfig]
    store: MessageStore
    disk: Disk
    now_ms: Callable[[], int]

    async def families(self) -> AsyncIterator[Family]:
        meter, log, usage = self.meter, self.store.commit_log, self.disk.usage()
        local = meter.labels.of(**_LOCAL)
        now_ms = self.now_ms()
        used = meter.gauge(
            "rocketmq_storage_size_bytes", "Used bytes of the file system of the store.", [(local, usage.used)]
        )
        yield with_unit(used, "bytes")
        behind = "Bytes of the log that are written and not synced."
        flushing = meter.gauge("rocketmq_storage_flush_behind_bytes", behind, [(local, self.store.unflushed)])
        yield with_unit(flushing, "bytes", "rocketmq_storage_flush_behind_bytes")
        text = "Bytes of the log that are in no queue yet; queues are written in the same call, so 0."
        dispatch = meter.gauge("rocketmq_storage_dispatch_behind_bytes", text, [(local, 0)])
        yield with_unit(dispatch, "bytes", "rocketmq_storage_dispatch_behind_bytes")
        first_ms = await self.store.ask(lambda: log.store_time_at(log.start))
        oldest_ms = None if first_ms is None or log.start == log.end else max(0, now_ms - first_ms)
        name = "rocketmq_storage_message_reserve_time_milliseconds"
        ages = [] if oldest_ms is None else [(local, oldest_ms)]
        yield with_unit(meter.gauge(name, "Age of the oldest message in the log.", [*ages], Merge.MOST), "milliseconds")
        if oldest_ms is not None:
            text = "Age of the oldest message in the log."
            yield with_unit(meter.gauge("pyromq_store_oldest_seconds", text, oldest_ms / 1000), "seconds")
        hours = self.live.config.part(RetentionConfig).file_reserved_hours
        text = "How long messages are to stay (fileReservedTime)."
        yield with_unit(meter.gauge("pyromq_retention_seconds", text, hours * 3_600), "seconds")
        text = "Where the log begins: more than 0 once old files were deleted."
        yield with_unit(meter.gauge("pyromq_log_start_bytes", text, log.start), "bytes")
        text = "Where the log ends; grows by what is stored."
        yield with_unit(meter.gauge("pyromq_log_end_bytes", text, log.end), "bytes")
        total = max(1, usage.total)
        yield meter.gauge("pyromq_disk_used_ratio", "Used share of the store's file system.", usage.used / total)
        text = "Free bytes of the store's file system."
        yield with_unit(meter.gauge("pyromq_disk_free_bytes", text, usage.total - usage.used), "bytes")
        text = "Bytes of the store, by kind: those of the log, which the queues only point into."
        kinds = by_label(meter, "kind", {"log": log.end - log.start})
        yield with_unit(meter.gauge("pyromq_store_bytes", text, kinds), "bytes")


@dataclass(slots=True, eq=False, repr=False)
class TableMetrics:
    """What this broker is allowed, and how large its tables are. Event loop only."""

    meter: Meter
    live: Live[BrokerConfig]
    topics: Callable[[], int]
    groups: Callable[[], int]

    async def families(self) -> AsyncIterator[Family]:
        meter, permission = self.meter, self.live.config.broker_permission & Perm.READ_WRITE
        yield meter.gauge("rocketmq_broker_permission", "brokerPermission: 2 to write, 4 to read.", permission & 6)
        yield meter.gauge("rocketmq_topic_number", "Topics, with the system's.", self.topics())
        yield meter.gauge("rocketmq_consumer_group_number", "Consumer groups, with the system's.", self.groups())
