"""Records to Arrow: the columns of the data source, made for a whole chunk at a time, and only those asked for.

No Spark here. The readers come here by way of `batches.py`, which sees to inner batches and bad records. Columns come
from the native kernel where it serves, and are made with numpy otherwise. Compressed bodies are unpacked one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...errors import ProtocolError
from ...kernel.records import cut_columns
from ...model.ids import HOST_V4_BYTES, HOST_V6_BYTES, host_text
from ...model.message import Property, SysFlag
from ...protocol.compression import compression_of, decompress
from ..schema import COLUMNS, MAP, as_type, check_columns, timestamps
from .property_json import as_json
from .property_table import PropertyTable, parse_properties
from .records import BORN_HOST, BORN_TIME, FLAG, PHYSICAL_OFFSET, QUEUE_ID, QUEUE_OFFSET, Records
from .vectors import Positions, fixed_text, gather_bytes, hex_digits, replaced, spans


def decode_records(
    records: Records, schema: pa.Schema, broker_name: str | None = None, plain: Sequence[bytes | None] | None = None
) -> pa.RecordBatch:
    """Return the messages of records that hold no inner batch, in their order.

    ProtocolError if one is malformed or cannot be decompressed. `plain` has the bodies of those that are compressed
    where they were decompressed before, None for a null.
    """
    check_columns(schema.names)
    columns = _Columns(records, broker_name, plain)
    is_raw = "properties" in schema.names and pa.types.is_binary(schema.field("properties").type)
    ready = native_columns(records, [name for name in schema.names if name != "properties" or not is_raw])
    if is_raw:
        ready["properties"] = columns.raw_properties
    elif "properties" in schema.names and pa.types.is_string(schema.field("properties").type):
        ready["properties"] = as_json(ready["properties"] if "properties" in ready else columns.properties.as_map())
    if "body" in ready:
        ready["body"] = columns.unpacked(ready["body"])
    arrays = [
        as_type(ready[field.name] if field.name in ready else _MAKERS[field.name](columns), field, columns.place)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def runs(flags: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = [0, *(np.flatnonzero(np.diff(flags)) + 1).tolist(), len(flags)]
    return list(pairwise(edges))


def unpacked_body(records: Records, row: int) -> bytes:
    """Return the plain body of a record that is compressed. ProtocolError, CompressionMissing."""
    sys_flag = int(records.sys_flag[row])
    kind = compression_of(sys_flag)
    if kind is None:
        raise ProtocolError(f"sysFlag {sys_flag:#x} says that the body is plain")
    return decompress(bytes(memoryview(records.buffer)[int(records.body_at[row]) : int(records.body_end[row])]), kind)


@dataclass(eq=False, repr=False)
class _Columns:
    """One chunk; what several columns need is made once."""

    records: Records
    broker_name: str | None
    plain: Sequence[bytes | None] | None

    @cached_property
    def raw_properties(self) -> pa.Array:
        records = self.records
        return spans(records.buffer, records.properties_at, records.end, pa.binary())

    @cached_property
    def properties(self) -> PropertyTable:
        return parse_properties(self.raw_properties)

    def place(self, row: int) -> str:
        at = self.records.at[row : row + 1]
        offset, queue = int(self.records.int64(at + QUEUE_OFFSET)[0]), int(self.records.int32(at + QUEUE_ID)[0])
        return f"the message at offset {offset} of queue {queue} of {self.topic()[row]}"

    def body(self) -> pa.Array:
        records = self.records
        return self.unpacked(spans(records.buffer, records.body_at, records.body_end, pa.binary()))

    def unpacked(self, bodies: pa.Array) -> pa.Array:
        packed = np.flatnonzero(self.records.sys_flag & SysFlag.COMPRESSED)
        if not len(packed):
            return bodies
        plain = self.plain
        if plain is None:
            plain = [unpacked_body(self.records, row) for row in packed.tolist()]
        return replaced(bodies, packed, pa.array(plain, pa.binary()))

    def topic(self) -> pa.Array:
        records = self.records
        topics = spans(records.buffer, records.topic_at, records.topic_end, pa.binary())
        known = topics.dictionary_encode()  # a handful of names, so each is checked once
        try:
            names = pa.array([each.as_py().decode() for each in known.dictionary], pa.string())
        except UnicodeDecodeError as fault:
            raise ProtocolError(f"a topic is not UTF-8: {fault}") from None
        return names.take(known.indices)

    def message_id(self) -> pa.Array:
        unique = self.properties.column(Property.UNIQ_KEY)
        missing = np.flatnonzero(unique.is_null().to_numpy(zero_copy_only=False))
        return replaced(unique, missing, self._offset_ids(missing)) if len(missing) else unique

    def _offset_ids(self, rows: Positions) -> pa.Array:
        records = self.records
        places = gather_bytes(records.buffer, records.at[rows] + PHYSICAL_OFFSET, 8)
        v6 = records.store_v6[rows]
        texts = pa.nulls(len(rows), pa.string())
        for is_v6, width in ((False, HOST_V4_BYTES), (True, HOST_V6_BYTES)):
            chosen = np.flatnonzero(v6 == is_v6)
            if len(chosen):
                hosts = gather_bytes(records.buffer, records.store_host_at[rows][chosen], width)
                texts = replaced(texts, chosen, fixed_text(hex_digits(np.hstack([hosts, places[chosen]]))))
        return texts

    def host(self, at: Positions, v6: npt.NDArray[np.bool_]) -> pa.Array:
        ends = at + np.where(v6, HOST_V6_BYTES, HOST_V4_BYTES)
        known = spans(self.records.buffer, at, ends, pa.binary()).dictionary_encode()
        return pa.array([host_text(each.as_py()) for each in known.dictionary], pa.string()).take(known.indices)


_MAKERS: dict[str, Callable[[_Columns], pa.Array]] = {
    "topic": _Columns.topic,
    "brokerName": lambda of: pa.repeat(pa.scalar(of.broker_name, pa.string()), len(of.records)),
    "queueId": lambda of: pa.array(of.records.int32(of.records.at + QUEUE_ID)),
    "queueOffset": lambda of: pa.array(of.records.int64(of.records.at + QUEUE_OFFSET)),
    "msgId": _Columns.message_id,
    "keys": lambda of: of.properties.column(Property.KEYS),
    "tags": lambda of: of.properties.column(Property.TAGS),
    "body": _Columns.body,
    "properties": lambda of: of.properties.as_map(),
    "flag": lambda of: pa.array(of.records.int32(of.records.at + FLAG)),
    "sysFlag": lambda of: pa.array(of.records.sys_flag),
    "bornTimestamp": lambda of: timestamps(of.records.int64(of.records.at + BORN_TIME)),
    "bornHost": lambda of: of.host(of.records.at + BORN_HOST, of.records.born_v6),
    "storeTimestamp": lambda of: timestamps(of.records.int64(of.records.store_time_at)),
    "storeHost": lambda of: of.host(of.records.store_host_at, of.records.store_v6),
    "reconsumeTimes": lambda of: pa.array(of.records.int32(of.records.middle_at)),
    "commitLogOffset": lambda of: pa.array(of.records.int64(of.records.at + PHYSICAL_OFFSET)),
    "storeSize": lambda of: pa.array(of.records.size),
}


def native_columns(records: Records, names: Collection[str]) -> dict[str, pa.Array]:
    """Return those of the named columns that could be cut; none if a record is malformed."""
    if cut_columns is None or not len(records):
        return {}
    at = np.ascontiguousarray(records.at, np.int64)
    found = cut_columns(records.buffer, at, names, host_text) or {}
    return {name: _array(name, parts, len(records)) for name, parts in found.items()}


def _array(name: str, parts: Any, count: int) -> pa.Array:
    kind = COLUMNS[name][0]
    if pa.types.is_timestamp(kind):
        return timestamps(np.frombuffer(parts, np.int64))
    if name == "properties":
        rows, left, right = parts
        pairs = pa.array(np.frombuffer(rows, np.int32))
        return pa.MapArray.from_arrays(pairs, _texts(MAP.key_type, left), _texts(MAP.item_type, right))
    if isinstance(parts, tuple):
        return _texts(kind, parts)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(parts)])


def _texts(kind: pa.DataType, parts: tuple[int, int, bytes | None, bytes, bytes, int]) -> pa.Array:
    """Return the array of a text column, whose buffers are larger than what is used of them."""
    rows, nulls, valid, offsets, data, used = parts
    mask = None if valid is None else pa.py_buffer(valid)
    whole = [mask, pa.py_buffer(offsets).slice(0, 4 * (rows + 1)), pa.py_buffer(data).slice(0, used)]
    return pa.Array.from_buffers(kind, rows, whole, nulls)
