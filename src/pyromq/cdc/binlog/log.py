"""Events of a MariaDB binlog in, changes of rows out, each with its position. Owns no socket.

A transaction begins with its GTID and ends with its commit; in between come table maps and rows. The position behind a
row is the GTIDs of all whole transactions, the GTID of this one, and how many events and rows of it were read: it says
the same on every server that has the transaction, and whatever was captured of it.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ..changes import CaptureError, IsWanted, Position, RowChange, SourceTable, TableStatement
from ..events import Op, Row
from .cursor import Cursor
from .gtids import TransactionSet
from .rows import OPS, RowsEvent, RowsReader
from .statements import tables_of
from .table_map import ColumnType, read_table_map, table_id, table_name

_HEADER = struct.Struct("<IBIIIH")  # seconds, type, server, size, end in the file, flags
_GTID = struct.Struct("<QIB")
_QUERY, _ROTATE, _XID, _TABLE_MAP = 2, 4, 16, 19
_XA_PREPARE, _GTID_EVENT, _QUERY_COMPRESSED = 38, 162, 165
_STANDALONE, _PREPARED_XA = 1, 64  # of a GTID's flags
_QUERY_HEAD = struct.Struct("<IIBHH")
_ROWS = frozenset(RowsEvent)
_WRITES = re.compile(r"\s*(?:/\*.*?\*/\s*)*(?:INSERT|REPLACE|UPDATE|DELETE|LOAD)\b", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"(?:`?([\w$]+)`?\s*\.\s*)?`?([\w$]+)`?")
_TO_SAVEPOINT = re.compile(r"\s*ROLLBACK\s+(?:WORK\s+)?TO\b", re.IGNORECASE)
_SHOWN = 100  # characters of a statement in an error


@dataclass(slots=True)
class BinlogReader:
    """One pass over a log. `position` moves with each change that is taken from `feed`."""

    done: TransactionSet
    skip: Position  # within the transaction that was under way: what was read of it before
    is_wanted: IsWanted
    charsets: Mapping[int, str]
    special: Callable[[str, str], Mapping[str, str]]  # of a table, the types of columns that logs do not tell
    describe: Row
    ts_ms: int = 0
    _file: str = ""
    _gtid: str = ""
    _is_alone: bool = False
    _event: int = 0
    _row: int = 0
    _maps: dict[int, bytes] = field(default_factory=dict)
    _wanted: dict[int, RowsReader | None] = field(default_factory=dict)
    _readers: dict[bytes, RowsReader | None] = field(default_factory=dict)
    statements: list[TableStatement] = field(default_factory=list)  # about tables that are wanted

    def take_statements(self) -> list[TableStatement]:
        taken, self.statements = self.statements, []
        return taken

    @property
    def position(self) -> Position:
        if not self._gtid or (not self._event and not self._row):
            return Position(done=str(self.done))
        return Position(done=str(self.done), inside=self._gtid, event=self._event, row=self._row)

    def feed(self, event: bytes) -> Iterator[RowChange]:
        """Yield the changes of one event, each before the position moves over it."""
        seconds, kind, server, _, end, _ = _HEADER.unpack_from(event)
        body = event[_HEADER.size :]
        if kind in _ROWS:
            yield from self._rows(RowsEvent(kind), body, seconds, server, end)
        elif kind == _TABLE_MAP:
            self._note_map(body)
        elif kind == _GTID_EVENT:
            self._begin(body, seconds, server)
        elif kind in (_XID, _XA_PREPARE):
            self._commit()
        elif kind in (_QUERY, _QUERY_COMPRESSED):
            yield from self._statement(kind, body, server, end)
        elif kind == _ROTATE:
            self._file = body[8:].decode("utf-8", "replace")

    def _begin(self, body: bytes, seconds: int, server: int) -> None:
        number, domain, flags = _GTID.unpack_from(body)
        if flags & _PREPARED_XA:
            raise CaptureError(
                f"transaction {domain}-{server}-{number} was prepared by XA PREPARE, and its rows are in the log "
                "before anybody knows whether it commits: XA transactions are not captured. Nothing behind it was read"
            )
        self._gtid, self._is_alone = f"{domain}-{server}-{number}", bool(flags & _STANDALONE)
        self._event = self._row = 0
        self.ts_ms = seconds * 1000

    def _commit(self) -> None:
        if self._gtid:
            self.done.add(self._gtid)
        self._gtid, self._event, self._row = "", 0, 0
        self._maps.clear()
        self._wanted.clear()

    def _statement(self, kind: int, body: bytes, server: int, end: int) -> Iterator[RowChange]:
        database, text = query_of(kind, body)
        self._refuse_writes(database, text)
        word = text[:9].upper()
        if word.startswith("BEGIN") or _TO_SAVEPOINT.match(text):
            return
        found: list[RowChange] = []
        if not word.startswith(("COMMIT", "ROLLBACK", "SAVEPOINT")):
            found = list(self._truncated(database, text, server, end))
            self.statements += [
                TableStatement(table, text, self._gtid, self.ts_ms)
                for table in tables_of(database, text)
                if self.is_wanted(table)
            ]
        if self._is_alone or word.startswith(("COMMIT", "ROLLBACK")):
            self._commit()
        yield from found  # behind the position: whoever stops reading here does not read it again

    def _refuse_writes(self, database: str, text: str) -> None:
        """Raise CaptureError for a statement in place of rows, unless it names no table that is wanted."""
        if _WRITES.match(text) and any(self.is_wanted(f"{of or database}.{name}") for of, name in _NAME.findall(text)):
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
            raise CaptureError(
                f"transaction {self._gtid} is in the binlog as a statement, without its rows: {shown!r}. Whoever wrote "
                "it had another binlog_format: type SET GLOBAL binlog_format = 'ROW' in MariaDB, have its programs "
                "connect anew, then pyromq cdc reset and pyromq cdc run, which reads all rows again"
            )

    def _truncated(self, database: str, text: str, server: int, end: int) -> Iterator[RowChange]:
        words = text.replace("`", "").rstrip("; ").split()
        if len(words) >= 2 and words[0].upper() == "TRUNCATE":
            name = words[2] if words[1].upper() == "TABLE" and len(words) > 2 else words[1]
            full = name if "." in name else f"{database}.{name}"
            if self.is_wanted(full) and self.skip.inside != self._gtid:
                table = SourceTable(full.partition(".")[0], full.partition(".")[2], ())
                yield self._change(table, Op.TRUNCATE, None, None, self.ts_ms // 1000, server, end, len(text))

    def _note_map(self, body: bytes) -> None:
        number = table_id(body)
        self._maps[number] = body
        described = body[6:]
        if described not in self._readers:
            wanted = self.is_wanted(table_name(body))  # others may have types that we do not know
            self._readers[described] = self._reader(body) if wanted else None
        self._wanted[number] = self._readers[described]

    def _reader(self, body: bytes) -> RowsReader:
        table = read_table_map(body, {})
        if any(column.type is ColumnType.STRING and column.detail in (4, 16) for column in table.columns):
            table = read_table_map(body, self.special(table.database, table.name))
        return RowsReader(table, self.charsets)

    def _rows(self, kind: RowsEvent, body: bytes, seconds: int, server: int, end: int) -> Iterator[RowChange]:
        number = table_id(body)
        if number not in self._wanted:
            raise CaptureError(f"the binlog is damaged: rows of table number {number} without its description")
        reader = self._wanted[number]
        if reader is not None and not self._is_behind():
            if kind >= RowsEvent.WRITE_COMPRESSED:
                body = _decompressed(body, 2 if OPS[kind] is Op.UPDATE else 1)
            for before, after, size in reader.rows(OPS[kind], body):
                self._row += 1
                if self._skip_row():
                    continue
                yield self._change(reader.table, OPS[kind], before, after, seconds, server, end, size)
        self._event, self._row = self._event + 1, 0

    def _is_behind(self) -> bool:
        """Return whether this whole event was read before."""
        return self.skip.inside == self._gtid and self._event < self.skip.event

    def _skip_row(self) -> bool:
        return self.skip.inside == self._gtid and self._event == self.skip.event and self._row <= self.skip.row

    def _change(
        self,
        table: SourceTable,
        op: Op,
        before: Row | None,
        after: Row | None,
        seconds: int,
        server: int,
        end: int,
        size: int,
    ) -> RowChange:
        source = self.describe | {
            "ts_ms": seconds * 1000, "db": table.database, "table": table.name, "server_id": server,
            "gtid": self._gtid, "file": self._file, "pos": end, "row": max(self._row - 1, 0),
        }  # fmt: skip
        return RowChange(table, op, before, after, seconds * 1000, source, self._gtid, size, self._gtid)


def query_of(kind: int, body: bytes) -> tuple[str, str]:
    """Return the database and the text of a statement."""
    _, _, length, _, variables = _QUERY_HEAD.unpack_from(body)
    at = _QUERY_HEAD.size + variables
    database = body[at : at + length].decode("utf-8", "replace")
    text = body[at + length + 1 :]
    if kind == _QUERY_COMPRESSED:
        text = _inflated(text)
    return database, text.decode("utf-8", "replace")


def _decompressed(body: bytes, bitmaps: int) -> bytes:
    """Return an event with rows as it is without log_bin_compress: its head as it is, the rest inflated."""
    cursor = Cursor(body, at=8)
    width = (cursor.packed() + 7) // 8
    head = cursor.at + bitmaps * width
    return body[:head] + _inflated(body[head:])


def _inflated(data: bytes) -> bytes:
    """Return what MariaDB compressed: one byte with the bytes of the length, the length, zlib's bytes."""
    width = data[0] & 7
    return zlib.decompress(data[1 + width :])
