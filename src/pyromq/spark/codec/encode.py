"""Arrow rows to messages: property strings and the entries of batch bodies, for a whole chunk at a time. No Spark.

Columns: body, topic, keys (text or list), tags, properties, queueId, brokerName, shardingKey, delayTimeLevel,
deliverTimestamp. protocol/batch.py and protocol/properties.py have the layouts; tests compare the bytes with theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import PyroError
from ...model.message import KEY_SEPARATOR, Property
from ...protocol.properties import MAX_PROPERTIES_BYTES

ENTRY_BYTES = 22  # of an entry, besides body and properties

# Of RocketMQ's own properties these are the sender's; all others are made anew by client and broker.
_SENDERS = {Property.KEYS, Property.TAGS, Property.SHARDING_KEY}
_OWN = pa.array(
    sorted(
        value
        for name, value in vars(Property).items()
        if not name.startswith("_") and isinstance(value, str) and value not in _SENDERS
    )
)


class BadRows(PyroError):
    """Rows that cannot be sent as they are. The text says which, why and what to do."""


def column(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array | None:
    """Return a column in the type that is needed; None if there is none, or nothing in it. BadRows for a value that
    this type cannot hold."""
    if name not in batch.schema.names:
        return None
    found = batch.column(name)
    if found.null_count == len(found):
        return None
    try:
        return found if found.type.equals(kind) else found.cast(kind)
    except pa.ArrowInvalid as fault:
        raise BadRows(f"column {name}: a value does not become {kind} ({fault})") from None


def bodies(batch: pa.RecordBatch) -> pa.Array:
    """Return the bodies. BadRows for one that is null or empty: brokers refuse those."""
    found = column(batch, "body", pa.binary())
    empty = None if found is None else pc.fill_null(pc.equal(pc.binary_length(found), 0), True)
    if found is None or pc.any(empty).as_py():
        row = 0 if empty is None else int(np.argmax(empty.to_numpy(zero_copy_only=False)))
        raise BadRows(
            f"row {row}: the body is null or empty, which brokers refuse; filter such rows, or give them a byte"
        )
    return found


def property_strings(batch: pa.RecordBatch, unique_ids: pa.Array) -> pa.Array:
    """Return each row's properties in their wire format. BadRows for one with a separator in it, or too many bytes."""
    count = batch.num_rows
    keys, tags = key_words(batch), column(batch, "tags", pa.string())
    sharding = column(batch, "shardingKey", pa.string())
    deliver = deliver_ms(batch)
    level = column(batch, "delayTimeLevel", pa.int64())
    given = {Property.KEYS: keys, Property.TAGS: tags, Property.SHARDING_KEY: sharding}
    parts, pairs = _map_strings(batch, {name: value for name, value in given.items() if value is not None})
    own = given | {
        Property.UNIQ_KEY: unique_ids,
        Property.WAIT: pa.repeat("true", count),
        Property.DELAY: None if level is None else pc.if_else(pc.greater(level, 0), level, None).cast(pa.string()),
        Property.TIMER_DELIVER_MS: None if deliver is None else deliver.cast(pa.string()),
    }
    strings = [parts]
    for name, value in own.items():
        if value is not None:
            filled = pc.if_else(pc.equal(pc.binary_length(value), 0), None, value)
            pairs = pairs + filled.is_valid().to_numpy(zero_copy_only=False)
            strings.append(pc.fill_null(pc.binary_join_element_wise(f"{name}\x01", filled, "\x02", ""), ""))
    joined = pc.binary_join_element_wise(*strings, "").cast(pa.binary())
    _check_strings(joined, pairs)
    return joined


def key_words(batch: pa.RecordBatch) -> pa.Array | None:
    if "keys" in batch.schema.names and pa.types.is_list(batch.column("keys").type):
        # Spark says of most lists that no element is null, and Arrow joins none of that type.
        lists = batch.column("keys").cast(pa.list_(pa.string()))
        if lists.flatten().null_count:  # joined with a null, all keys of the row would be gone
            rows = [None if row is None else [key for key in row if key is not None] for row in lists.to_pylist()]
            lists = pa.array(rows, lists.type)
        return pc.binary_join(lists, KEY_SEPARATOR)
    return column(batch, "keys", pa.string())


