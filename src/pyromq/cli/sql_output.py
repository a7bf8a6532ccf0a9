"""The rows of an answer in SQL: as a table, as JSON, as CSV, or as bars on a terminal."""

from __future__ import annotations

import csv
import io
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, islice
from math import isfinite
from typing import Any, NamedTuple

from ..model.foreign_text import one_line
from ..text import tables
from ..text.screen import cut, width
from .terminal.printing import columns, print_as_it_is, print_lines, print_many, to_json

MOST_SHOWN = 1_000  # rows of a table, whose columns are in line: programs get all of them
_CHUNK = 1_000
_BAR, _SCREEN = "█", 80
_PARTS = " ▏▎▍▌▋▊▉"


class QueryRows(NamedTuple):
    columns: Sequence[str]
    rows: Iterator[Sequence[Any]]


def print_json(answer: QueryRows) -> None:
    """Print one object a line: times in ISO 8601, bytes in base 64, decimals as texts without loss."""
    for row in answer.rows:
        print_many(to_json(dict(zip(answer.columns, map(plain, row), strict=True))))


def print_csv(answer: QueryRows) -> None:
    """Print a line of names, then the rows. Null is nothing, nested values are JSON."""
    rows = chain([list(answer.columns)], ([_cell(each) for each in row] for row in answer.rows))
    while chunk := list(islice(rows, _CHUNK)):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(chunk)
        print_as_it_is(text.getvalue().removesuffix("\n"))


def print_table(answer: QueryRows) -> None:
    """Print the first thousand rows in columns, and on stderr that there are more."""
    found = [dict(zip(answer.columns, row, strict=True)) for row in islice(answer.rows, MOST_SHOWN)]
    if not found:
        print_lines("no rows")
    print_lines(*tables.lines(found, columns(), _EXACT))
    if next(answer.rows, None) is not None:
        more = f"these are the first {MOST_SHOWN:,} rows: --csv or --json prints all of them"
        print_lines(f"pyromq: {more}", err=True)


def print_plot(answer: QueryRows) -> None:
    """Print bars for each column of numbers behind the first column, whose values are the labels."""
    rows = list(islice(answer.rows, MOST_SHOWN))
    numbers = [
        place for place in range(1, len(answer.columns)) if all(_is_number(row[place]) for row in rows if row) and rows
    ]
    if not numbers:
        print_lines("pyromq: --plot draws the numbers behind a first column: SELECT tag, count(*) ...", err=True)
        print_table(QueryRows(answer.columns, iter(rows)))
        return
    for place in numbers:
        print_lines(*bars(answer.columns[place], [(shown(row[0]), row[place] or 0) for row in rows]))


def bars(title: str, points: Sequence[tuple[str, Any]], screen: int | None = None) -> Iterator[str]:
    """Yield a heading and a bar for each point, to scale; one below zero has none, and its number."""
    screen = screen or columns() or _SCREEN
    labels = [cut(one_line(label), max(8, screen // 3)) for label, _ in points]
    figures = [f"{value:,}" if isinstance(value, int) else f"{value:,.6g}" for _, value in points]
    left, right = max(map(width, labels), default=0), max(map(len, figures), default=0)
    room = max(1, screen - left - right - 3)
    most = max((value for _, value in points), default=0)
    yield title
    for label, figure, (_, value) in zip(labels, figures, points, strict=True):
        eighths = round(8 * room * value / most) if most > 0 and value > 0 else 0
        bar = _BAR * (eighths // 8) + _PARTS[eighths % 8].strip()
        yield f"{label}{' ' * (left - width(label))} {bar}{' ' * bool(bar)}{figure}"


def plain(value: Any) -> Any:
    """Return the value as JSON has it."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if isfinite(value) else str(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return str(value)
        case bytes() | bytearray():
            return b64encode(value).decode()
        case dict():
            return {str(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    return str(value)


def shown(value: Any) -> str:
    """Return the value for people: times without T and zone (they are UTC), bytes as text where they are."""
    match value:
        case datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds").removesuffix(".000")
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case dict() | list() | tuple():
            return to_json(plain(value))
        case bool():
            return str(value).lower()
        case None:
            return "NULL"
    return str(plain(value))


# A query's own names, and numbers with all their digits.
_EXACT = tables.Wording(one_line, lambda _, value: one_line(shown(value)))


def _cell(value: Any) -> Any:
    made = plain(value)
    return to_json(made) if isinstance(made, (dict, list, bool)) else made


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float, Decimal)) and not isinstance(value, bool))
