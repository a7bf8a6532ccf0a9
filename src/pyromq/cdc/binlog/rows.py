"""Events with rows: bytes to rows by the columns of their table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

from ..changes import CaptureError, SourceTable
from ..events import UNAVAILABLE, Op, Row
from .cursor import Cursor
from .table_map import TableMap, unnamed
from .times import Read
from .values import charset_of, reader_of


class RowsEvent(IntEnum):
    """The kinds of events with rows; the second three are the same, compressed."""

    WRITE = 23
    UPDATE = 24
    DELETE = 25
    WRITE_COMPRESSED = 166
    UPDATE_COMPRESSED = 167
    DELETE_COMPRESSED = 168


OPS = {
    RowsEvent.WRITE: Op.CREATE, RowsEvent.WRITE_COMPRESSED: Op.CREATE,
    RowsEvent.UPDATE: Op.UPDATE, RowsEvent.UPDATE_COMPRESSED: Op.UPDATE,
    RowsEvent.DELETE: Op.DELETE, RowsEvent.DELETE_COMPRESSED: Op.DELETE,
}  # fmt: skip
_HEAD = 8  # number of the table, flags


class RowsReader:
    """Reads rows of one table as it is described by one table map."""

    def __init__(self, described: TableMap, charsets: Mapping[int, str]) -> None:
        name = described.full_name
        if unnamed(described.columns):
            raise CaptureError(
                f"the binlog has no names of the columns of {name}: type SET GLOBAL binlog_row_metadata = 'FULL' in "
                "MariaDB, then pyromq cdc reset and pyromq cdc run, which reads all rows again"
            )
        made = [reader_of(each, charset_of(each, charsets, name), name) for each in described.columns]
        self.table = SourceTable(described.database, described.name, tuple(column for _, column in made))
        self._columns: list[tuple[str, Read]] = [(column.name, read) for read, column in made]

    def rows(self, op: Op, body: bytes) -> Iterator[tuple[Row | None, Row | None, int]]:
        """Yield before, after and the bytes of each row of an event."""
        cursor = Cursor(body, at=_HEAD)
        count = cursor.packed()
        if count != len(self._columns):
            raise CaptureError(
                f"the binlog is damaged: rows of {count} columns for table {self.table.full_name}, which has "
                f"{len(self._columns)}"
            )
        width = (count + 7) // 8
        first = self._logged(cursor.take(width))
        second = self._logged(cursor.take(width)) if op is Op.UPDATE else first
        at, end = cursor.at, len(body)
        while at < end:
            start = at
            row, at = self._row(body, at, first)
            if op is Op.UPDATE:
                after, at = self._row(body, at, second)
                yield row, after, at - start
            else:
                yield (None, row, at - start) if op is Op.CREATE else (row, None, at - start)
        if at != end:
            raise CaptureError(f"the binlog is damaged: a row of table {self.table.full_name} ends behind its event")

    def _logged(self, bitmap: bytes) -> list[bool] | None:
        """Return which columns the rows have; None: all, as binlog_row_image = FULL writes them."""
        bits = int.from_bytes(bitmap, "little")
        count = len(self._columns)
        return None if bits & (1 << count) - 1 == (1 << count) - 1 else [bool(bits >> n & 1) for n in range(count)]

    def _row(self, body: bytes, at: int, logged: list[bool] | None) -> tuple[Row, int]:
        count = len(self._columns) if logged is None else sum(logged)
        nulls = int.from_bytes(body[at : at + (count + 7) // 8], "little")
        at += (count + 7) // 8
        row: Row = {}
        place = 1
        try:
            for number, (name, read) in enumerate(self._columns):
                if logged is not None and not logged[number]:
                    row[name] = UNAVAILABLE
                    continue
                if nulls & place:
                    row[name] = None
                else:
                    row[name], at = read(body, at)
                place <<= 1
        except IndexError:
            raise CaptureError(
                f"the binlog is damaged: a row of table {self.table.full_name} ends inside column {name}"
            ) from None
        return row, at
