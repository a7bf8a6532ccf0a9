"""Values as people read them: times and sizes in words.

A name says how: `storedMs` is a time under the heading `stored`, `diskBytes` a size, `upSeconds` a span.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..model.foreign_text import one_line

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
NOTHING = "-"


def plural(count: int, noun: str) -> str:
    """Return the number with its noun: 1 message, 2 messages."""
    return f"{count} {noun}{'s' * (count != 1)}"


def heading(name: str) -> str:
    for unit in ("Ms", "Bytes", "Seconds"):
        if name != unit:
            name = name.removesuffix(unit)
    return one_line(_HUMP.sub(" ", name).lower() if _HUMP.search(name) else name)


def shown(name: str, value: Any) -> str:
    if value is None or value in ("", [], {}):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return one_line(", ".join(map(str, value)))
    if isinstance(value, Mapping):
        return one_line(", ".join(f"{key}={one}" for key, one in value.items()))
    if isinstance(value, int | float):
        return _number(name, value)
    return one_line(str(value))


def _number(name: str, value: float) -> str:
    if name.endswith("Ms"):
        return moment(int(value)) if value > 0 else NOTHING
    if name.endswith("Bytes"):
        return size(value)
    if name.endswith("Seconds"):
        return span(value)
    if not isinstance(value, float):
        return str(value)
    hundredths = f"{value:.2f}"  # of small figures, such as a ratio; rates move all the time
    is_short = name.lower().endswith("persecond") or abs(value) >= 10 or hundredths.endswith("0")
    return f"{value:.1f}" if is_short else hundredths


def moment(ms: int) -> str:
    """Return the local time; words where the calendar ends: a retention set for ever leads past it."""
    try:
        return datetime.fromtimestamp(ms / 1000).isoformat(sep=" ", timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return "after 9999" if ms > 0 else "before the year 1"


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def span(seconds: float) -> str:
    """Return `71 h 59 min`, `3 min 20 s` or `1.5 s`."""
    if seconds >= 3600:
        return f"{int(seconds) // 3600} h {int(seconds) % 3600 // 60} min"
    if seconds >= 60:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    return f"{seconds:.1f} s" if isinstance(seconds, float) else f"{seconds} s"
