"""What a comparison asks of a sink: what it has, and how it would keep the rows of the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, Self

from ..cdc.rows import RowWrite
from .chunks import ComparedRow, TaskPart


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """A table of the source: the columns that its events show, its key, and the column by which it has ranges."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    first: str


class OpenView(Protocol):
    def expected(self, writes: Sequence[RowWrite]) -> Iterator[ComparedRow]:
        """Yield rows of the source as the sink keeps them."""
        ...

    def rows(self, piece: TaskPart) -> Iterator[ComparedRow]:
        """Yield the rows that the sink has. None of a table that it does not have."""
        ...


class SinkView(Protocol):
    """A sink that is looked at. It travels to tasks: addresses and names, nothing that is open."""

    @property
    def has_shares(self) -> bool:
        """Return whether several tasks may divide a table without ranges."""
        ...

    @property
    def place(self) -> str: ...

    def check(self) -> None:
        """Raise PyroError if a package is missing, or the sink cannot be used."""
        ...

    def at(self, table: ComparedTable) -> Self:
        """Return the view of this moment, where the sink keeps what it was."""
        ...

    def has_ranges(self, table: ComparedTable) -> bool:
        """Return whether the sink finds the rows of a range of keys without reading the others."""
        ...

    def opened(self, table: ComparedTable) -> AbstractContextManager[OpenView]: ...
