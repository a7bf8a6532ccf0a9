"""The rows of a MariaDB server's tables at one GTID, without a lock: one transaction with a consistent snapshot.

The server says at which place of its binlog such a transaction stands. Rows are read in the order of their key, some at
a time, and their values written as the log's are.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any

from ... import __version__
from ...model.wire_text import decimal_number, whole_number
from ..address import ServerAddress
from ..changes import (
    CaptureError,
    Column,
    DatabaseAway,
    IsWanted,
    Position,
    RowChange,
    SnapshotRows,
    SourceTable,
    TableSize,
)
from ..events import Op, Row
from .gtids import GtidSet
from .source import ask, connect, one, quoted
from .values import shortest_float

TABLES = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, CAST(COALESCE(TABLE_ROWS, 0) AS SIGNED) FROM information_schema.TABLES "
    "WHERE TABLE_TYPE = 'BASE TABLE' ORDER BY 1, 2"
)
_COLUMNS_OF_TABLE = (
    "SELECT c.COLUMN_NAME, c.DATA_TYPE, c.COLUMN_TYPE, COALESCE(c.DATETIME_PRECISION, 0), k.ORDINAL_POSITION "
    "FROM information_schema.COLUMNS c LEFT JOIN information_schema.KEY_COLUMN_USAGE k "
    "ON k.TABLE_SCHEMA = c.TABLE_SCHEMA AND k.TABLE_NAME = c.TABLE_NAME AND k.COLUMN_NAME = c.COLUMN_NAME "
    "AND k.CONSTRAINT_NAME = 'PRIMARY' WHERE c.TABLE_SCHEMA = %s AND c.TABLE_NAME = %s"
)
_ORDER = " ORDER BY c.ORDINAL_POSITION"
_STORED = " AND (c.IS_GENERATED <> 'ALWAYS' OR c.EXTRA LIKE '%%STORED%%')"
# By whether it is MariaDB: MySQL's logs have columns that are computed and not stored, too.
_COLUMNS = {True: _COLUMNS_OF_TABLE + _STORED + _ORDER, False: _COLUMNS_OF_TABLE + _ORDER}
_EPOCH = date(1970, 1, 1)
_TABLE_IS_NEWER = 1412  # ER_TABLE_DEF_CHANGED: than the transaction that reads it
_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_WHOLE_NUMBERS = {"tinyint", "smallint", "mediumint", "int", "bigint", "year"}
_BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_BYTES |= {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"}
_BYTES |= {"geometrycollection"}

ReadText = Callable[[Any], Any]  # of a text, or of bytes


class MariaDbSnapshot:
    """One transaction. A lost connection loses it: the rest is read by another one."""

    connector = "mariadb"

    def __init__(self, address: ServerAddress, name: str, is_wanted: IsWanted) -> None:
        self._is_wanted = is_wanted
        self._connection = connect(address)
        try:
            done, file, at = self._begin()
        except BaseException:
            self.close()
            raise
        self.position = Position(done=done)
        self._now_ms = one(self._connection, "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)")
        self._source: Row = {
            "version": __version__, "connector": self.connector, "name": name, "snapshot": "true",
            "ts_ms": self._now_ms, "gtid": done, "file": file, "pos": at, "row": 0, "server_id": 0,
        }  # fmt: skip
        self._known: dict[str, MariaDbTableReader] = {}

    def _begin(self) -> tuple[str, str, int]:
        """Begin the transaction. Return which transactions it sees, and the place in the log's files."""
        ask(self._connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        ask(self._connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        status = dict(ask(self._connection, "SHOW STATUS LIKE 'binlog_snapshot_%'"))
        file, place = status.get("Binlog_snapshot_file", ""), status.get("Binlog_snapshot_position", "")
        if not file or (at := whole_number(place)) is None:
            raise CaptureError("MariaDB writes no binlog: start it with --log-bin, and see pyromq cdc check")
        done = one(self._connection, "SELECT BINLOG_GTID_POS(%s, %s)", file, at)
        return str(GtidSet(done or "")), file, at

    def tables(self) -> list[TableSize]:
        """Return the tables to read. CaptureError for one whose engine knows no transactions."""
        found = ask(self._connection, TABLES)
        return [TableSize(f"{each[0]}.{each[1]}", each[2]) for each in found if self._is_wanted(f"{each[0]}.{each[1]}")]

    def rows(self, table: str, last: tuple[str, ...] | None, most: int) -> SnapshotRows:
        """Return the rows behind a key, at most so many; all rows at once of a table without a key."""
        import pymysql

        try:
            if table not in self._known:
                self._known[table] = MariaDbTableReader.of(self._connection, *table.split(".", 1))
            reader = self._known[table]
            found = reader.read(self._connection, last, most)
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as fault:
            if fault.args[:1] == (_TABLE_IS_NEWER,):
                raise DatabaseAway(f"{table} was made or altered after the snapshot began, another reads it") from fault
            raise DatabaseAway(f"the connection to the database broke while {table} was read: {fault}") from fault
        except pymysql.Error as fault:
            raise CaptureError(
                f"table {table} cannot be read: {fault}. Leave it out, or type pyromq cdc check"
            ) from fault
        changes = [self._change(reader.table, row) for row, _ in found]
        is_last = not reader.keys or len(found) < most
        return SnapshotRows(changes, None if is_last else found[-1][1])

    def _change(self, table: SourceTable, row: Row) -> RowChange:
        source = self._source | {"db": table.database, "table": table.name}
        return RowChange(table, Op.READ, None, row, self._now_ms, source, place=self.position.done)

    def close(self) -> None:
        self._connection._force_close()  # type: ignore[attr-defined]


class MariaDbTableReader:
    """Statements and readers of one table."""

    def __init__(
        self, table: SourceTable, columns: Sequence[tuple[Column, str, ReadText]], keys: Sequence[str]
    ) -> None:
        self.table, self.keys = table, tuple(keys)
        self._names = [column.name for column, _, _ in columns]
        self._readers = [read for _, _, read in columns]
        chosen = [form.format(quoted(column.name)) for column, form, _ in columns]
        kinds = {column.name: column for column, _, _ in columns}
        chosen += [_literal(kinds[name]) for name in self.keys]
        self._select = f"SELECT {', '.join(chosen)} FROM {quoted(table.database)}.{quoted(table.name)}"

    @classmethod
    def of(cls, connection: Any, database: str, name: str) -> MariaDbTableReader:
        found = ask(connection, _COLUMNS[_is_mariadb(connection)], database, name)
        if not found:
            raise CaptureError(f"table {database}.{name} is no longer there: exclude it, or type pyromq cdc reset")
        columns = [
            (_column(*each), _FORMS.get(each[1], "{}"), _reader(each[1], each[3], _column(*each))) for each in found
        ]
        keys = [each[0] for each in sorted((each for each in found if each[4]), key=lambda each: each[4])]
        return cls(SourceTable(database, name, tuple(column for column, _, _ in columns)), columns, keys)

    def read(
        self, connection: Any, last: tuple[str, ...] | None, most: int, within: str = ""
    ) -> list[tuple[Row, tuple[str, ...]]]:
        """Return rows, each with its key as the database quotes it. `within` is a further condition, as SQL."""
        statement = self._select
        if self.keys:
            order = ", ".join(map(quoted, self.keys))
            conditions = " AND ".join(each for each in (_behind(self.keys, last), within) if each)
            statement += f"{' WHERE ' if conditions else ''}{conditions} ORDER BY {order} LIMIT {most}"
        found = _plain(connection, statement)
        width = len(self._names)
        return [
            (
                {
                    name: None if value is None else read(value)
                    for name, value, read in zip(self._names, row, self._readers, strict=False)
                },
                tuple(_text(value) for value in row[width:]),
            )
            for row in found
        ]


def _is_mariadb(connection: Any) -> bool:
    return "MariaDB" in connection.get_server_info()


def _plain(connection: Any, statement: str) -> list[tuple[Any, ...]]:
    """Return rows whose values are texts, or bytes, as the server writes them."""
    usual, connection.decoders = connection.decoders, {}
    try:
        return ask(connection, statement)
    finally:
        connection.decoders = usual


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8")


def _literal(column: Column) -> str:
    """Return what makes a value's literal. A quoted number would be compared as a double, which rounds."""
    name = quoted(column.name)
    if (column.kind.startswith("int") and not column.meaning) or column.type.startswith("decimal"):
        return name
    return f'CONCAT("x\'", HEX({name}), "\'")' if column.kind == "bytes" else f"QUOTE({name})"


def _behind(keys: Sequence[str], last: tuple[str, ...] | None) -> str:
    """Return the condition for keys behind the last one. Written out, since a comparison of rows uses no index."""
    if last is None:
        return ""
    parts = []
    for place in range(len(keys)):
        same = [f"{quoted(name)} = {value}" for name, value in zip(keys[:place], last[:place], strict=True)]
        parts.append(" AND ".join([*same, f"{quoted(keys[place])} > {last[place]}"]))
    return "(" + " OR ".join(f"({part})" for part in parts) + ")"


def _column(name: str, data_type: str, column_type: str, precision: int, key: int | None) -> Column:
    kind, meaning = _KINDS.get(data_type, ("bytes" if data_type in _BYTES else "string", ""))
    if data_type in ("smallint", "int") and "unsigned" not in column_type:
        kind = {"smallint": "int16", "int": "int32"}[data_type]
    if data_type == "datetime" and precision > 3:
        meaning = "io.debezium.time.MicroTimestamp"
    if data_type == "bit":
        kind, meaning = ("boolean", "") if column_type == "bit(1)" else ("bytes", "io.debezium.data.Bits")
    return Column(
        name=name, type=_type_in_logs(data_type, column_type), kind=kind, meaning=meaning, is_key=key is not None
    )


def _type_in_logs(data_type: str, column_type: str) -> str:
    """Return a column's type as logs tell of it: without the width that is only for show, and what is no type."""
    if data_type in _WHOLE_NUMBERS:
        return f"{data_type} unsigned" if data_type != "year" and "unsigned" in column_type else data_type
    if data_type in ("float", "double"):
        return data_type
    return column_type.split(" ")[0] if data_type == "decimal" else column_type


_KINDS = {
    "tinyint": ("int16", ""), "smallint": ("int32", ""), "mediumint": ("int32", ""), "int": ("int64", ""),
    "bigint": ("int64", ""), "float": ("float", ""), "double": ("double", ""),
    "year": ("int32", "io.debezium.time.Year"),
    "date": ("int32", "io.debezium.time.Date"), "time": ("int64", "io.debezium.time.MicroTime"),
    "datetime": ("int64", "io.debezium.time.Timestamp"), "timestamp": ("string", "io.debezium.time.ZonedTimestamp"),
    "enum": ("string", "io.debezium.data.Enum"), "set": ("string", "io.debezium.data.EnumSet"),
    "uuid": ("string", "io.debezium.data.Uuid"), "json": ("string", "io.debezium.data.Json"),
}  # fmt: skip
_FORMS = {"float": "CAST({} AS DOUBLE)"}  # else six digits of it


def _reader(data_type: str, precision: int, column: Column) -> ReadText:
    if data_type in _WHOLE_NUMBERS:
        return _whole
    if data_type in ("float", "double"):
        return (lambda text: shortest_float(_real(text))) if data_type == "float" else _real
    if data_type in _BYTES:
        return lambda value: b64encode(value if isinstance(value, bytes) else value.encode("latin-1")).decode()
    if data_type == "bit":
        return _flag if column.kind == "boolean" else _bits
    if data_type == "date":
        return _days
    if data_type == "time":
        return _time
    if data_type == "datetime":
        return lambda text: _moment(text, precision)
    if data_type == "timestamp":
        return _zoned
    return _text


def _whole(text: str) -> int:
    number = whole_number(text, -(1 << 63), (1 << 64) - 1)
    assert number is not None, f"MariaDB wrote {text!r} for a whole number"
    return number


def _real(text: str) -> float:
    number = decimal_number(text)
    assert number is not None, f"MariaDB wrote {text!r} for a number"
    return number


def _flag(value: bytes) -> bool:
    return value != b"\0"


def _bits(value: bytes) -> str:
    return b64encode(value[::-1]).decode()


def _days(text: str) -> int | str:
    try:
        return (date.fromisoformat(text) - _EPOCH).days
    except ValueError:
        return text  # 0000-00-00, or with a month or day 0


def _time(text: str) -> int:
    found = _TIME.fullmatch(text)
    assert found is not None, f"MariaDB wrote {text!r} for a TIME"
    sign, *parts, fraction = found.groups()
    hours, minutes, seconds = (_whole(part) for part in parts)
    micros = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + _whole((fraction or "0").ljust(6, "0"))
    return -micros if sign else micros


def _moment(text: str, precision: int) -> int | str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    days = (moment.date() - _EPOCH).days
    micros = (days * 86_400 + moment.hour * 3600 + moment.minute * 60 + moment.second) * 1_000_000 + moment.microsecond
    return micros if precision > 3 else micros // 1000


def _zoned(text: str) -> str:
    return text if text.startswith("0000") else text.replace(" ", "T") + "Z"
