"""A message as it is put again: to its topic, to the topic where it waits on, or as a retry. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.message import Property
from ...model.wire_text import INT_MAX, whole_number
from ...protocol.record import Record


def copy_record(record: Record, properties: bytes, topic: str, queue_id: int, store_host: bytes) -> Record:
    """Return a copy of the message as a new record, with no place in the log yet."""
    return Record(
        topic=topic,
        queue_id=queue_id,
        body=record.body,
        properties=properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=store_host,
        reconsume_times=record.reconsume_times,
    )


def destination(pairs: Mapping[str, str]) -> tuple[str, int] | None:
    """Return topic and queue that a parked message belongs to; None if it does not say so."""
    topic, queue_id = pairs.get(Property.REAL_TOPIC, ""), whole_number(pairs.get(Property.REAL_QID), high=INT_MAX)
    return None if not topic or queue_id is None else (topic, queue_id)
