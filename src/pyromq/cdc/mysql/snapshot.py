"""The rows of a MySQL server's tables at one set of GTIDs. MySQL does not tell at which place a snapshot stands.

So writes are held up for the moment in which the transaction begins and the set is read (FLUSH TABLES WITH READ LOCK).
"""

from __future__ import annotations

from ...model.wire_text import whole_number
from ..binlog.snapshot import MariaDbSnapshot
from ..binlog.source import ask, one
from ..changes import CaptureError
from .gtids import ExecutedGtids

_WITHOUT_MASTERS = (8, 4)  # from this version on statements have other names


class MySqlSnapshot(MariaDbSnapshot):
    """One transaction. A lost connection loses it: the rest is read by another one."""

    connector = "mysql"

    def _begin(self) -> tuple[str, str, int]:
        connection = self._connection
        ask(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        ask(connection, "FLUSH TABLES WITH READ LOCK")
        try:
            ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            done = str(ExecutedGtids(one(connection, "SELECT @@GLOBAL.gtid_executed") or ""))
            what = "BINARY LOG" if _version(one(connection, "SELECT VERSION()")) >= _WITHOUT_MASTERS else "MASTER"
            found = ask(connection, f"SHOW {what} STATUS")
        finally:
            ask(connection, "UNLOCK TABLES")
        if not found:
            raise CaptureError("MySQL writes no binlog: start it with --log-bin, and see pyromq cdc check")
        if not done:
            raise CaptureError("MySQL has no GTIDs: set gtid_mode = ON, and see pyromq cdc check")
        return done, found[0][0], found[0][1]


def _version(text: str) -> tuple[int, ...]:
    return tuple(whole_number(part) or 0 for part in text.split("-")[0].split(".")[:2])
