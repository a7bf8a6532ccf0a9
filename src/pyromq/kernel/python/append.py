"""Records that already know their queue offsets get their place in the log and become bytes, a burst in one pass."""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.record import CRC_NAME, Record, encode_record, with_room_for_crc
from .placed import DelayLevels, Placed, message_count, tag_code


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
