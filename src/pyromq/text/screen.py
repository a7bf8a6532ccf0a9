"""How wide a screen is, and texts that fit it: broken between words, or cut off."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO, Any
from unicodedata import east_asian_width

from .colour import Painted, Piece


def screen_width(stream: IO[Any], *, or_given: bool = False) -> int | None:
    """Return the columns of the terminal; None for a pipe or a file, which are as wide as a line is.

    `or_given`: or else what COLUMNS in the environment says.
    """
    if not (stream.isatty() or (or_given and os.environ.get("COLUMNS"))):
        return None
    import shutil  # not at the top: --version and --help need none

    return shutil.get_terminal_size().columns


def wrapped(text: str, columns: int | None, indent: str = "") -> Iterator[str]:
    """Yield the text in lines of at most so many columns, broken between words; `indent` before all but the first."""
    if columns is None or len(text) <= columns:
        yield text
        return
    from textwrap import TextWrapper

    wrapper = TextWrapper(max(1, columns), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    yield from wrapper.wrap(text) or [""]


def cut(line: str, columns: int | None) -> str:
    """Return the line, cut off with an ellipsis where the screen ends."""
    if columns is None or len(line) <= columns:
        return line
    if not isinstance(line, Painted):
        return line[: columns - 1] + "…"
    return Painted(*_within(line.pieces, columns - 1), ("…", ""))


def _within(pieces: Iterable[Piece], columns: int) -> Iterator[Piece]:
    for text, colour in pieces:
        yield text[:columns], colour
        columns -= min(columns, len(text))


def width(text: str) -> int:
    """Return the columns on a terminal: Chinese letters take two."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(one) in "WF" else 1 for one in text)
