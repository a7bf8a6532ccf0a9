"""Rows of MariaDB's tables by ranges of their key, as they are now."""

from __future__ import annotations

from collections.abc import Iterator

from ..address import ServerAddress
from ..changes import CaptureError, DatabaseAway, IsWanted, RowChange, SourceTable
from ..events import Op, Row
from ..key_ranges import PAGE, KeyRange, walked, whole_number_column
from .snapshot import TABLES, MariaDbTableReader
from .source import ask, connect, one, quoted


class MariaDbRows:
    def __init__(self, address: ServerAddress, is_wanted: IsWanted) -> None:
        self._is_wanted = is_wanted
        self._connection = connect(address)
        self._known: dict[str, MariaDbTableReader] = {}

    def tables(self) -> list[str]:
        names = (f"{each[0]}.{each[1]}" for each in ask(self._connection, TABLES))
        return [name for name in names if self._is_wanted(name)]

    def _reader(self, name: str) -> MariaDbTableReader:
        if name not in self._known:
            self._known[name] = MariaDbTableReader.of(self._connection, *name.split(".", 1))
        return self._known[name]

    def table(self, name: str) -> SourceTable:
        return self._reader(name).table

    def range_column(self, name: str) -> str | None:
        reader = self._reader(name)
        return whole_number_column(reader.table, reader.keys)

    def bounds(self, name: str, rows: int) -> list[int]:
        """Return where ranges of so many rows begin, the first one left out."""
        column = quoted(self.range_column(name) or "")
        place = f"{quoted(self.table(name).database)}.{quoted(self.table(name).name)}"

        def next_bound(last: int | None) -> int | None:
            behind = "" if last is None else f" WHERE {column} >= {last}"
            statement = f"SELECT {column} FROM {place}{behind} ORDER BY {column} LIMIT 1 OFFSET {rows}"
            found: int | None = one(self._connection, statement)
            if found is not None and found == last:  # more rows than a range may have begin with the same number
                found = one(self._connection, f"SELECT MIN({column}) FROM {place} WHERE {column} > {last}")
            return found

        return walked(next_bound)

    def rows(self, name: str, within: KeyRange) -> Iterator[list[RowChange]]:
        """Yield the rows of a range, some at a time, in the order of the key."""
        import pymysql

        reader = self._reader(name)
        source: Row = {"connector": "mariadb", "db": reader.table.database, "table": reader.table.name}
        condition = within.condition(quoted(self.range_column(name) or ""))
        last: tuple[str, ...] | None = None
        while True:
            try:
                found = reader.read(self._connection, last, PAGE, condition)
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as fault:
                raise DatabaseAway(f"the connection to MariaDB broke while {name} was read: {fault}") from fault
            except pymysql.Error as fault:
                raise CaptureError(f"table {name} cannot be read: {fault}. Type pyromq cdc check") from fault
            yield [RowChange(reader.table, Op.READ, None, row, 0, source) for row, _ in found]
            if len(found) < PAGE:
                return
            last = found[-1][1]

    def close(self) -> None:
        self._connection.close()
