"""Pages out of templates. Everything is escaped by Jinja, and what cannot be seen is shown as `\\u202e` before that."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from ...model.foreign_text import visible
from ...text.values import size
from ..acting.plan import Sentence
from ..watch.figures import FigureTotal, Unknown
from .charts import chart
from .words import Words

KNOWN_UNTIL_MS = 253_402_300_799_000  # the end of the year 9999: later times are no times


def environment() -> Environment:
    """Return the templates, with what they call."""
    found = Environment(
        loader=PackageLoader(__package__.rpartition(".")[0], "templates"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "count": count,
        "rate": rate,
        "size": lambda value: size(value),
        "span": span,
        "iso": iso,
        "utc": utc,
        "iso_exact": lambda ms: _utc(ms).isoformat(timespec="milliseconds"),
        "utc_exact": lambda ms: f"{_utc(ms):%Y-%m-%d %H:%M:%S}.{ms % 1000:03d} UTC",
        "percent": lambda value: f"{100 * value:.0f} %",
        "bare": bare,
        "missing": missing,
        "is_unknown": lambda value: isinstance(bare(value), Unknown),
        "why": _why,
        "in_words": in_words,
        "is_sentence": lambda value: isinstance(value, Sentence),
    }
    found.globals |= {"chart": chart}
    return found


def _shown(value: Any) -> Any:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return visible(value)


def _why(value: Any) -> str:
    found = bare(value)
    return found.unknown if isinstance(found, Unknown) else ""


def in_words(said: Sentence, words: Words) -> str:
    return words(said.text, **said.values)


def bare(value: Any) -> Any:
    """Return the figure of a sum, or the value itself."""
    return value.value if isinstance(value, FigureTotal) else value


def missing(value: Any) -> tuple[str, ...]:
    """Return what is not in a sum although it should be."""
    return value.missing if isinstance(value, FigureTotal) else ()


def count(value: float) -> str:
    return f"{value:,.0f}"


def rate(value: float) -> str:
    """Return messages a second with as many digits as are worth reading."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 0.1 else "<0.1"


def span(seconds: float, words: Words) -> str:
    """Return a length of time in its two greatest units at most."""
    seconds = max(0, round(seconds))
    for unit, text, below, part in (
        (86_400, "{n} d", 3_600, "{n} h"),
        (3_600, "{n} h", 60, "{n} min"),
        (60, "{n} min", 1, "{n} s"),
    ):
        if seconds >= unit:
            rest = seconds % unit // below
            first = words(text, n=seconds // unit)
            return f"{first} {words(part, n=rest)}" if rest and seconds < 10 * unit else first
    return words("{n} s", n=seconds)


def iso(ms: int) -> str:
    return _utc(ms).isoformat(timespec="seconds")


def utc(ms: int) -> str:
    return _utc(ms).strftime("%Y-%m-%d %H:%M:%S UTC")


def _utc(ms: int) -> datetime:
    """Return a time that calendars know; who sends a message says when it was born, and may say anything."""
    return datetime.fromtimestamp(min(max(ms, 0), KNOWN_UNTIL_MS) / 1000, UTC)
