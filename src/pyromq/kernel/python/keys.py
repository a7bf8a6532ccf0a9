"""Index entries for keys that are hashed already: chained into the slot table, a run in one call."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache

from ...model.java_hash import java_hash
from .placed import Placed

PAGE_SLOTS = 1024  # slots of an index file that are noted as changed together
KEY = struct.Struct(">Iq")  # of a hashed key: hash, position of its record
KEY_BYTES = KEY.size
ENTRY = struct.Struct(">iqii")
TAG_MARK = "T#"  # a tag is indexed as `topic#T#tag`


@lru_cache(maxsize=4096)  # tags repeat
def index_hash(topic: str, key: str) -> int:
    """Return abs(String.hashCode) of `topic#key`, and 0 where Java's abs is negative."""
    value = abs(java_hash(f"{topic}#{key}"))
    return 0 if value == 1 << 31 else value


def chain_keys(
    keys: bytes,
    first: int,
    count: int,
    slots: array[int],
    dirty: bytearray,
    number: int,
    seconds: int,
    due: bytearray,
    saved: dict[int, bytes],
) -> tuple[bytes, int]:
    """Return entries for `count` keys from key `first` on, and how many slots had none before.

    `number` is that of the first entry. A byte of `dirty` and of `due` stands for a page of PAGE_SLOTS slots: a page
    that is due goes to `saved`, as the file has it, before it changes.
    """
    if not slots or min(len(dirty), len(due)) * PAGE_SLOTS < len(slots):
        raise ValueError("the pages do not cover the slots")
    entries: list[bytes] = []
    fresh = 0
    for key_hash, position in KEY.iter_unpack(keys[first * KEY.size : (first + count) * KEY.size]):
        slot = key_hash % len(slots)
        previous = slots[slot]
        entries.append(ENTRY.pack(key_hash, position, seconds, previous))
        fresh += not previous
        page = slot // PAGE_SLOTS
        if due[page]:
            saved[page] = big_endian(slots, page * PAGE_SLOTS, (page + 1) * PAGE_SLOTS)
            due[page] = 0
        slots[slot] = number
        dirty[page] = 1
        number += 1
    return b"".join(entries), fresh


def position_of(keys: bytes, number: int) -> int:
    """Return where the record starts that a hashed key leads to."""
    position: int = KEY.unpack_from(keys, number * KEY.size)[1]
    return position


def index_keys(places: Sequence[Placed], covered: int, with_tags: bool) -> bytes | None:
    """Return keys of records behind `covered`, hashed and ready for `chain_keys`.

    None: the caller hashes them one by one, as always here, since Python gains nothing by it.
    """
    return None


def big_endian(slots: array[int], first: int, until: int) -> bytes:
    """Return a stretch of the slot table as it stands in the file."""
    part = slots[first:until]
    if sys.byteorder == "little":
        part.byteswap()
    return part.tobytes()
