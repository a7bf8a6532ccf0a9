"""Progress of long work: a bar on a terminal, nothing where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def progress_bar(length: int, label: str, is_quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield the function that is called with the number of things done since the last call. The bar goes to stderr."""
    if is_quiet or not sys.stderr.isatty():
        yield lambda count: None
        return
    with click.progressbar(length=max(1, length), label=label, file=sys.stderr, show_pos=True) as bar:
        yield bar.update
