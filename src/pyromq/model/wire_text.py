"""Numbers in text that came from elsewhere: header fields, properties, bodies, names of files.

This is the only place that turns such text into a number (`tests/house/test_wire_text.py` looks for others). Python's
own `int` takes digits of every script, underscores and blanks, and raises above 4,300 digits; `isdigit` calls `²` a
digit. Here a number is ASCII, short and within a range, or it is none. Pure, never raises.
"""

from __future__ import annotations

import re
from math import isfinite

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

_LONGEST = 24  # characters: a sign, the 19 digits of a long, and a few leading zeros


def whole_number(text: str | bytes | None, low: int = 0, high: int = LONG_MAX) -> int | None:
    """Return the number that the text spells in ASCII digits, with a sign at most; None if it is none in this range."""
    if text is None or len(text) > _LONGEST or not text.isascii():
        return None
    # Digits are ASCII's alone by now. Most numbers have no sign, and a pull reads one for each of its records.
    if not text.isdigit() and not (text[:1] in _SIGNS and text[1:].isdigit()):
        return None
    number = int(text)
    return number if low <= number <= high else None


def decimal_number(text: str | None) -> float | None:
    """Return the number that the text spells as Java writes a double; None if it is none, or not finite."""
    if text is None or not 0 < len(text) <= _LONGEST_DECIMAL or _DECIMAL.fullmatch(text) is None:
        return None
    number = float(text)
    return number if isfinite(number) else None


_LONGEST_DECIMAL = 64
_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?")
_SIGNS = frozenset(("+", "-", b"+", b"-"))
