"""`store dump`: the records of a log as JSON values, one a message, with the field names of the golden manifests."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import PyroError
from ...kernel.records import Placed, keys_of
from ...model.ids import host_text, offset_message_id
from ...protocol.compression import compression_of, decompress
from ...protocol.properties import decode_properties
from ...protocol.record import Record, decode_record
from ..config import StoreConfig
from ..files.disk import Disk
from ..files.read_only import read_only
from ..layout import BATCH_QUEUES
from ..log.log_walk import Gap, LogWalk, opened_log
from ..log.whole_crc import ranges_that_count
from ..recovery.store_state import read_store_state

_SHOWN_BODY = 256  # longer ones are shown by their hash
_PLAIN_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class DumpFilter:
    """Which records are wanted; what is None does not matter. Times are store times, `until_ms` not included."""

    topic: str | None = None
    queue_id: int | None = None
    key: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def wants(self, placed: Placed) -> bool:
        return (
            (self.topic is None or placed.topic == self.topic)
            and (self.queue_id is None or placed.queue_id == self.queue_id)
            and (self.since_ms is None or placed.store_time >= self.since_ms)
            and (self.until_ms is None or placed.store_time < self.until_ms)
            and (self.key is None or self.key in keys_of(placed.properties, with_tags=False))
        )


def dump_records(disk: Disk, config: StoreConfig, wanted: DumpFilter) -> Iterator[dict[str, Any]]:
    """Yield whole records in the log's order; damaged ranges as {"damaged": reason, "physicalOffset", "size"}."""
    source = read_only(disk)
    batch_topics = set(source.list(BATCH_QUEUES))
    whole_crc = ranges_that_count(source, config, read_store_state(source).ours)
    with opened_log(source, config) as log:
        walk = LogWalk(log, config.delay_levels, whole_crc=whole_crc)
        for found in walk:
            if isinstance(found, Placed):
                if wanted.wants(found):
                    record = decode_record(walk.raw(found), verify=False)
                    yield record_as_dict(record, None if found.topic in batch_topics else found.tag_code)
            elif isinstance(found, Gap):
                yield {"damaged": found.reason, "physicalOffset": found.position, "size": found.end - found.position}


def record_as_dict(record: Record, tags_code: int | None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "physicalOffset": record.physical_offset,
        "storeSize": record.size,
        "magic": f"0x{record.magic:08X}",
        "bodyCRC": record.body_crc,
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "bornTimestamp": record.born_timestamp,
        "bornHost": host_text(record.born_host),
        "storeTimestamp": record.store_timestamp,
        "storeHost": host_text(record.store_host),
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "bodyLength": len(record.body),
    }
    if len(record.body) <= _SHOWN_BODY:
        fields["body"] = base64.b64encode(record.body).decode()
    else:
        fields["bodySha256"] = hashlib.sha256(record.body).hexdigest()
    fields |= _plain_fields(record)
    fields["properties"] = decode_properties(record.properties)
    fields["offsetMsgId"] = offset_message_id(record.store_host, record.physical_offset)
    fields["tagsCode"] = tags_code
    return fields


def _plain_fields(record: Record) -> dict[str, Any]:
    """Return what a compressed body says once it is unpacked, or why it cannot be."""
    try:
        kind = compression_of(record.sys_flag)
        if kind is None:
            return {}
        plain = decompress(record.body, kind, _PLAIN_LIMIT)
    except PyroError as fault:
        return {"plainError": str(fault)}
    return {
        "compression": kind.name,
        "plainLength": len(plain),
        "plainSha256": hashlib.sha256(plain).hexdigest(),
    }
