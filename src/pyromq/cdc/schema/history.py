"""The history of the tables' columns on disk, beside the state: lines of JSON, added to and now and then compacted.

Lines are numbered. They are on disk before the state is whose position lies behind what they tell of, and that state
says how many there are. Lines beyond it were written just before a kill: what they tell of is read again, so they are
dropped. So a change is noticed wherever the capture was when it was made, and stands here once. Bounded: of each table
and of all of them the newest changes are kept.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ...files import PRIVATE, make_folder, replace_file, sync_folder
from ..changes import CaptureError, Column, TableStatement
from .column_changes import ColumnChange

_MOST_CHANGES = 5000
_MOST_OF_ONE_TABLE = 100
_MOST_TABLES = 20_000
_SHOWN = 500  # characters of a statement
_ANEW = 1 << 40  # lines of a file that has some that do not count


class HistoryLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was seen of a table at a place of the log: other columns than before, or a statement about it.

    `columns` is its form from there on; of a table that was seen for the first time there are no `changes`.
    """

    number: int
    table: str = ""
    ts_ms: int = 0
    place: str = ""
    changes: tuple[ColumnChange, ...] = ()
    statement: str = ""
    columns: tuple[Column, ...] | None = None
    forgotten: int = 0  # older changes of all tables that are no longer here


class SchemaHistory:
    """Of one capture. `load` before anything else; it and `save` block on the disk."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "schema.history"
        self.forms: dict[str, tuple[Column, ...]] = {}
        self.changes: list[HistoryLine] = []
        self.forgotten = 0
        self.number = 0  # of the newest line
        self._unsaved: list[HistoryLine] = []
        self._lines = 0  # in the file

    def load(self, most: int | None) -> SchemaHistory:
        """Read the lines up to a number; None: all of them, where no state says how many count.

        A line that a crash cut off is left out; CaptureError if another one is damaged.
        """
        try:
            *lines, torn = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return self
        entries = [self._decoded(line, place) for place, line in enumerate(lines, 1)]
        kept = [each for each in entries if most is None or each.number <= most]
        for each in kept:
            self._take(each)
        self._lines = len(lines)
        if torn or len(kept) < len(entries):
            self._lines = _ANEW
        return self

    def _decoded(self, line: bytes, place: int) -> HistoryLine:
        try:
            return msgspec.json.decode(line, type=HistoryLine)
        except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
            raise CaptureError(
                f"{self.path} is damaged in line {place} ({fault}): remove the file. Only what became of columns is in "
                "it, and it is begun anew"
            ) from None

    def _take(self, entry: HistoryLine) -> None:
        self.number = max(self.number, entry.number)
        self.forgotten += entry.forgotten
        if entry.columns is not None:
            self.forms.pop(entry.table, None)
            self.forms[entry.table] = entry.columns
        if entry.changes or entry.statement:
            self.changes.append(entry)

    def note_columns(
        self, table: str, columns: tuple[Column, ...], changes: Sequence[ColumnChange], place: str, ts_ms: int
    ) -> None:
        """Note the form of a table from a place on."""
        self._add(HistoryLine(self.number + 1, table, ts_ms, place, tuple(changes), columns=columns))

    def note_statement(self, said: TableStatement) -> None:
        self._add(HistoryLine(self.number + 1, said.table, said.ts_ms, said.place, statement=said.text[:_SHOWN]))

    def _add(self, entry: HistoryLine) -> None:
        self._take(entry)
        self._unsaved.append(entry)

    # --- the disk -------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Make what was noted durable. Where that is nothing, compact the file if it needs that.

        Called before each state is saved, and once before anything is noted.
        """
        if self._unsaved:
            self._append(self._unsaved)
            self._unsaved = []
        elif self._lines > len(self.forms) + _MOST_CHANGES * 2:
            self._compact()

    def _append(self, entries: Sequence[HistoryLine]) -> None:
        make_folder(self.path.parent)
        is_new = not self.path.exists()
        with open(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE), "wb") as file:
            file.write(_lines(entries))
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_folder(self.path.parent)
        self._lines += len(entries)

    def _compact(self) -> None:
        """Write the newest changes, and the present form of each table, in place of all lines."""
        kept = _newest(self.changes)
        self.forgotten += len(self.changes) - len(kept)
        self.changes = kept
        self.forms = dict(list(self.forms.items())[-_MOST_TABLES:])
        last = self.number
        head = HistoryLine(last, forgotten=self.forgotten)
        bare = (replace(each, columns=None) for each in kept)
        forms = (HistoryLine(last, table, columns=columns) for table, columns in self.forms.items())
        entries = [head, *bare, *forms]
        replace_file(self.path, _lines(entries), keep_backup=False)
        self._lines = len(entries)


def _lines(entries: Iterable[HistoryLine]) -> bytes:
    return b"".join(msgspec.json.encode(each) + b"\n" for each in entries)


def _newest(changes: Sequence[HistoryLine]) -> list[HistoryLine]:
    """Return the newest changes, in their order, not too many of one table."""
    found: list[HistoryLine] = []
    of_table: Counter[str] = Counter()
    for each in reversed(changes):
        of_table[each.table] += 1
        if of_table[each.table] <= _MOST_OF_ONE_TABLE:
            found.append(each)
    return found[:_MOST_CHANGES][::-1]
