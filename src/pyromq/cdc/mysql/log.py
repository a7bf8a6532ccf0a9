"""Events of a MySQL binlog in, changes of rows out: what is other than in MariaDB's. Owns no socket."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NoReturn
from uuid import UUID

from ..binlog.log import BinlogReader, query_of
from ..binlog.rows import RowsEvent, RowsReader
from ..binlog.table_map import MYSQL_CHARACTER, read_table_map
from ..changes import CaptureError, RowChange

_HEADER = struct.Struct("<IBIIIH")
_NUMBER = struct.Struct("<Q")
_QUERY, _GTID, _ANONYMOUS = 2, 33, 34
_ROWS = {30: RowsEvent.WRITE, 31: RowsEvent.UPDATE, 32: RowsEvent.DELETE}  # with more in their heads
_HEAD = 8  # of the older events with rows
_REFUSED = {
    39: "updates parts of JSON values: type SET GLOBAL binlog_row_value_options = ''",
    40: "is compressed: type SET GLOBAL binlog_transaction_compression = OFF",
    42: "has a GTID with a tag: those are not captured; let programs set gtid_next without one",
}


class MySqlReader(BinlogReader):
    """One pass over a log."""

    __slots__ = ()

    def feed(self, event: bytes) -> Iterator[RowChange]:
        """Yield the changes of one event, each before the position moves over it."""
        seconds, kind, server, _, end, _ = _HEADER.unpack_from(event)
        body = event[_HEADER.size :]
        if kind in _ROWS:
            behind_head = _HEAD + int.from_bytes(body[_HEAD : _HEAD + 2], "little")
            yield from self._rows(_ROWS[kind], body[:_HEAD] + body[behind_head:], seconds, server, end)
        elif kind == _GTID:
            self._start(body, seconds)
        elif kind == _ANONYMOUS:
            self._refuse("has no GTID: type SET GLOBAL gtid_mode = ON step by step, as MySQL's manual has it")
        elif kind in _REFUSED:
            self._refuse(_REFUSED[kind])
        else:
            if kind == _QUERY:
                self._note_statement(query_of(kind, body)[1])
            yield from BinlogReader.feed(self, event)

    def _start(self, body: bytes, seconds: int) -> None:
        number = _NUMBER.unpack_from(body, 17)[0]
        self._gtid = f"{UUID(bytes=body[1:17])}:{number}"
        self._is_alone = True  # until it says BEGIN
        self._event = self._row = 0
        self.ts_ms = seconds * 1000

    def _note_statement(self, text: str) -> None:
        words = text[:9].upper()
        if words.startswith("BEGIN"):
            self._is_alone = False
        elif words.startswith("XA START"):
            self._refuse("is prepared by XA, and its rows are in the log before anybody knows whether it commits")

    def _refuse(self, why: str) -> NoReturn:
        what = f"transaction {self._gtid}" if self._gtid else "the transaction"
        raise CaptureError(f"{what} behind {self.done} {why}. Nothing behind it was read")

    def _reader(self, body: bytes) -> RowsReader:
        return RowsReader(read_table_map(body, {}, MYSQL_CHARACTER), self.charsets)
