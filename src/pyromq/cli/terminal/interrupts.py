"""Ctrl-C where a command waits for a person or a pipe, and what it has done by then."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import click

from .printing import print_lines
from .tree import Fail


@contextmanager
def interruptible() -> Iterator[None]:
    """Let the first Ctrl-C raise KeyboardInterrupt: during a read the event loop would only note it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if _is_noted():
            raise KeyboardInterrupt
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_noted() -> bool:
    """Return whether the loop has noted a Ctrl-C just before: it cancels what runs, at its next await."""
    from asyncio import current_task  # not at the top: --version and --help need no event loop

    try:
        task = current_task()
    except RuntimeError:  # no loop runs
        return False
    return task is not None and task.cancelling() > 0


def confirm(question: str) -> None:
    """Return once the answer is yes. Fail at a no, the end of the input and the first Ctrl-C: nothing was changed."""
    try:
        with interruptible():
            is_wanted = click.confirm(question, err=True)
    except (click.Abort, OSError):  # the input has ended, or was closed from the beginning
        end_line()
        raise Fail("nobody answered: nothing was changed. Give --yes to go on without a question") from None
    if not is_wanted:
        raise Fail("nothing was changed")


def typed_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of standard input as they come."""
    while True:
        with interruptible():
            line = stream.readline()
        if not line:
            return
        yield line


@contextmanager
def tells_if_stopped(what: Callable[[], str]) -> Iterator[None]:
    """Fail with what was done where Ctrl-C ends it in the middle."""
    try:
        yield
    except BaseException as end:
        if isinstance(end, Exception | SystemExit):
            raise
        end_line()
        raise Fail(f"stopped: {what()}") from None


def end_line() -> None:
    """Begin a new line where a terminal has shown ^C."""
    if sys.stderr.isatty():
        print_lines("", err=True)
