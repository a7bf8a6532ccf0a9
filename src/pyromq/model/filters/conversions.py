"""Texts to numbers as Java's Integer, Long and Double read them. What they refuse raises NotANumber."""

from __future__ import annotations

import re
import struct
from functools import lru_cache

INTEGER_RANGE = (-(1 << 31), (1 << 31) - 1)
LONG_RANGE = (-(1 << 63), (1 << 63) - 1)

_LONGEST = 19  # digits of a long
_WHOLE = re.compile(r"([+-]?)(\d+)")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NAMED = {"NaN": float("nan"), "Infinity": float("inf")}
_USUAL = 32  # characters: longer texts are read once and kept for the next test, which asks for the same one again
# Every script's zero among the characters that are one UTF-16 unit.
_ZEROS = (
    "\u0030\u0660\u06f0\u07c0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66\u0ce6\u0d66\u0de6\u0e50\u0ed0\u0f20"
    "\u1040\u1090\u17e0\u1810\u1946\u19d0\u1a80\u1a90\u1b50\u1bb0\u1c40\u1c50\ua620\ua8d0\ua900\ua9d0\ua9f0"
    "\uaa50\uabf0\uff10"
)
_BLANK = "".join(map(chr, range(0x21)))  # what Java's trim takes away


class EvaluationFault(Exception):
    """This message cannot be asked this: it does not match, whatever the operator says."""


class NotANumber(EvaluationFault):
    def __str__(self) -> str:
        return f"{self.args[0]!r} is no such number"


def to_integer(text: str) -> int:
    """Return what Java's Integer.valueOf gives."""
    if len(text) < 10 and text.isdigit() and text.isascii():
        return int(text)
    return _whole(text, INTEGER_RANGE)


def to_long(text: str) -> int:
    """Return what Java's Long.valueOf gives."""
    if len(text) < _LONGEST and text.isdigit() and text.isascii():
        return int(text)
    return _whole(text, LONG_RANGE)


def _whole(text: str, limits: tuple[int, int]) -> int:
    value = _any_whole(text) if len(text) <= _USUAL else _long_whole(text)
    if value is None or not limits[0] <= value <= limits[1]:
        raise NotANumber(text)
    return value


def _any_whole(text: str) -> int | None:
    """Return the number, None where there is none or it has more digits than a long."""
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    sign, digits = found.groups()
    digits = digits.lstrip(_ZEROS) or "0"
    if len(digits) > _LONGEST or max(digits) > "\uffff":  # Java looks at single UTF-16 units
        return None
    return int(sign + "".join(str(int(digit)) for digit in digits))  # digits of any script


_long_whole = lru_cache(64)(_any_whole)


def to_double(text: str) -> float:
    """Return what Java's Double.valueOf gives."""
    if len(text) > _USUAL:
        value = _long_double(text)
    elif text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    else:
        value = _any_double(text)
    if value is None:
        raise NotANumber(text)
    return value


def _any_double(text: str) -> float | None:
    text = text.strip(_BLANK)
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    found = _HEXADECIMAL.fullmatch(text)
    if found is not None:
        return _hexadecimal(found[1])
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned not in _NAMED:
        return None
    return -_NAMED[unsigned] if text[0] == "-" else _NAMED[unsigned]


_long_double = lru_cache(64)(_any_double)


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return float("-inf" if text[0] == "-" else "inf")


def compare_doubles(left: float, right: float) -> int:
    """Compare as Java's Double.compareTo does: NaN above everything and equal to itself, -0.0 below 0.0."""
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
