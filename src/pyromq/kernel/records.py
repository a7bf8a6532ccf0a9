"""The record loops behind one interface: place records in a burst, scan a log, pick queue entries for a pull.

`store/` imports the functions from here and knows nothing of which implementation serves them. `PYROMQ_KERNEL=python`
or `native` forces one; without it the native one is taken where it was built. Both give the same bytes.
"""

from __future__ import annotations

from .choice import native
from .python.keys import KEY, PAGE_SLOTS, TAG_MARK, index_hash
from .python.keys import big_endian as _big_endian
from .python.keys import index_keys as _index_keys
from .python.placed import DelayLevels, Placed, parse_delay_levels, place_burst
from .python.pull import Picked, Range
from .python.pull import cut_sealed as _cut_sealed
from .python.pull import pick_entries as _pick_entries
from .python.scan import Fault, Scanned, check_at, is_intact, scan_records
from .python.scan import whole_places as _whole_places

__all__ = [
    "KEY",
    "PAGE_SLOTS",
    "TAG_MARK",
    "DelayLevels",
    "Fault",
    "Picked",
    "Placed",
    "Range",
    "Scanned",
    "big_endian",
    "check_at",
    "cut_sealed",
    "index_hash",
    "index_keys",
    "is_intact",
    "parse_delay_levels",
    "pick_entries",
    "place_burst",
    "scan_records",
    "whole_places",
]


_native = native()
big_endian = _big_endian if _native is None else _native.big_endian
cut_sealed = _cut_sealed if _native is None else _native.cut_sealed
pick_entries = _pick_entries if _native is None else _native.pick_entries
index_keys = _index_keys if _native is None else _native.index_keys
whole_places = _whole_places if _native is None else _native.whole_places
