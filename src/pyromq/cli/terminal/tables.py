"""Rows for people: columns in line, times and sizes in words. Pure, and light: it is loaded with every command.

Rows are what `--json` prints: plain values under camelCase names. A name says how people read it: `storedMs` is a time
under the heading `stored`, `diskBytes` a size, `upSeconds` a span.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from unicodedata import east_asian_width

from ...model.foreign_text import one_line

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
NOTHING = "-"

Row = Mapping[str, Any]


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table with one heading per name of the first row; numbers stand to the right."""
    if not rows:
        return
    names = list(rows[0])
    cells = [[shown(name, row.get(name)) for name in names] for row in rows]
    headings = [heading(name) for name in names]
    widths = [max(width(text) for text in column) for column in zip(headings, *cells, strict=True)]
    numeric = [all(type(row.get(name)) in (int, float) for row in rows) for name in names]
    for line in (headings, *cells):
        padded = (_pad(text, wide, right) for text, wide, right in zip(line, widths, numeric, strict=True))
        yield "  ".join(padded).rstrip()


def facts(pairs: Row) -> Iterator[str]:
    wide = max((width(heading(name)) for name in pairs), default=0)
    for name, value in pairs.items():
        yield f"{_pad(heading(name), wide, False)}  {shown(name, value)}".rstrip()


def heading(name: str) -> str:
    for unit in ("Ms", "Bytes", "Seconds"):
        if name != unit:
            name = name.removesuffix(unit)
    return _HUMP.sub(" ", name).lower() if _HUMP.search(name) else name


def shown(name: str, value: Any) -> str:
    if value is None or value == "" or value == []:
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
    return f"{value:.1f}" if isinstance(value, float) else str(value)


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


def width(text: str) -> int:
    """Return the columns on a terminal: Chinese letters take two."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(one) in "WF" else 1 for one in text)


def _pad(text: str, wide: int, right: bool) -> str:
    blank = " " * (wide - width(text))
    return blank + text if right else text + blank
