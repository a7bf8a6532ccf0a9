"""Property strings of many records at once, as columns. The rules are those of protocol/properties.py.

Ordinary strings (`name 0x01 value 0x02` repeated, no name twice) are cut by their marks, all rows together. Where one
row of a chunk is odd, the plain decoder does that chunk: every rule then holds because it is the same code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...protocol.properties import decode_properties
from .vectors import spans

_NAME_END, _PAIR_END = 1, 2
_MOST_BITS = 64


class PropertyTable(NamedTuple):
    """All pairs of all rows one after the other; row i has those from `offsets[i]` to `offsets[i + 1]`."""

    names: pa.Array
    values: pa.Array
    offsets: npt.NDArray[np.int32]
    codes: npt.NDArray[np.int32]  # of each pair's name: its place in `known`
    known: list[str]

    def as_map(self) -> pa.Array:
        return pa.MapArray.from_arrays(pa.array(self.offsets), self.names, self.values)

    def column(self, name: str) -> pa.Array:
        """Return one property's value per row, null where there is none."""
        count = len(self.offsets) - 1
        if name not in self.known:
            return pa.nulls(count, pa.string())
        pairs = np.flatnonzero(self.codes == self.known.index(name))
        rows = np.searchsorted(self.offsets, pairs, side="right") - 1
        chosen = np.full(count, -1, np.int64)
        chosen[rows] = pairs
        return self.values.take(pa.array(chosen, mask=chosen < 0))


def parse_properties(raw: pa.Array) -> PropertyTable:
    """Parse the property strings of a chunk, a binary array without nulls."""
    return _by_separators(raw) or _one_by_one(raw)


def _one_by_one(raw: pa.Array) -> PropertyTable:
    names: list[str] = []
    values: list[str] = []
    offsets = [0]
    for row in map(decode_properties, raw.to_pylist()):
        names += row.keys()
        values += row.values()
        offsets.append(len(names))
    return _table(pa.array(names, pa.string()), pa.array(values, pa.string()), np.array(offsets, np.int32))


def _by_separators(raw: pa.Array) -> PropertyTable | None:
    """Cut all rows by their separators; None if a row is not ordinary."""
    _, offset_buffer, data = raw.buffers()
    bounds = np.frombuffer(offset_buffer, np.int32)[raw.offset : raw.offset + len(raw) + 1].astype(np.int64)
    if data is None or bounds[0] == bounds[-1]:
        return _table(pa.array([], pa.string()), pa.array([], pa.string()), np.zeros(len(raw) + 1, np.int32))
    octets = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    bounds -= bounds[0]
    marks = np.flatnonzero((octets - np.uint8(1)) < 2)  # 0x01 and 0x02: 0 wraps to 255
    name_ends, pair_ends = marks[0::2], marks[1::2]
    if not _is_ordinary(octets, bounds, name_ends, pair_ends):
        return None
    begins = np.empty_like(name_ends)
    begins[0] = 0
    begins[1:] = pair_ends[:-1] + 1
    if (name_ends <= begins).any() or (pair_ends <= name_ends + 1).any() or not _is_utf8(octets):
        return None
    table = _table(
        spans(octets, begins, name_ends, pa.string()),
        spans(octets, name_ends + 1, pair_ends, pa.string()),
        np.searchsorted(pair_ends, bounds).astype(np.int32),
    )
    return None if _has_twins(table) else table


def _is_ordinary(octets: Any, bounds: Any, name_ends: Any, pair_ends: Any) -> bool:
    """Return whether separators alternate, and every row that is not empty ends with the end of a pair."""
    if len(name_ends) != len(pair_ends) or not len(name_ends):
        return False
    filled = bounds[1:] > bounds[:-1]
    return bool(
        (octets[name_ends] == _NAME_END).all()
        and (octets[pair_ends] == _PAIR_END).all()
        and (octets[bounds[1:][filled] - 1] == _PAIR_END).all()
    )


def _is_utf8(octets: npt.NDArray[np.uint8]) -> bool:
    if octets.max() < 128:
        return True
    try:
        octets.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def _has_twins(table: PropertyTable) -> bool:
    """Return whether a row has a name twice: the last one would win, and a map may not hold both."""
    counts = np.diff(table.offsets)
    filled = counts > 0
    if len(table.known) > _MOST_BITS:
        rows = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        return len(np.unique(rows * len(table.known) + table.codes)) < len(table.codes)
    bits = np.left_shift(np.uint64(1), table.codes.astype(np.uint64))
    seen = np.bitwise_or.reduceat(bits, table.offsets[:-1][filled])
    return bool((np.bitwise_count(seen) != counts[filled]).any())


def _table(names: pa.Array, values: pa.Array, offsets: npt.NDArray[np.int32]) -> PropertyTable:
    encoded = names.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return PropertyTable(names, values, offsets, codes, encoded.dictionary.to_pylist())
