"""What the sinks of changes share: how one is opened in a task, and the errors by which it says what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from ...errors import PyroError
from .rows import RowWrite


def without_password(url: str) -> str:
    """Return the URL as it may be shown: who logs in is left out, and what he gives for it."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


class SinkAway(PyroError):
    """The sink cannot take anything now, or has a fault that nobody foresaw. SinkTask waits and tries again."""


class SinkRefused(PyroError):
    """The sink will never take these rows, since something is wrong with them and not with the sink. SinkTask keeps
    their messages and goes on with the others: a fault of which that is not sure is SinkAway."""


class Applied(NamedTuple):
    """How many rows were written and deleted, and how many were up to date already."""

    written: int = 0
    deleted: int = 0
    repeats: int = 0

    def plus(self, other: Applied) -> Applied:
        return Applied(self.written + other.written, self.deleted + other.deleted, self.repeats + other.repeats)


class OpenSink(Protocol):
    def apply(self, writes: Sequence[RowWrite]) -> Applied:
        """Apply the writes, one for each row; a row that has a number as high or higher stays. All or none where the
        sink can do that; done again, they change nothing. SinkAway, SinkRefused."""
        ...

    def sweep(self, table: str, below: int) -> int:
        """Delete the rows of a table whose number is below this one or missing; return how many. SinkAway."""
        ...


class Sink(Protocol):
    """Where rows go. It travels to tasks: addresses and names, nothing that is open."""

    @property
    def place(self) -> str:
        """What people call it, without a password."""
        ...

    def check(self, *, dry_run: bool = False) -> None:
        """Raise PyroError if a package is missing, or the sink cannot be used. A dry run leaves nothing there."""
        ...

    def opened(self) -> AbstractContextManager[OpenSink]: ...
