"""The way out of every command: what people and programs read goes through here (`tests/house/test_outlets.py` looks
for others), so that names, keys, bodies and remarks of whoever can connect neither move a cursor nor forge a line.

Escaped is only what cannot be seen (`model/foreign_text.py`); JSON stays JSON. Nothing here is asked what a text means.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from ...model.foreign_text import visible
from ...text.colour import Painted, is_coloured, painted
from ...text.screen import screen_width, wrapped
from .called import as_called

HOME_AND_CLEAR = "\x1b[H\x1b[J"


def print_lines(*lines: str, err: bool = False) -> None:
    """Print each text as one line: a line end inside is shown as `\\n`. Hints on stderr are as the user types them."""
    stream = sys.stderr if err else sys.stdout
    for line in lines:
        if isinstance(line, Painted) and is_coloured(stream):
            click.echo("".join(painted(_as_line(text), colour) for text, colour in line.pieces), err=err, color=True)
        else:
            click.echo(_as_line(as_called(line) if err else line), err=err)


def print_prose(text: str, indent: str = "  ") -> None:
    """Print an error on stderr: one line, which at a terminal goes on below itself and breaks no word."""
    print_lines(*wrapped(as_called(text), screen_width(sys.stderr), indent), err=True)


def print_wrapped(text: str, indent: str = "  ") -> None:
    """Print a sentence with hints: it goes on below itself and breaks no word."""
    print_lines(*wrapped(as_called(text), columns(), indent))


def columns() -> int | None:
    """Return how wide what people read may be. Off a terminal it is as wide as a line is, unless COLUMNS is exported,
    as `watch` does."""
    return screen_width(sys.stdout, or_given=True)


def print_many(line: str) -> None:
    """Print one of many lines of a program's input, and leave it to the stream when they are flushed."""
    sys.stdout.write(_as_line(line) + "\n")


def print_text(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text that has lines of its own: a page, a stack, a body."""
    click.echo(visible(text), err=err, nl=nl)


def print_as_it_is(text: str) -> None:
    """Print what the user asked for byte by byte: unchanged into a pipe or a file, as any other text on a terminal."""
    click.echo(visible(text) if _is_terminal() else text, color=True)  # click would take colours out of a pipe


def print_frame(lines: Iterable[str], *, clear: bool) -> None:
    """Print the lines in the place of what the screen showed, if `clear`."""
    if clear and _is_terminal():
        click.echo(HOME_AND_CLEAR, nl=False)
    print_lines(*lines)


def print_drawn(text: str, *, err: bool = False) -> None:
    """Print what has colours or moves the cursor on purpose. Who draws makes `one_line` of what came from elsewhere."""
    click.echo(text, err=err, nl=False)


def to_json(value: Any, indent: int | None = None) -> str:
    import json  # not at the top: --version and --help need none

    return json.dumps(value, ensure_ascii=False, indent=indent)


def _as_line(text: str) -> str:
    """Return the text without line ends. Tabs stay: lines are laid out with them."""
    return visible(text.replace("\n", "\\n"))


def _is_terminal() -> bool:
    return sys.stdout.isatty()
