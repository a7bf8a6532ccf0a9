"""A MariaDB server as a source: connects as a replica does, and reads from a GTID on. MySQL's builds on it.

Blocking, in a helper thread. PyMySQL does the handshake, TLS and passwords; `log.py` decodes what comes behind it.
"""

from __future__ import annotations

import socket
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ... import __version__
from ..address import ServerAddress
from ..changes import CaptureError, DatabaseAway, IsWanted, LogLost, Position, ReadBounds, RowChange, Slice
from ..events import Row
from .gtids import GtidSet, TransactionSet
from .log import BinlogReader

if TYPE_CHECKING:
    from pymysql.connections import Connection

_BINLOG_DUMP = 0x12
SPECIAL_COLUMNS = (
    "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s "
    "AND DATA_TYPE IN ('uuid', 'inet6', 'inet4')"
)
_COLLATIONS = "information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
_QUICK_S = 0.003  # for more, once there is something
HEARTBEAT_S = 1.0
_RECEIVE = 1 << 18
_WHOLE_PACKET = 0xFFFFFF
_AWAY = (1040, 1053, 1927, 2002, 2003, 2006, 2013)  # too many connections, shutting down, not there
_LOG_LOST = 1236  # of the server, for whatever it has not in its log


def server_name(address: ServerAddress) -> str:
    return f"{'MySQL' if address.kind == 'mysql' else 'MariaDB'} at {address.host}:{address.port}"


def connect(address: ServerAddress) -> Connection[Any]:
    """Return a connection whose session is in UTC. CaptureError says what kept it from being made."""
    import pymysql

    try:
        connection = pymysql.connect(
            host=address.host, port=address.port, user=address.user, password=address.password, charset="utf8mb4",
            connect_timeout=round(address.connect_s), autocommit=True,
            ssl={"ca": address.tls_ca} if address.tls_ca else None,
        )  # fmt: skip
        ask(connection, "SET SESSION time_zone = '+00:00', wait_timeout = 28800, net_write_timeout = 3600")
    except pymysql.Error as fault:
        if fault.args and fault.args[0] in _AWAY:
            raise DatabaseAway(f"{server_name(address)} cannot be reached: {_words(fault)}") from fault
        raise CaptureError(
            f"{server_name(address)} refused user {address.user!r}: {_words(fault)}. Type pyromq cdc "
            "check to see which rights are needed"
        ) from fault
    except OSError as fault:
        raise DatabaseAway(f"{server_name(address)} cannot be reached: {fault}") from fault
    return connection


def ask(connection: Connection[Any], statement: str, *values: object) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


def one(connection: Connection[Any], statement: str, *values: object) -> Any:
    found = ask(connection, statement, *values)
    return found[0][0] if found else None


def quoted(name: str) -> str:
    """Return a name as it stands in a statement that has no values of its own."""
    return "`" + name.replace("`", "``") + "`"


def _words(fault: Exception) -> str:
    return str(fault.args[-1]) if fault.args else str(fault)


def charsets(connection: Connection[Any]) -> dict[int, str]:
    """Return the character set of each collation by its number in the log."""
    columns = {each[0].upper() for each in ask(connection, f"SHOW COLUMNS FROM {_COLLATIONS}")}
    found = ask(connection, "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS WHERE ID IS NOT NULL")
    if "ID" in columns:  # MariaDB from 10.10 on has collations of many character sets
        found += ask(connection, f"SELECT ID, CHARACTER_SET_NAME FROM {_COLLATIONS}")
    return {number: name for number, name in found if name}


