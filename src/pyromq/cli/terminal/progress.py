"""How far a long command is: a bar on a terminal's stderr, a log line every few seconds elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ... import logs
from ...ambient import SystemClock

EVERY_S = 5.0
Report = Callable[[int, int], None]  # how much is done, of how much in all

log = logs.get("pyromq.cli")


@contextmanager
def progress(what: str, *, is_quiet: bool = False) -> Iterator[Report]:
    """Yield the function that is called with the bytes done and the whole. Quiet: it does nothing."""
    if is_quiet:
        yield lambda done, whole: None
        return
    if not sys.stderr.isatty():
        yield logged(what, SystemClock().monotonic)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, whole: bars.update(task, completed=done, total=whole)


def logged(what: str, monotonic: Callable[[], float]) -> Report:
    """Return the function that logs how far it is, at most every few seconds."""
    said_at = monotonic()

    def report(done: int, whole: int) -> None:
        nonlocal said_at
        if monotonic() - said_at >= EVERY_S:
            said_at = monotonic()
            log.info(what, percent=round(100 * done / whole) if whole else 0, done=done, of=whole)

    return report
