"""Index entries for keys that are hashed already: chained into the slot table, a run in one call."""

from __future__ import annotations

import struct
import sys
from array import array

from ..appends import PAGE_SLOTS

KEY = struct.Struct(">Iq")
ENTRY = struct.Struct(">iqii")


def chain_keys(
    keys: bytes, first: int, count: int, slots: array[int], dirty: bytearray, number: int, seconds: int
) -> tuple[bytes, int]:
    """Entries for `count` keys from key `first` on, and how many slots had none before.

    `number` is that of the first entry. A byte of `dirty` stands for a page of PAGE_SLOTS slots.
    """
    if first < 0 or count < 0 or (first + count) * KEY.size > len(keys):
        raise ValueError(f"{count} keys from {first} on are more than there are")
    if not slots or len(dirty) * PAGE_SLOTS < len(slots):
        raise ValueError("the pages do not cover the slots")
    entries: list[bytes] = []
    fresh = 0
    for key_hash, position in KEY.iter_unpack(keys[first * KEY.size : (first + count) * KEY.size]):
        slot = key_hash % len(slots)
        previous = slots[slot]
        entries.append(ENTRY.pack(key_hash, position, seconds, previous))
        fresh += not previous
        slots[slot] = number
        dirty[slot // PAGE_SLOTS] = 1
        number += 1
    return b"".join(entries), fresh


def big_endian(slots: array[int], first: int, until: int) -> bytes:
    """A stretch of the slot table as it stands in the file."""
    part = slots[first:until]
    if sys.byteorder == "little":
        part.byteswap()
    return part.tobytes()
