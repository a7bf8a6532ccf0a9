"""What a source gives to the capture: changes of rows, with the tables that they are of and their places in the log.

Values are ready for JSON: numbers, texts, booleans, lists and None. Each source's codec says how it writes its types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from ..errors import PyroError
from .events import Op, Row


class CaptureError(PyroError):
    """A capture that cannot go on. The text says what happened, to what, and what to type; nothing is lost."""


class DatabaseAway(CaptureError):
    """The database cannot be reached now, or the connection broke: the capture waits and tries again."""


class LogLost(CaptureError):
    """The database no longer has the log behind our position: only a new snapshot brings the sinks up to date."""


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place between two changes of a log.

    `done` is all that was wholly read: a GTID set, or the LSN of a commit. Behind it, `event` changes of the
    transaction `inside` were read, and `row` rows of the next one. They do not depend on what is captured.
    """

    done: str = ""
    inside: str = ""
    event: int = 0
    row: int = 0


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column as the log describes it.

    `kind` is the JSON form of its values, `meaning` Debezium's name for that, `items` the form of what an array holds.
    """

    name: str
    type: str
    kind: str = "string"
    meaning: str = ""
    is_key: bool = False
    items: str = ""


class SourceTable(msgspec.Struct, frozen=True):
    """A table as it was when the change was made. `schema` is PostgreSQL's, empty elsewhere."""

    database: str
    name: str
    columns: tuple[Column, ...]
    schema: str = ""

    @property
    def full_name(self) -> str:
        return ".".join(part for part in (self.database, self.schema, self.name) if part)

    @property
    def collection(self) -> str:
        """Return the name that Debezium has for it in transactions."""
        return f"{self.schema or self.database}.{self.name}"

    @property
    def key_names(self) -> list[str]:
        return [column.name for column in self.columns if column.is_key]

    def key_of(self, row: Mapping[str, Any]) -> Row | None:
        """Return the key of a row; None of a table without one."""
        names = self.key_names
        return {name: row[name] for name in names} if names else None


@dataclass(slots=True)
class RowChange:
    """One change of one row, or a truncated table."""

    table: SourceTable
    op: Op
    before: Row | None
    after: Row | None
    ts_ms: int  # when it was committed, by the database's clock
    source: Row = field(default_factory=dict)  # what Debezium tells of the place in this kind of log
    transaction: str = ""
    size: int = 0  # bytes in the log, about
    place: str = ""  # in the log, as the database writes it


class TableStatement(msgspec.Struct, frozen=True):
    """A statement that made, changed or dropped a table, where logs have such statements."""

    table: str
    text: str
    place: str
    ts_ms: int


@dataclass(slots=True)
class Slice:
    """A piece of the log: its changes, and where it ends. Without changes the position may have moved all the same."""

    changes: list[RowChange]
    end: Position
    ts_ms: int = 0  # of the newest thing read; 0: nothing
    is_caught_up: bool = False
    statements: Sequence[TableStatement] = ()


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """How much of a log is read at once, and how long to wait for its first change."""

    rows: int = 2000
    bytes: int = 2 << 20
    passed_bytes: int = 16 << 20  # of log, with or without changes for us
    wait_s: float = 0.5


class ChangeSource(Protocol):
    """A database's log. Blocks, so it is called in a helper thread, one call at a time."""

    def read(self, bounds: ReadBounds) -> Slice: ...

    def confirm(self, position: Position) -> None:
        """Tell the database that everything before is safe: it may drop that part of its log."""
        ...

    def close(self) -> None: ...


class TableSnapshot(Protocol):
    """The rows of tables as they were at one position of the log. Blocks, as a source does."""

    position: Position

    def tables(self) -> list[TableSize]: ...

    def rows(self, table: str, last: tuple[str, ...] | None, most: int) -> SnapshotRows: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class TableSize:
    table: str
    about: int  # rows, as the database expects


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """Some rows of a table in the order of its key. `last` is the last one's key; None: the table has no more."""

    changes: list[RowChange]
    last: tuple[str, ...] | None


IsWanted = Callable[[str], bool]  # of a table, by its full name


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked. `mend`: what to type. Bad ones keep a capture from running; odd ones do not."""

    what: str
    found: str
    mend: str = ""
    is_bad: bool = False
    is_odd: bool = False
