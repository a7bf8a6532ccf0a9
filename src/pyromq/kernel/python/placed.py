"""A record's place and what is derived from it: the one value that append, scan and dispatch exchange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...model.java_hash import java_hash
from ...model.message import MOST_INNER_MESSAGES, WRAPPED_BATCH, SysFlag
from ...model.names import SCHEDULE_TOPIC
from ...model.times import DelayLevels
from ...model.wire_text import INT_MAX, whole_number
from ...protocol.properties import find_property
from ...protocol.record import CRC_NAME, Record, encode_record, with_room_for_crc


class Placed(NamedTuple):
    """One record as queues, index and listeners see it. Derived from the record alone, whoever wrote it."""

    position: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_time: int
    tag_code: int
    properties: bytes
    messages: int  # in it: more than 1 for an inner batch

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def in_queue(self) -> bool:
        """Return whether it has a queue entry: prepared and rolled back transactions have none."""
        return self.sys_flag & SysFlag.TRANSACTION_MASK in (0, SysFlag.TRANSACTION_COMMIT)

    @property
    def is_inner_batch(self) -> bool:
        """Return whether only a batch queue can hold it, also where it has a single message."""
        return self.sys_flag & WRAPPED_BATCH == WRAPPED_BATCH

    @property
    def in_index(self) -> bool:
        return self.sys_flag & SysFlag.TRANSACTION_MASK != SysFlag.TRANSACTION_ROLLBACK


_hashes: dict[bytes, int] = {}  # tags repeat; bounded below


def tag_code(topic: str, properties: bytes, store_time: int, delays: DelayLevels) -> int:
    """Return a queue entry's third field: the hash of the tag, or when a delayed message is due."""
    if topic == SCHEDULE_TOPIC:
        level = whole_number(find_property(properties, b"DELAY"), high=INT_MAX)
        if level is not None and level > 0 and delays:
            return store_time + delays[min(level, max(delays))]
    tags = find_property(properties, b"TAGS")
    if tags is None:
        return 0
    code = _hashes.get(tags)
    if code is None:
        if len(_hashes) > 10_000:
            _hashes.clear()
        code = _hashes[tags] = java_hash(tags.decode("utf-8", "replace"))
    return code


def message_count(sys_flag: int, properties: bytes) -> int:
    """Return how many queue offsets the record takes."""
    if sys_flag & WRAPPED_BATCH != WRAPPED_BATCH:
        return 1
    return whole_number(find_property(properties, b"INNER_NUM"), 1, MOST_INNER_MESSAGES) or 1


def place_burst(
    records: Sequence[Record], position: int, store_time: int, delays: DelayLevels, with_crc: bool
) -> tuple[list[bytes], list[Placed]]:
    """Return bytes and places of records that stand one after another from `position` on.

    Changes the records' own fields.
    """
    buffers: list[bytes] = []
    places: list[Placed] = []
    for record in records:
        record.physical_offset = position
        record.store_timestamp = store_time
        if not with_crc and CRC_NAME in record.properties:
            record.properties = with_room_for_crc(record.properties)  # a sender's own: no reader would take the record
        raw = encode_record(record, with_crc=with_crc)
        size = len(raw)
        buffers.append(raw)
        properties = record.properties
        places.append(
            Placed(
                position,
                size,
                record.topic,
                record.queue_id,
                record.queue_offset,
                record.sys_flag,
                store_time,
                tag_code(record.topic, properties, store_time, delays),
                properties,
                message_count(record.sys_flag, properties),
            )
        )
        position += size
    return buffers, places
