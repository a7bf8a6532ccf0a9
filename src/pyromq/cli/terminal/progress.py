"""How far a long command is: a bar on a terminal's stderr, a log line every few seconds elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ... import logs
from ...ambient import SystemClock
from ...model.foreign_text import one_line
from .interrupts import tells_if_stopped

EVERY_S = 5.0
Report = Callable[[int, int], None]  # how much is done, of how much in all, 0 where nobody knows

log = logs.get("pyromq.cli")


@contextmanager
def progress(what: str, *, is_quiet: bool = False, in_bytes: bool = True) -> Iterator[Report]:
    """Yield the function that is called with what is done, in bytes or pieces, and the whole."""
    if is_quiet:
        yield lambda done, whole: None
        return
    if not sys.stderr.isatty():
        yield logged(what, SystemClock().monotonic)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    figures = DownloadColumn() if in_bytes else MofNCompleteColumn()
    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), figures, TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bars:  # the results go there
        task = bars.add_task(one_line(what), total=None)
        yield lambda done, whole: bars.update(task, completed=done, total=whole or None)


@contextmanager
def until_stopped(what: str, then: str, *, is_quiet: bool = False, in_bytes: bool = True) -> Iterator[Report]:
    """Yield what `progress` yields. Where Ctrl-C ends it, fail with how far it came, and `then`: how to go on."""
    percent = 0

    with (
        tells_if_stopped(lambda: f"{what} was {percent} % done. {then}"),
        progress(what, is_quiet=is_quiet, in_bytes=in_bytes) as report,
    ):

        def keep(done: int, whole: int) -> None:
            nonlocal percent
            percent = 100 * done // (whole or 1)
            report(done, whole)

        yield keep


@contextmanager
def counted(length: int, what: str, *, is_quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield the function that is called with the number of things done since the last call. Length 0: not known."""
    sum_of = 0
    with progress(what, is_quiet=is_quiet, in_bytes=False) as report:

        def add(count: int) -> None:
            nonlocal sum_of
            sum_of += count
            report(sum_of, length)

        yield add


def logged(what: str, monotonic: Callable[[], float]) -> Report:
    """Return the function that logs how far it is, at most every few seconds."""
    said_at = monotonic()

    def report(done: int, whole: int) -> None:
        nonlocal said_at
        if monotonic() - said_at >= EVERY_S:
            said_at = monotonic()
            log.info(what, done=done, **({"percent": round(100 * done / whole), "of": whole} if whole else {}))

    return report
