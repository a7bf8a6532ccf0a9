"""The bit positions that Java's broker keeps beside each filter in `consumerFilter.json`.

Java can write, for each message, a bit map of the groups whose filter matched; the positions say which bits are a
group's. We evaluate the expression itself, so that here they are only kept right for a Java broker that takes over.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


class Bloom(NamedTuple):
    """Sizes that follow from an error rate in percent and a number of groups, as Java computes them."""

    hashes: int
    bits: int

    @classmethod
    def sized(cls, error_percent: int, groups: int) -> Bloom:
        rate = error_percent / 100
        hashes = math.ceil(math.log(rate) / math.log(0.5))
        bits = math.ceil(groups * (math.log(1 / rate) / math.log(2)) * (math.log(math.e) / math.log(2)))
        return cls(hashes, 8 * math.ceil(bits / 8))

    def positions(self, name: str) -> list[int]:
        hashed = _murmur3_128_low(name.encode())
        first, second = hashed & 0xFFFFFFFF, hashed >> 32
        found = []
        for turn in range(1, self.hashes + 1):
            mixed = (first + turn * second) & 0xFFFFFFFF
            found.append((mixed ^ 0xFFFFFFFF if mixed >> 31 else mixed) % self.bits)
        return found


def _murmur3_128_low(data: bytes) -> int:
    """Return the lower 64 of MurmurHash3's 128 bits (x64 variant, seed 0), as an unsigned number."""
    one = two = 0
    whole = len(data) & ~15
    for at in range(0, whole, 16):
        one ^= _first(int.from_bytes(data[at : at + 8], "little"))
        one = (_rotated(one, 27) + two) * 5 + 0x52DCE729 & _MASK
        two ^= _second(int.from_bytes(data[at + 8 : at + 16], "little"))
        two = (_rotated(two, 31) + one) * 5 + 0x38495AB5 & _MASK
    two ^= _second(int.from_bytes(data[whole + 8 :], "little"))
    one ^= _first(int.from_bytes(data[whole : whole + 8], "little"))
    one ^= len(data)
    two ^= len(data)
    one = one + two & _MASK
    two = two + one & _MASK
    return _mixed(one) + _mixed(two) & _MASK


def _first(block: int) -> int:
    return _rotated(block * _C1 & _MASK, 31) * _C2 & _MASK


def _second(block: int) -> int:
    return _rotated(block * _C2 & _MASK, 33) * _C1 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _mixed(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
