"""The record loops behind one interface: place records in a burst, scan a log, pick entries for a pull, make columns.

`store/` and `spark/` import the functions from here and know nothing of which implementation serves them. Both give
the same bytes. `PYROMQ_KERNEL=python` or `native` forces one; without it the native one is taken where it was built.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.times import DelayLevels, parse_delay_levels
from .choice import native
from .python import keys, pull, scan
from .python.keys import KEY, PAGE_SLOTS, TAG_MARK, index_hash, keys_of
from .python.placed import Placed, place_burst
from .python.pull import Picked, Range
from .python.scan import Fault, check_at, is_intact

__all__ = [
    "KEY",
    "PAGE_SLOTS",
    "TAG_MARK",
    "DelayLevels",
    "Fault",
    "Picked",
    "Placed",
    "Range",
    "batch_records",
    "big_endian",
    "check_at",
    "count_messages",
    "cut_columns",
    "cut_sealed",
    "index_hash",
    "index_keys",
    "is_intact",
    "keys_of",
    "named_batch",
    "parse_delay_levels",
    "pick_entries",
    "place_burst",
    "walk_log",
    "walk_records",
    "whole_places",
]

_native = native()
big_endian = keys.big_endian if _native is None else _native.big_endian
cut_sealed = pull.cut_sealed if _native is None else _native.cut_sealed
pick_entries = pull.pick_entries if _native is None else _native.pick_entries
whole_places = scan.whole_places if _native is None else _native.whole_places
walk_log = scan.walk_log if _native is None else _native.walk_log
cut_columns = None if _native is None else _native.cut_columns  # None: spark/ makes columns with numpy
# Of batch bodies. None: they are decoded message by message, as are those in which the native ones find anything odd.
batch_records = None if _native is None else _native.batch_records
count_messages = None if _native is None else _native.count_messages
named_batch = None if _native is None else _native.named_batch


def index_keys(places: Sequence[Placed], covered: int, with_tags: bool) -> bytes:
    """Return the keys of records behind `covered`, hashed, in order of position."""
    hashed: bytes | None = None if _native is None else _native.index_keys(places, covered, with_tags)
    return keys.index_keys(places, covered, with_tags) if hashed is None else hashed


def walk_records(buffer: bytes | memoryview) -> bytes:
    """Return where each record of a pulled body begins, 8 bytes each. RecordError says why it cannot be walked."""
    walked: bytes | None = None if _native is None else _native.walk_records(buffer)
    return scan.walk_records(buffer) if walked is None else walked
