"""Chunks of a table: which one a row is in, its checksum, and what of a table a task reads. Pure.

A checksum is the number of rows and the sum of their hashes, so it does not depend on the order in which they are read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from ...cdc.key_ranges import KeyRange

_WRAP = 1 << 64
_HASHED = 64  # chunks of a table whose keys are no whole numbers


class ComparedRow(NamedTuple):
    """A row of either side, as the sink keeps it. `key` is its key in one text, `first` the key's first value.

    A column that is NULL and one that is absent are alike: both are left out. `others` are columns that only the sink
    has.
    """

    key: str
    first: Any
    values: Mapping[str, Any]
    others: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """Return the columns as JSON, the same for the same values."""
        return msgspec.json.encode(self.values, enc_hook=str, order="sorted").decode()


class Checksum(NamedTuple):
    rows: int = 0
    total: int = 0

    def plus(self, row_hash: int) -> Checksum:
        return Checksum(self.rows + 1, (self.total + row_hash) % _WRAP)

    def merged(self, other: Checksum) -> Checksum:
        return Checksum(self.rows + other.rows, (self.total + other.total) % _WRAP)


class TaskPart(NamedTuple):
    """What one task reads: ranges of keys, and of them one share of so many where a side has no ranges."""

    ranges: tuple[KeyRange, ...]
    share: int = 0
    shares: int = 1


@dataclass(frozen=True, slots=True)
class Chunks:
    """`bounds`: where ranges of the key's first column begin, from the second on. None: keys go by their hash."""

    bounds: tuple[int, ...] | None

    @property
    def count(self) -> int:
        return _HASHED if self.bounds is None else len(self.bounds) + 1

    def of(self, row: ComparedRow) -> int:
        """Return the number of the chunk that the row is in."""
        if self.bounds is None:
            return crc32(row.key.encode("utf-8", "replace")) % _HASHED
        return bisect_right(self.bounds, row.first) if isinstance(row.first, int) else 0

    def pieces(self, wanted: Sequence[int], tasks: int, *, has_ranges: bool, has_shares: bool) -> list[TaskPart]:
        """Return what each task of a side reads, so that together they read the wanted chunks."""
        ranges = self._ranges(wanted)
        if not has_ranges or ranges is None:
            whole = tuple(ranges or [KeyRange()])
            return [TaskPart(whole, share, tasks) for share in range(tasks)] if has_shares else [TaskPart(whole)]
        size = -(-len(ranges) // tasks)
        return [TaskPart(tuple(_joined(ranges[begin : begin + size]))) for begin in range(0, len(ranges), size)]

    def _ranges(self, wanted: Sequence[int]) -> list[KeyRange] | None:
        if self.bounds is None:
            return None
        ends = (None, *self.bounds, None)
        return [KeyRange(ends[chunk], ends[chunk + 1]) for chunk in sorted(wanted)]


def _joined(ranges: Iterable[KeyRange]) -> list[KeyRange]:
    """Return the ranges with neighbours as one."""
    found: list[KeyRange] = []
    for each in ranges:
        if found and found[-1].high is not None and found[-1].high == each.low:
            found[-1] = KeyRange(found[-1].low, each.high)
        else:
            found.append(each)
    return found


def hash_of(text: str) -> int:
    """Return 64 bits of a row's columns."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def key_text(values: Mapping[str, Any]) -> str:
    """Return a key as people write it: the value alone of a key of one column, else JSON."""
    if len(values) == 1:
        value = next(iter(values.values()))
        return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    return msgspec.json.encode(values, enc_hook=str).decode()


def compared(
    key: Mapping[str, Any], first: str, row: Mapping[str, Any], names: Iterable[str], own: Iterable[str] = ()
) -> ComparedRow:
    """Return a row of a sink, or one as it should be there: `names` are compared, `own` are the sink's own columns."""
    wanted = frozenset(names)
    values = {name: value for name, value in row.items() if value is not None and name in wanted}
    others = (name for name, value in row.items() if value is not None and name not in wanted and name not in own)
    return ComparedRow(key_text(key), key.get(first), values, frozenset(others))
