"""Java's String.hashCode: tag codes, index slots and timer units are made of it."""

from __future__ import annotations

import sys
from operator import mul

_MASK = 0xFFFFFFFF
_NATIVE_UTF16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_BLOCK = 1024  # units that are summed up at once: a text of megabytes leaves nothing behind
_POWERS = [pow(31, power, 1 << 32) for power in range(_BLOCK + 1)]


def unsigned_hash(text: str) -> int:
    """Return h = 31 * h + unit over the UTF-16 units, as an unsigned 32-bit number."""
    if text.isascii():
        units: bytes | memoryview = text.encode("ascii")
    else:
        units = memoryview(text.encode(_NATIVE_UTF16, "surrogatepass")).cast("H")
    total = 0
    for at in range(0, len(units), _BLOCK):
        block = units[at : at + _BLOCK]
        # The last unit of a block has power 0; map ends with the shorter.
        total = (total * _POWERS[len(block)] + sum(map(mul, block[::-1], _POWERS))) & _MASK
    return total


def java_hash(text: str) -> int:
    """Return the hash as Java sees it: signed 32 bits."""
    value = unsigned_hash(text)
    return value - (1 << 32) if value >> 31 else value
