"""Pulled bodies: concatenated records into messages, decompressed, inner batches unwrapped."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.message import WRAPPED_BATCH, StoredMessage
from .batch import decode_batch
from .compression import DEFAULT_PLAIN_LIMIT, compression_of, decompress
from .properties import decode_properties
from .record import Record, decode_record


def decode_messages(body: bytes | memoryview, *, plain_limit: int = DEFAULT_PLAIN_LIMIT) -> list[StoredMessage]:
    """All messages of a pull response. ProtocolError if one is damaged, cut, or too large once decompressed."""
    messages: list[StoredMessage] = []
    for record in decode_records(body):
        messages += unwrap(record, plain_limit)
    return messages


def decode_records(body: bytes | memoryview, *, verify: bool = True) -> Iterator[Record]:
    view = memoryview(body)
    at = 0
    while at < len(view):
        record = decode_record(view, at, verify=verify)
        yield record
        at += record.size


def unwrap(record: Record, plain_limit: int = DEFAULT_PLAIN_LIMIT) -> list[StoredMessage]:
    """The message of a record, or the messages of an inner batch."""
    kind = compression_of(record.sys_flag)
    plain = record.body if kind is None else decompress(record.body, kind, plain_limit)
    if record.sys_flag & WRAPPED_BATCH != WRAPPED_BATCH:
        return [_message(record, plain, record.flag, record.properties, 0)]
    return [
        _message(record, body, flag, properties, place)
        for place, (body, flag, properties) in enumerate(decode_batch(plain))
    ]


def _message(record: Record, body: bytes, flag: int, properties: bytes, place: int) -> StoredMessage:
    return StoredMessage(
        topic=record.topic,
        body=body,
        flag=flag,
        properties=decode_properties(properties),
        queue_id=record.queue_id,
        queue_offset=record.queue_offset + place,
        physical_offset=record.physical_offset,
        store_size=record.size,
        sys_flag=record.sys_flag,
        body_crc=record.body_crc,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_timestamp=record.store_timestamp,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
    )
