"""Arrow columns around the buffers that the native kernel cuts out of records. Columns that it leaves out are not here.

`columns.py` asks first here, and makes what is missing with numpy: everything, where there is no native kernel.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa

from ...kernel.records import cut_columns
from ...model.ids import host_text
from ..schema import COLUMNS, MAP, timestamps
from .records import Records


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
