"""The keys of records as the index has them: which, hashed how, and the slot table's bytes."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache

from ...model.java_hash import java_hash
from ...protocol.properties import find_property
from .placed import Placed

PAGE_SLOTS = 1024  # slots of an index file that are noted as changed together
KEY = struct.Struct(">Iq")  # of a hashed key: hash, position of its record
KEY_BYTES = KEY.size
TAG_MARK = "T#"  # a tag is indexed as `topic#T#tag`


@lru_cache(maxsize=4096)  # tags repeat
def index_hash(topic: str, key: str) -> int:
    """Return abs(String.hashCode) of `topic#key`, and 0 where Java's abs is negative."""
    value = abs(java_hash(f"{topic}#{key}"))
    return 0 if value == 1 << 31 else value


def keys_of(properties: bytes, with_tags: bool) -> list[str]:
    """Return what a record is found by, in the order in which Java puts it: unique key, keys, tag."""
    unique, words, tag = (find_property(properties, name) or b"" for name in (b"UNIQ_KEY", b"KEYS", b"TAGS"))
    keys = [word.decode("utf-8", "replace") for word in (unique, *words.split(b" ")) if word]
    return [*keys, TAG_MARK + tag.decode("utf-8", "replace")] if with_tags and tag else keys


def index_keys(places: Sequence[Placed], covered: int, with_tags: bool) -> bytes:
    """Return the keys of records behind `covered`, hashed, in order of position."""
    return b"".join(
        KEY.pack(index_hash(placed.topic, key), placed.position)
        for placed in places
        if placed.position > covered and placed.in_index
        for key in keys_of(placed.properties, with_tags)
    )


def big_endian(slots: array[int], first: int, until: int) -> bytes:
    """Return a stretch of the slot table as it stands in the file."""
    part = slots[first:until]
    if sys.byteorder == "little":
        part.byteswap()
    return part.tobytes()