class BinlogSource:
    """The log of one server from a position on. After a lost connection the caller makes another source."""

    connector = "mariadb"
    gtids: Callable[[str], TransactionSet] = GtidSet
    reader: type[BinlogReader] = BinlogReader

    def __init__(
        self,
        address: ServerAddress,
        name: str,
        start: Position,
        is_wanted: IsWanted,
        server_id: int,
        until: Position | None = None,
    ) -> None:
        self._address = address
        self._until = None if until is None else self.gtids(until.done)
        self._connection = connect(address)
        describe: Row = {"version": __version__, "connector": self.connector, "name": name, "snapshot": "false"}
        self._reader = self.reader(
            self.gtids(start.done), start, is_wanted, charsets(self._connection), self._special, describe
        )
        self._buffer = bytearray()
        self._asking: Connection[Any] | None = None
        self._changes: Iterator[RowChange] = iter(())
        self._dump(start, server_id)
        self._socket: socket.socket = self._connection._sock  # type: ignore[attr-defined]  # PyMySQL's packets are too slow

    def _dump(self, start: Position, server_id: int) -> None:
        for statement in (
            f"SET @master_heartbeat_period = {round(HEARTBEAT_S * 1e9)}",
            "SET @master_binlog_checksum = 'CRC32'",
            "SET @mariadb_slave_capability = 4",
            f"SET @slave_connect_state = '{start.done}'",
            "SET @slave_gtid_strict_mode = 0, @slave_gtid_ignore_duplicates = 0",
        ):
            ask(self._connection, statement)
        self._connection._execute_command(_BINLOG_DUMP, struct.pack("<IHI", 4, 0, server_id))  # type: ignore[attr-defined]

    def read(self, bounds: ReadBounds) -> Slice:
        """Return what comes, up to the bounds: as soon as there is nothing more, or after the time to wait.

        Much log without a change for us ends it too, so that the position moves on.
        """
        reader, changes, size, passed = self._reader, [], 0, 0
        wait_s = bounds.wait_s
        while not self._has_come():
            for change in self._changes:
                changes.append(change)
                size += change.size
                if len(changes) >= bounds.rows or size >= bounds.bytes:
                    return self._slice(changes)
            if passed >= bounds.passed_bytes:
                return self._slice(changes)
            event = self._event(wait_s)
            if event is None:
                return self._slice(changes, is_caught_up=True)
            self._changes = reader.feed(event)
            passed += len(event)
            if changes:
                wait_s = _QUICK_S
        return self._slice(changes, Position(done=str(self._until)), is_caught_up=True)

    def _slice(self, changes: list[RowChange], end: Position | None = None, *, is_caught_up: bool = False) -> Slice:
        reader = self._reader
        return Slice(changes, end or reader.position, reader.ts_ms, is_caught_up, reader.take_statements())

    def _has_come(self) -> bool:
        """Return whether everything up to the place where this source ends was read."""
        return self._until is not None and not self._reader.position.inside and self._reader.done.covers(self._until)

    def _event(self, wait_s: float) -> bytes | None:
        """Return the next event without its checksum; None if none comes in time."""
        whole = b""
        while True:
            packet = self._packet(wait_s)
            if packet is None:
                return None
            whole += packet
            if len(packet) < _WHOLE_PACKET:
                break
        kind = whole[0] if whole else 0xFE
        if kind == 0xFF:
            raise self._refused(whole)
        if kind == 0xFE:
            raise DatabaseAway(f"{server_name(self._address)} ended the stream of its binlog")
        event, checksum = whole[1:-4], whole[-4:]
        if zlib.crc32(event) != int.from_bytes(checksum, "little"):
            raise CaptureError(
                "the binlog is damaged: the checksum of an event is wrong; type mariadb-binlog to look at it"
            )
        return event

    def _packet(self, wait_s: float) -> bytes | None:
        buffer = self._buffer
        while len(buffer) < 4 or len(buffer) < 4 + int.from_bytes(buffer[:3], "little"):
            try:
                self._socket.settimeout(wait_s)
                received = self._socket.recv(_RECEIVE)
            except TimeoutError:
                return None
            except (OSError, ValueError) as fault:
                raise DatabaseAway(f"the connection to {server_name(self._address)} broke: {fault}") from fault
            if not received:
                raise DatabaseAway(f"{server_name(self._address)} closed the connection")
            buffer += received
        end = 4 + int.from_bytes(buffer[:3], "little")
        packet = bytes(buffer[4:end])
        del buffer[:end]
        return packet

    def _refused(self, packet: bytes) -> CaptureError:
        number, text = int.from_bytes(packet[1:3], "little"), packet[9:].decode("utf-8", "replace")
        if number == _LOG_LOST:
            done = self._reader.position.done or "at the start"
            return LogLost(
                f"{server_name(self._address)} no longer has the binlog behind our position {done} ({text}). "
                "Type pyromq cdc reset, then pyromq cdc run: it reads all rows again"
            )
        return CaptureError(f"{server_name(self._address)} refused to stream its binlog: {text} ({number})")

    def _special(self, database: str, table: str) -> dict[str, str]:
        """Return which columns are UUID or INET6: the log has them as BINARY(16)."""
        if self._asking is None:
            self._asking = connect(self._address)
        return dict(ask(self._asking, SPECIAL_COLUMNS, database, table))

    def confirm(self, position: Position) -> None:
        """Do nothing: MariaDB expires its binlog by time, whoever reads it."""

    def close(self) -> None:
        if self._asking is not None:
            self._asking._force_close()  # type: ignore[attr-defined]
        self._connection._force_close()  # type: ignore[attr-defined]  # not `close`: it would wait for the stream