def deliver_ms(batch: pa.RecordBatch) -> pa.Array | None:
    """Return the delivery times in milliseconds since 1970; None if no row has one."""
    if "deliverTimestamp" in batch.schema.names and pa.types.is_timestamp(batch.column("deliverTimestamp").type):
        found = batch.column("deliverTimestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
        return None if found.null_count == len(found) else found
    return column(batch, "deliverTimestamp", pa.int64())


def _map_strings(batch: pa.RecordBatch, columns: dict[str, pa.Array]) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the map's own pairs as one string per row, and how many each row has. A column wins over the map."""
    count = batch.num_rows
    found = batch.column("properties") if "properties" in batch.schema.names else pa.nulls(count)
    # A map without a type is what Spark makes of `map()` and `map('a', null)`: it has nothing that could be sent.
    if pa.types.is_null(found.type) or pa.types.is_null(found.type.item_type):
        return pa.repeat("", count), np.zeros(count, np.int64)
    rows = found.take(pa.array(np.arange(count)))  # a slice would still show all children
    offsets = np.asarray(rows.offsets.to_numpy())
    names, values = rows.keys, rows.items
    parents = np.repeat(np.arange(count), np.diff(offsets))
    _refuse_transactions(names, values)
    kept = ~_true(pc.is_in(names, value_set=_OWN))
    kept &= _true(pc.greater(pc.binary_length(names), 0)) & _true(pc.greater(pc.binary_length(values), 0))
    for name, value in columns.items():
        overruled = value.is_valid().to_numpy(zero_copy_only=False)
        kept &= ~(_true(pc.equal(names, name)) & overruled[parents])
    pairs = pc.binary_join_element_wise(names.filter(pa.array(kept)), values.filter(pa.array(kept)), "\x01")
    ended = pc.binary_join_element_wise(pairs, "", "\x02")
    counts = np.bincount(parents[kept], minlength=count)
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(bounds), ended), ""), counts


def _true(found: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    return mask


def _refuse_transactions(names: pa.Array, values: pa.Array) -> None:
    if pc.any(pc.and_kleene(pc.equal(names, Property.TRAN_MSG), pc.equal(values, "true"))).as_py():
        raise BadRows(
            f"a row has the property {Property.TRAN_MSG}=true: Spark writes no transactional messages, since brokers "
            "ask the sender later how a transaction ended, and a task is gone by then. Remove the property: rows are "
            "sent as ordinary messages"
        )


def _check_strings(joined: pa.Array, pairs: npt.NDArray[np.int64]) -> None:
    """Raise BadRows unless each row holds the separators of its own pairs and no others."""
    _, offset_buffer, data = joined.buffers()
    if data is None:
        return
    offsets = np.frombuffer(offset_buffer, np.int32)[: len(joined) + 1]
    is_mark = (np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] - np.uint8(1)) < 2
    if np.count_nonzero(is_mark) != 2 * pairs.sum():  # no row has fewer than its own
        marks = np.diff(np.searchsorted(np.flatnonzero(is_mark), offsets - offsets[0]))
        row = int(np.argmax(marks != 2 * pairs))
        raise BadRows(f"row {row}: a property, key or tag holds 0x01 or 0x02, which separate properties; remove them")
    lengths = _lengths(joined)
    if len(lengths) and lengths.max() > MAX_PROPERTIES_BYTES:
        row = int(np.argmax(lengths))
        raise BadRows(f"row {row}: its properties take {lengths[row]} bytes, the limit is {MAX_PROPERTIES_BYTES}")


def batch_entries(body: pa.Array, properties: pa.Array, flags: npt.NDArray[np.int32] | None = None) -> pa.Array:
    """Return an entry per message, as protocol/batch.py writes it: joined they are the body of a batch request."""
    body_bytes = _lengths(body)
    property_bytes = _lengths(properties)
    heads = np.zeros((len(body), 5), ">i4")
    heads[:, 0] = ENTRY_BYTES + body_bytes + property_bytes
    heads[:, 3] = 0 if flags is None else flags
    heads[:, 4] = body_bytes
    return pc.binary_join_element_wise(
        _fixed(heads, 20), body, _fixed(property_bytes.astype(">i2"), 2), properties, pa.scalar(b"", pa.binary())
    )


def _lengths(values: pa.Array) -> npt.NDArray[np.int32]:
    lengths: npt.NDArray[np.int32] = pc.binary_length(values).to_numpy(zero_copy_only=False)
    return lengths


def _fixed(numbers: npt.NDArray[Any], width: int) -> pa.Array:
    raw = pa.py_buffer(np.ascontiguousarray(numbers).tobytes())
    return pa.Array.from_buffers(pa.binary(width), len(numbers), [None, raw]).cast(pa.binary())
