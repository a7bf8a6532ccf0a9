"""A chunk of records as Arrow batches: bad records go their way, and no batch holds more plain bytes than Arrow and the
task can bear.

The readers of queues and of store files call `decode_batches`. Columns are made by `columns.py`; a chunk that it cannot
make is read again here, record by record, by the plain decoder, whichever kernel serves. No Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ...errors import ProtocolError
from ...model.message import WRAPPED_BATCH, StoredMessage, SysFlag
from ...protocol.messages import UnreadableMessage, read_record
from ..schema import COLUMNS, as_type, timestamps
from .bad_records import BadRecords
from .columns import decode_records, runs, unpacked_body
from .property_json import in_form
from .records import Records

PLAIN_BYTES = 64 << 20  # of one batch, once its bodies are decompressed; one more body may come on top


def decode_batches(
    records: Records, schema: pa.Schema, broker_name: str | None, bad: BadRecords
) -> Iterator[pa.RecordBatch]:
    """Yield all messages of the records, in their order. BadRecord, CompressionMissing."""
    if not len(records):
        return
    wrapped = (records.sys_flag & WRAPPED_BATCH) == WRAPPED_BATCH
    for begin, end in runs(wrapped):
        part = records.slice(begin, end)
        made = _one_by_one if wrapped[begin] else _as_columns
        yield from made(part, schema, broker_name, bad)


def _as_columns(
    records: Records, schema: pa.Schema, broker_name: str | None, bad: BadRecords
) -> Iterator[pa.RecordBatch]:
    packed = np.flatnonzero(records.sys_flag & SysFlag.COMPRESSED).tolist() if "body" in schema.names else []
    try:
        if packed:
            records.check_layout()
        made = None if packed else decode_records(records, schema, broker_name)
    except ProtocolError:
        yield from _one_by_one(records, schema, broker_name, bad)
        return
    if made is not None:
        yield made
        return
    for part, plain in _affordable(records, packed, bad):
        try:
            batch = decode_records(part, schema, broker_name, plain)
        except ProtocolError:  # a topic that is no text; bad bodies beside it are told of once more
            yield from _one_by_one(part, schema, broker_name, bad)
        else:
            yield batch


def _affordable(records: Records, packed: list[int], bad: BadRecords) -> Iterator[tuple[Records, list[bytes | None]]]:
    """Yield parts of the records, each with the plain bodies of its compressed ones; None for a bad one."""
    begin, held = 0, 0
    plain: list[bytes | None] = []
    dropped: list[int] = []
    for row in packed:
        try:
            body = unpacked_body(records, row)
        except ProtocolError:
            if bad.is_kept(_unreadable(records, row)):
                plain.append(None)
            else:
                dropped.append(row)
            continue
        plain.append(body)
        held += len(body)
        if held >= PLAIN_BYTES:
            yield _without(records, begin, row + 1, dropped), plain
            begin, held, plain, dropped = row + 1, 0, [], []
    yield _without(records, begin, len(records), dropped), plain


def _without(records: Records, begin: int, end: int, dropped: list[int]) -> Records:
    places = np.arange(begin, end)
    return Records(records.buffer, records.at[np.setdiff1d(places, dropped) if dropped else places])


def _one_by_one(
    records: Records, schema: pa.Schema, broker_name: str | None, bad: BadRecords
) -> Iterator[pa.RecordBatch]:
    messages: list[StoredMessage] = []
    held = 0
    for row in range(len(records)):
        for message in read_record(_raw(records, row), verify=False, with_body="body" in schema.names):
            if isinstance(message, UnreadableMessage) and not bad.is_kept(message):
                continue
            messages.append(message)
            held += len(message.body)
        if held >= PLAIN_BYTES:
            yield messages_to_batch(messages, schema, broker_name)
            messages, held = [], 0
    yield messages_to_batch(messages, schema, broker_name)


def _unreadable(records: Records, row: int) -> UnreadableMessage:
    (found,) = read_record(_raw(records, row), verify=False)
    assert isinstance(found, UnreadableMessage)  # its body could not be unpacked a moment ago
    return found


def _raw(records: Records, row: int) -> bytes:
    at = int(records.at[row])
    return bytes(memoryview(records.buffer)[at : at + int(records.size[row])])


def messages_to_batch(messages: Sequence[StoredMessage], schema: pa.Schema, broker_name: str | None) -> pa.RecordBatch:
    """Return the messages made one by one: the slow way, and the oracle of tests. An unreadable one has no body."""
    arrays = []
    for field in schema:
        kind, _, value = COLUMNS[field.name]
        values = [broker_name if field.name == "brokerName" else value(each) for each in messages]
        if field.name == "properties":
            kind, values = field.type, [in_form(each.properties, field.type) for each in messages]
        array = timestamps(np.array(values, np.int64)) if pa.types.is_timestamp(kind) else pa.array(values, kind)
        arrays.append(as_type(array, field, lambda row: _place(messages[row])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _place(message: StoredMessage) -> str:
    return f"the message at offset {message.queue_offset} of queue {message.queue_id} of {message.topic}"
