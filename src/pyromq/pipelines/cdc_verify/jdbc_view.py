"""Tables of PostgreSQL, looked at. The server itself casts the source's values to its columns' types, and shows both
sides as texts: so 12.50 and 12.5, two spellings of a moment, or of a JSON object, are told apart or not as it does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from ...errors import PyroError
from ...model.wire_text import whole_number
from ...text.extras import install_command
from ..cdc.jdbc_sink import JdbcSink, given
from ..cdc.rows import RowWrite
from .chunks import ComparedRow, TaskPart, compared
from .views import ComparedTable, OpenView

_COLUMNS = (
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typname FROM pg_attribute a "
    "JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = to_regclass(quote_ident(%s)) AND a.attnum > 0 "
    "AND NOT a.attisdropped ORDER BY a.attnum"
)
_WHOLE = {"int2", "int4", "int8"}
_AT_ONCE = 500
_ITERSIZE = 2_000


@dataclass(frozen=True)
class JdbcView:
    sink: JdbcSink
    has_shares: bool = False

    @property
    def place(self) -> str:
        return self.sink.place

    def check(self) -> None:
        """Raise PyroError if the package is missing, or the database cannot be used. Nothing is made there."""
        try:
            import psycopg2
        except ImportError:
            raise PyroError(f"PostgreSQL needs the package psycopg2: {install_command('cdc')}") from None
        try:
            with self.sink.connected():
                pass
        except psycopg2.Error as fault:
            raise PyroError(
                f"{self.place} cannot be used: {str(fault).strip().splitlines()[0]}. Write --postgres "
                "postgresql://USER@HOST:PORT/DATABASE"
            ) from None

    def at(self, table: ComparedTable) -> Self:
        return self

    def has_ranges(self, table: ComparedTable) -> bool:
        with self._opened(table) as found:
            return found.has_ranges

    @contextmanager
    def opened(self, table: ComparedTable) -> Iterator[OpenView]:
        with self._opened(table) as found:
            yield found

    @contextmanager
    def _opened(self, table: ComparedTable) -> Iterator[_OpenJdbc]:
        import psycopg2

        try:
            with self.sink.connected() as connection:
                connection.set_session(readonly=True)
                yield _OpenJdbc(connection, table)
        except psycopg2.Error as fault:
            raise PyroError(f"{self.place}: {' '.join(str(fault).split())}") from None


class _OpenJdbc:
    def __init__(self, connection: Any, table: ComparedTable) -> None:
        self._connection = connection
        self._table = table
        self._name = table.name.rpartition(".")[2]
        with connection.cursor() as cursor:
            cursor.execute(_COLUMNS, [self._name])
            found = cursor.fetchall()
        self._types = {name: kind for name, kind, _ in found}
        self.has_ranges = any(name == table.first and kind in _WHOLE for name, _, kind in found)

    def expected(self, writes: Sequence[RowWrite]) -> Iterator[ComparedRow]:
        for begin in range(0, len(writes), _AT_ONCE):
            part = writes[begin : begin + _AT_ONCE]
            found = self._cast(part)
            if found is None:  # a value that the table does not take: find which, and let it be as it is
                found = [self._cast([each]) or [_as_it_is(each)] for each in part]
                found = [row for rows in found for row in rows]
            for write, row in zip(part, found, strict=True):
                yield self._compared(row)._replace(first=write.key[self._table.first])

    def _cast(self, writes: Sequence[RowWrite]) -> list[Any] | None:
        """Return the rows as PostgreSQL shows them in the types of its table; None if it refuses one."""
        import psycopg2
        from psycopg2 import sql

        rows = [{**(write.values or {}), **write.key} for write in writes]
        names = [name for name in rows[0] if name in self._types]
        if not names:
            return None
        one = sql.SQL("({})").format(
            sql.SQL(", ").join(sql.SQL("CAST(%s AS {})::text").format(sql.SQL(self._types[name])) for name in names)
        )
        values = [given(row[name]) for row in rows for name in names]
        try:
            with self._connection, self._connection.cursor() as cursor:
                cursor.execute(sql.SQL("VALUES {}").format(sql.SQL(", ").join([one] * len(rows))), values)
                found = cursor.fetchall()
        except (psycopg2.DataError, psycopg2.ProgrammingError, psycopg2.NotSupportedError, ValueError):
            return None
        lacking = [{name: row[name] for name in row if name not in self._types} for row in rows]
        return [{**dict(zip(names, each, strict=True)), **more} for each, more in zip(found, lacking, strict=True)]

    def rows(self, piece: TaskPart) -> Iterator[ComparedRow]:
        from psycopg2 import sql

        if not self._types:
            return
        chosen = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in self._types)
        for each in piece.ranges:
            within = each.condition(f'"{self._table.first.replace(chr(34), chr(34) * 2)}"') if self.has_ranges else ""
            statement = sql.SQL("SELECT {} FROM {}").format(chosen, sql.Identifier(self._name))
            if within:
                statement += sql.SQL(f" WHERE {within}")
            with self._connection, self._connection.cursor("pyromq_verify") as cursor:
                cursor.itersize = _ITERSIZE
                cursor.execute(statement)
                for row in cursor:
                    yield self._compared(dict(zip(self._types, row, strict=True)))

    def _compared(self, row: dict[str, Any]) -> ComparedRow:
        key = {name: row.get(name) for name in self._table.key}
        found = compared(key, self._table.first, row, self._table.columns)
        return found._replace(first=whole_number(found.first, -(1 << 63), 1 << 64))


def _as_it_is(write: RowWrite) -> dict[str, Any]:
    return {**(write.values or {}), **write.key}
