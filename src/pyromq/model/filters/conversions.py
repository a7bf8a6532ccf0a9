"""Texts to numbers as Java's Integer, Long and Double read them. What they refuse raises NotANumber."""

from __future__ import annotations

import re
import struct

INTEGER_RANGE = (-(1 << 31), (1 << 31) - 1)
LONG_RANGE = (-(1 << 63), (1 << 63) - 1)

_LONGEST = 19  # digits of a long
_WHOLE = re.compile(r"([+-]?)(\d+)")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NAMED = {"NaN": float("nan"), "Infinity": float("inf")}
_BLANK = "".join(map(chr, range(0x21)))  # what Java's trim takes away


class EvaluationFault(Exception):
    """This message cannot be asked this: it does not match, whatever the operator says."""


class NotANumber(EvaluationFault):
    """A text that does not say a number of the wanted kind."""

    def __str__(self) -> str:
        return f"{self.args[0]!r} is no such number"


def to_integer(text: str) -> int:
    """Java's Integer.valueOf."""
    if text.isdigit() and text.isascii() and len(text) < 10:
        return int(text)
    return _whole(text, INTEGER_RANGE)


def to_long(text: str) -> int:
    """Java's Long.valueOf."""
    if text.isdigit() and text.isascii() and len(text) < _LONGEST:
        return int(text)
    return _whole(text, LONG_RANGE)


def _whole(text: str, limits: tuple[int, int]) -> int:
    found = _WHOLE.fullmatch(text)
    if found is None or any(ord(digit) > 0xFFFF for digit in found[2]):  # Java looks at single UTF-16 units
        raise NotANumber(text)
    sign, digits = found.groups()
    digits = "".join(str(int(digit)) for digit in digits).lstrip("0") or "0"  # digits of any script
    if len(digits) > _LONGEST:
        raise NotANumber(text)
    value = int(sign + digits)
    if not limits[0] <= value <= limits[1]:
        raise NotANumber(text)
    return value


def to_double(text: str) -> float:
    """Java's Double.valueOf."""
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    text = text.strip(_BLANK)
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    found = _HEXADECIMAL.fullmatch(text)
    if found is not None:
        return _hexadecimal(found[1])
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned not in _NAMED:
        raise NotANumber(text)
    return -_NAMED[unsigned] if text[0] == "-" else _NAMED[unsigned]


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return float("-inf" if text[0] == "-" else "inf")


def compare_doubles(left: float, right: float) -> int:
    """Java's Double.compareTo: NaN above everything and equal to itself, -0.0 below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    one, other = _order(left), _order(right)
    return (one > other) - (one < other)


def _order(value: float) -> int:
    if value != value:
        return 0x7FF8 << 48
    return int(struct.unpack(">q", struct.pack(">d", value))[0])
