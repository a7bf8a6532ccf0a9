"""Rows for people: columns in line, or a list where they are too wide. Pure, and light: loaded with every command.

Rows are what `--json` prints: plain values under camelCase names; `values.py` has them in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .colour import BAD, DIM, GOOD, STRONG, WARN, Painted, Piece
from .screen import width, wrapped
from .values import heading, shown

Row = Mapping[str, Any]


class Wording(NamedTuple):
    """How names become headings, and values (with their names) texts."""

    heading: Callable[[str], str]
    shown: Callable[[str, Any], str]


IN_WORDS = Wording(heading, shown)


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


def lines(rows: Sequence[Row], columns: int | None = None, wording: Wording = IN_WORDS) -> Iterator[str]:
    """Yield a table with one heading per name of the first row; numbers stand to the right.

    One that is wider than `columns` becomes a list: a row is a block of lines, one for each name.
    """
    if not rows:
        return
    table = list(_table(rows, wording))
    if columns is None or max(map(width, table)) <= columns:
        yield from table
        return
    for number, row in enumerate(rows):
        yield from ([""] if number else [])
        yield from facts(row, columns, wording)


def report(found: Row, columns: int | None = None) -> Iterator[str]:
    """Yield one thing with its parts: facts, then a table below its name for each list of rows."""
    parts = {
        name: value
        for name, value in found.items()
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value)
    }
    yield from facts({name: value for name, value in found.items() if name not in parts}, columns)
    for name, rows in parts.items():
        yield from ("", Painted((heading(name), STRONG)), *indented(rows, columns))


def indented(rows: Sequence[Row], columns: int | None = None) -> Iterator[str]:
    """Yield the table below a title."""
    for line in lines(rows, None if columns is None else columns - 2):
        yield line.after("  ") if isinstance(line, Painted) else f"  {line}".rstrip()


def _table(rows: Sequence[Row], wording: Wording) -> Iterator[Painted]:
    names = list(rows[0])
    cells = [[wording.shown(name, row.get(name)) for name in names] for row in rows]
    headings = [wording.heading(name) for name in names]
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


def facts(pairs: Row, columns: int | None = None, wording: Wording = IN_WORDS) -> Iterator[str]:
    """Yield a line for each name; a longer value goes on below itself, broken between words."""
    wide = max((width(wording.heading(name)) for name in pairs), default=0)
    for name, value in pairs.items():
        label, indent = _pad(wording.heading(name), wide, False) + "  ", " " * (wide + 2)
        first, *more = wrapped(wording.shown(name, value), None if columns is None else columns - len(indent))
        yield _stripped([(label, DIM), (first, meaning(name, value))])
        yield from (indent + line for line in more)


def _pad(text: str, wide: int, right: bool) -> str:
    blank = " " * (wide - width(text))
    return blank + text if right else text + blank
