"""Rows for people: columns in line, times and sizes in words. Pure, and light: it is loaded with every command.

Rows are what `--json` prints: plain values under camelCase names. A name says how people read it: `storedMs` is a time
under the heading `stored`, `diskBytes` a size, `upSeconds` a span.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from unicodedata import east_asian_width

from ...model.foreign_text import one_line
from .colour import BAD, DIM, GOOD, WARN, Painted, Piece, wrapped

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
NOTHING = "-"

Row = Mapping[str, Any]


# What a value means, by its name. What is left out is neither good nor bad.
_MEANINGS: dict[str, Callable[[Any], str]] = {
    "lag": lambda lag: WARN if lag else GOOD,
    "ok": lambda is_ok: GOOD if is_ok else BAD,
    "answers": lambda is_there: GOOD if is_there else BAD,
    "diskPercent": lambda used: BAD if used >= 90 else WARN if used >= 75 else GOOD,
    "leftSeconds": lambda left: WARN if left < 24 * 3600 else "",
    "moreConsumers": lambda more: WARN if more else "",
    "skipped": lambda count: BAD if count else "",
    "conflicts": lambda count: BAD if count else "",
    "away": lambda count: BAD if count else "",
    "isBeyondEnd": lambda is_beyond: BAD if is_beyond else "",
}


def lines(rows: Sequence[Row], columns: int | None = None) -> Iterator[str]:
    """Yield a table with one heading per name of the first row; numbers stand to the right.

    One that is wider than `columns` becomes a list: a row is a block of lines, one for each name.
    """
    if not rows:
        return
    table = list(_table(rows))
    if columns is None or max(map(width, table)) <= columns:
        yield from table
        return
    for number, row in enumerate(rows):
        yield from ([""] if number else [])
        yield from facts(row, columns)


def indented(rows: Sequence[Row], columns: int | None = None) -> Iterator[str]:
    """Yield the table below a title."""
    for line in lines(rows, None if columns is None else columns - 2):
        yield line.after("  ") if isinstance(line, Painted) else f"  {line}".rstrip()


def _table(rows: Sequence[Row]) -> Iterator[Painted]:
    names = list(rows[0])
    cells = [[shown(name, row.get(name)) for name in names] for row in rows]
    headings = [heading(name) for name in names]
    widths = [max(width(text) for text in column) for column in zip(headings, *cells, strict=True)]
    numeric = [all(type(row.get(name)) in (int, float) for row in rows) for name in names]
    for number, line in enumerate((headings, *cells)):
        padded = [_pad(text, wide, right) for text, wide, right in zip(line, widths, numeric, strict=True)]
        padded[-1] = padded[-1].rstrip()
        colours = [meaning(name, rows[number - 1].get(name)) if number else DIM for name in names]
        ends = ["  "] * (len(names) - 1) + [""]
        yield _stripped(zip((text + end for text, end in zip(padded, ends, strict=True)), colours, strict=True))


def _stripped(pieces: Iterable[Piece]) -> Painted:
    """Return the line without blanks at its end."""
    left = list(pieces)
    while left and not left[-1][0].strip():
        left.pop()
    return Painted(*left[:-1], *((text.rstrip(), colour) for text, colour in left[-1:]))


def meaning(name: str, value: Any) -> str:
    """Return the colour of a value; none where it is no number, or tells nothing."""
    return _MEANINGS[name](value) if name in _MEANINGS and isinstance(value, int | float) else ""


def facts(pairs: Row, columns: int | None = None) -> Iterator[str]:
    """Yield a line for each name; a longer value goes on below itself, broken between words."""
    wide = max((width(heading(name)) for name in pairs), default=0)
    for name, value in pairs.items():
        label, indent = _pad(heading(name), wide, False) + "  ", " " * (wide + 2)
        first, *more = list(wrapped(indent + shown(name, value), columns, indent)) or [""]
        yield _stripped([(label, DIM), (first[len(indent) :], meaning(name, value))])
        yield from more


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
