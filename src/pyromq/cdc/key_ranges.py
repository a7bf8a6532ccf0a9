"""Rows of a source's tables by ranges of their key, as they are now: what a comparison with a sink reads. Pure.

A range is of the first column of the key, and only where its values are whole numbers: texts have an order in every
database of its own, so a table with such a key is read as one range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from .changes import RowChange, SourceTable

PAGE = 2_000  # rows that one statement reads


class KeyRange(NamedTuple):
    """Values of the first column of a key, from `low` on and below `high`; None: as far as there are any."""

    low: int | None = None
    high: int | None = None

    def condition(self, column: str) -> str:
        """Return the range as SQL about a column, whose name is quoted already; empty if all values are in it."""
        parts = [f"{column} >= {self.low}"] if self.low is not None else []
        parts += [f"{column} < {self.high}"] if self.high is not None else []
        return f"({' AND '.join(parts)})" if parts else ""


class TableRows(Protocol):
    """The tables of one database that a capture wants. Blocks. Each page is read as it is at its own moment."""

    def tables(self) -> list[str]: ...

    def table(self, name: str) -> SourceTable: ...

    def range_column(self, name: str) -> str | None:
        """Return the first column of the key if it has whole numbers, else None."""
        ...

    def bounds(self, name: str, rows: int) -> list[int]:
        """Return where ranges of so many rows begin, the first one left out."""
        ...

    def rows(self, name: str, within: KeyRange) -> Iterator[list[RowChange]]: ...

    def close(self) -> None: ...


def whole_number_column(table: SourceTable, keys: Sequence[str]) -> str | None:
    """Return the first column of a key if its values are whole numbers in events and in the database alike."""
    column = next((each for each in table.columns if keys and each.name == keys[0]), None)
    return keys[0] if column is not None and column.kind.startswith("int") and not column.meaning else None


def walked(next_bound: Callable[[int | None], int | None]) -> list[int]:
    """Return the bounds that follow one another; `next_bound` gets the one before, None at the beginning."""
    found: list[int] = []
    while (bound := next_bound(found[-1] if found else None)) is not None:
        found.append(bound)
    return found
