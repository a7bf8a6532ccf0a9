"""What commands over a stretch of a topic share: which messages are meant, and those that cannot be read.

A message that cannot be read stays where it was. Each is named, and the exit code is 1; admin/copies.py says which.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any

import click

from ... import admin
from ...text.values import plural
from ..terminal.options import Time
from ..terminal.printing import print_lines
from ..terminal.shell import Shell
from ..terminal.tree import Fail


class OptionalTime(Time):
    """A time; an empty text is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(value, param, ctx) if value else None


FROM = click.option(
    "--from", "begin_ms", type=OptionalTime(), help="Stored at or after: ms since 1970 or 2026-11-16T00:00:00."
)
TO = click.option("--to", "end_ms", type=OptionalTime(), help="Stored before.")
TAGS = click.option("--tag", "tags", multiple=True, help="Only messages with this tag; may be given several times.")


def selects(function: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Hand --from, --to, --tag and --queue, where the command has them, on as `wanted`: a Window of the topic."""

    async def call(shell: Shell, tags: tuple[str, ...], queue: int | None = None, **own: Any) -> None:
        times = {"begin_ms": own.pop("begin_ms") or 0, "end_ms": own.pop("end_ms")}
        window = admin.search.Window(queue_id=queue, tags="||".join(tags) or "*", **times)
        await function(shell, wanted=window, **own)

    return update_wrapper(call, function)


class Skipped:
    """Made once for a command. `later` is the command that copies one of them once it can be read."""

    def __init__(self, later: str) -> None:
        self._later = later
        self.count = 0

    @contextmanager
    def unless_readable(self) -> Iterator[None]:
        """Name the message that cannot be read inside, and go on behind it."""
        try:
            yield
        except admin.copies.CannotCopy as fault:
            self.add(fault)

    def add(self, fault: admin.copies.CannotCopy) -> None:
        """Print the fault at once: a command that is stopped has named those that it skipped."""
        self.count += 1
        print_lines(f"pyromq: skipped: {fault}", err=True)

    def column(self) -> dict[str, int]:
        """Return the count as a column of the summary, where there is one."""
        return {"skipped": self.count} if self.count else {}

    def check(self) -> None:
        """Fail with exit code 1 if any was skipped. Called after the summary."""
        if self.count:
            messages = f"{plural(self.count, 'message')} that cannot be read"
            raise Fail(
                f"skipped {messages}, all others were copied. If a package was missing, install it and: {self._later}"
            )
