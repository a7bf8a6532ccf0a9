"""Java's String.hashCode: tag codes, index slots and timer units are made of it."""

from __future__ import annotations

import sys
from operator import mul

_MASK = 0xFFFFFFFF
_NATIVE_UTF16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_POWERS = [1]  # 31^0, 31^1 ... modulo 2^32, as many as the longest text so far needed


def unsigned_hash(text: str) -> int:
    """h = 31 * h + unit over the UTF-16 units, as an unsigned 32-bit number."""
    if text.isascii():
        units: bytes | memoryview = text.encode("ascii")
    else:
        units = memoryview(text.encode(_NATIVE_UTF16, "surrogatepass")).cast("H")
    while len(_POWERS) < len(units):
        _POWERS.append(_POWERS[-1] * 31 & _MASK)
    total: int = sum(map(mul, units[::-1], _POWERS))  # the last unit has power 0; map ends with the shorter
    return total & _MASK


def java_hash(text: str) -> int:
    """As Java sees it: signed 32 bits."""
    value = unsigned_hash(text)
    return value - (1 << 32) if value >> 31 else value
