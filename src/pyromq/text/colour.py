"""Colours with a meaning. A line stays a text, `cli/terminal/printing.py` paints it.

Green is well, yellow wants a look, red is broken; headings and labels are dim. There are none without a terminal, with
NO_COLOR in the environment or TERM=dumb.
"""

from __future__ import annotations

import os
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
