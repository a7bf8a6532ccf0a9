"""Colours with a meaning, and lines as wide as the screen. A line stays a text, `printing.py` paints it.

Green is well, yellow wants a look, red is broken; headings and labels are dim. There are none without a terminal, with
NO_COLOR in the environment or TERM=dumb.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO, Any

GOOD, WARN, BAD, DIM, STRONG = "32", "33", "31", "2", "1"
Piece = tuple[str, str]  # a text, and its colour or nothing


class Painted(str):
    """A line whose parts have colours. As a text it has none."""

    __slots__ = ("pieces",)
    pieces: tuple[Piece, ...]

    def __new__(cls, *pieces: Piece) -> Painted:
        made = super().__new__(cls, "".join(text for text, _ in pieces))
        made.pieces = pieces
        return made

    def __getnewargs__(self) -> Any:
        return self.pieces

    def after(self, text: str) -> Painted:
        """Return the line behind a text without colour."""
        return Painted((text, ""), *self.pieces)


def is_coloured(stream: IO[Any]) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if colour and text else text


def screen_width(stream: IO[Any]) -> int | None:
    """Return the columns of the terminal; None for a pipe or a file, which are as wide as a line is."""
    if not stream.isatty():
        return None
    import shutil  # not at the top: --version and --help need none

    return shutil.get_terminal_size().columns


def wrapped(text: str, columns: int | None, indent: str = "") -> Iterator[str]:
    """Yield the text in lines of at most so many columns, broken between words; `indent` before all but the first."""
    if columns is None or len(text) <= columns:
        yield text
        return
    from textwrap import TextWrapper

    wrapper = TextWrapper(columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    yield from wrapper.wrap(text)


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
