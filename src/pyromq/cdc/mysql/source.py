"""A MySQL server as a source: connects as a replica does, and reads what is not in a set of GTIDs. Blocks."""

from __future__ import annotations

import struct

from ..binlog.source import HEARTBEAT_S, BinlogSource, ask
from ..changes import Position
from .gtids import ExecutedGtids
from .log import MySqlReader

_BINLOG_DUMP_GTID = 0x1E
_THROUGH_GTID = 4
_DUMP = struct.Struct("<HIIQI")  # flags, our number, length of a file's name, place in it, length of the set


class MySqlSource(BinlogSource):
    """The log of one server from a position on."""

    connector = "mysql"
    gtids = ExecutedGtids
    reader = MySqlReader

    def _dump(self, start: Position, server_id: int) -> None:
        for word in ("source", "master"):  # of newer and older servers
            ask(self._connection, f"SET @{word}_heartbeat_period = {round(HEARTBEAT_S * 1e9)}")
            ask(self._connection, f"SET @{word}_binlog_checksum = 'CRC32'")
        executed = ExecutedGtids(start.done).encode()
        body = _DUMP.pack(_THROUGH_GTID, server_id, 0, 4, len(executed)) + executed
        self._connection._execute_command(_BINLOG_DUMP_GTID, body)  # type: ignore[attr-defined]
