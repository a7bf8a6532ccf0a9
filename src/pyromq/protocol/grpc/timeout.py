"""`grpc-timeout`: how long the caller waits, as at most eight digits and a unit."""

from __future__ import annotations

import math

from ...model.wire_text import whole_number

_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_MOST, _LONGEST = 99_999_999, 9


def parse_timeout(text: str) -> float:
    """Return the seconds. ValueError says what is wrong with it."""
    amount, unit = whole_number(text[:-1], high=_MOST), _UNITS.get(text[-1:])
    if amount is None or unit is None or len(text) > _LONGEST or text[0] in "+-":
        raise ValueError(f"grpc-timeout {text[:32]!r} is not up to 8 digits and one of H, M, S, m, u, n")
    return amount * unit


def format_timeout(seconds: float) -> str:
    """Return the header's text for so many seconds, rounded up to the finest unit that fits."""
    for unit in "numSM":
        amount = max(0, math.ceil(seconds / _UNITS[unit]))
        if amount <= _MOST:
            return f"{amount}{unit}"
    return f"{min(math.ceil(seconds / 3600), _MOST)}H"
