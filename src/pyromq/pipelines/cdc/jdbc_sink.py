"""Rows as rows of PostgreSQL: upserts and deletes by key, each piece in one transaction with the numbers of its events.

The numbers stand in a table of our own, `pyromq_cdc`, which is made where it is missing; they are compared and moved in
the same transaction, so a repeat, a late event or a second writer changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from ...errors import PyroError
from ...text.extras import install_command
from .rows import UNNUMBERED, RowWrite
from .sinks import Applied, OpenSink, SinkAway, SinkRefused, without_password

NUMBERS = "pyromq_cdc"
_MAKE = (
    f"CREATE TABLE IF NOT EXISTS {NUMBERS} (row_table text, row_key text, number bigint NOT NULL, "
    "PRIMARY KEY (row_table, row_key))"
)
_MOVE = (
    f"INSERT INTO {NUMBERS} (row_table, row_key, number) VALUES %s ON CONFLICT (row_table, row_key) DO UPDATE "
    f"SET number = EXCLUDED.number WHERE {NUMBERS}.number < EXCLUDED.number RETURNING row_table, row_key"
)

_ADD = "ALTER TABLE ... ADD COLUMN, or RENAME COLUMN if the source has done that"


@dataclass(frozen=True)
class JdbcSink:
    """`schema` is where the tables are, which have the names that they have in the source."""

    url: str
    schema: str = "public"

    @property
    def place(self) -> str:
        return f"{without_password(self.url)} schema {self.schema}"

    def check(self, *, dry_run: bool = False) -> None:
        """Raise PyroError if the package is missing, or the database cannot be used; make the table of numbers.

        A dry run takes the table back.
        """
        try:
            import psycopg2
        except ImportError:
            raise PyroError(f"PostgreSQL needs the package psycopg2: {install_command('cdc')}") from None
        try:
            with self.connected() as connection, connection.cursor() as cursor:
                cursor.execute(_MAKE)
                if not dry_run:
                    connection.commit()
        except psycopg2.Error as fault:
            words = str(fault).strip().splitlines()[0]
            raise PyroError(
                f"{self.place} cannot be used: {words}. Write --postgres postgresql://USER@HOST:PORT/DATABASE"
            ) from None

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Yield a connection that finds the tables of the schema."""
        import psycopg2

        connection = psycopg2.connect(self.url, connect_timeout=5, options=f"-c search_path={self.schema}")
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def opened(self) -> Iterator[OpenSink]:
        found = _OpenJdbc(self)
        try:
            yield found
        finally:
            found.close()


class _OpenJdbc:
    def __init__(self, sink: JdbcSink) -> None:
        self._sink = sink
        self._connection: Any = None
        self._left: Any = None

    def close(self) -> None:
        if self._left is not None:
            self._left.__exit__(None, None, None)
        self._left = self._connection = None

    def apply(self, writes: Sequence[RowWrite]) -> Applied:
        import psycopg2

        try:
            with self._transaction() as cursor:
                return self._apply(cursor, writes)
        except psycopg2.errors.UndefinedTable as fault:
            raise SinkRefused(f"{self._sink.place}: {_words(fault)}; make it: {_create(writes[0])}") from None
        except psycopg2.errors.UndefinedColumn as fault:
            raise SinkRefused(f"{self._sink.place}: {_words(fault)}; make it: {_ADD}") from None
        except (psycopg2.DataError, psycopg2.IntegrityError, psycopg2.ProgrammingError, ValueError, TypeError) as fault:
            raise SinkRefused(f"{self._sink.place}: {_words(fault)}") from None

    def sweep(self, table: str, below: int) -> int:
        import psycopg2

        try:
            with self._transaction() as cursor:
                return _sweep(cursor, table, below)
        except psycopg2.errors.UndefinedTable:
            return 0

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Yield a cursor whose work is committed, or taken back. SinkAway for what passes: a server that is not
        reached, whose disk is full, that is read-only or refuses rights, a deadlock."""
        import psycopg2
        from psycopg2 import errors

        try:
            if self._connection is None:
                self._left = self._sink.connected()
                self._connection = self._left.__enter__()
            with self._connection, self._connection.cursor() as cursor:
                yield cursor
        except (psycopg2.DataError, psycopg2.IntegrityError, psycopg2.ProgrammingError) as fault:
            if isinstance(fault, errors.InsufficientPrivilege):
                raise SinkAway(f"{self._sink.place}: {_words(fault)}") from None
            raise
        except psycopg2.Error as fault:
            self.close()
            raise SinkAway(f"{self._sink.place}: {_words(fault)}") from None

    def _apply(self, cursor: Any, writes: Sequence[RowWrite]) -> Applied:
        from psycopg2.extras import execute_values

        numbered = [(each.table, each.key_text, each.number) for each in writes if each.number != UNNUMBERED]
        moved = set(execute_values(cursor, _MOVE, sorted(numbered), page_size=1000, fetch=True)) if numbered else set()
        wanted = [each for each in writes if each.number == UNNUMBERED or (each.table, each.key_text) in moved]
        deleted = 0
        for each in wanted:
            cursor.execute(*_statement(cursor, each))
            deleted += each.values is None
        return Applied(len(wanted) - deleted, deleted, len(writes) - len(wanted))


def _statement(cursor: Any, write: RowWrite) -> tuple[Any, list[Any]]:
    from psycopg2 import sql

    table = sql.Identifier(write.table.rpartition(".")[2])
    equal = sql.SQL(" AND ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in write.key)
    if write.values is None:
        return sql.SQL("DELETE FROM {} WHERE {}").format(table, equal), [given(each) for each in write.key.values()]
    row = {**write.values, **write.key}
    rest = [name for name in row if name not in write.key]
    sets = sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in rest)
    text = sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO {}").format(
        table,
        sql.SQL(", ").join(map(sql.Identifier, row)),
        sql.SQL(", ").join([sql.Placeholder()] * len(row)),
        sql.SQL(", ").join(map(sql.Identifier, write.key)),
        sql.SQL("UPDATE SET {}").format(sets) if rest else sql.SQL("NOTHING"),
    )
    return text, [given(each) for each in row.values()]


def _sweep(cursor: Any, name: str, below: int) -> int:
    """Delete all rows of a table but those that came later."""
    from psycopg2 import sql
    from psycopg2.extras import execute_values

    table = sql.Identifier(name.rpartition(".")[2])
    cursor.execute(f"SELECT row_key FROM {NUMBERS} WHERE row_table = %s AND number >= %s", (name, below))
    newer = [msgspec.json.decode(key) for (key,) in cursor.fetchall()]
    where: sql.Composable = sql.SQL("true")
    if newer:
        columns = [sql.Identifier(each) for each in newer[0]]
        listed = sql.SQL(", ").join(columns)
        made = sql.SQL("CREATE TEMPORARY TABLE pyromq_newer ON COMMIT DROP AS SELECT {} FROM {} WHERE false")
        cursor.execute(made.format(listed, table))
        execute_values(cursor, "INSERT INTO pyromq_newer VALUES %s", [[*map(given, key.values())] for key in newer])
        equal = sql.SQL(" AND ").join(sql.SQL("n.{0} = t.{0}").format(each) for each in columns)
        where = sql.SQL("NOT EXISTS (SELECT FROM pyromq_newer n WHERE {})").format(equal)
    cursor.execute(sql.SQL("DELETE FROM {} t WHERE {}").format(table, where))
    count: int = cursor.rowcount
    cursor.execute(f"UPDATE {NUMBERS} SET number = %s WHERE row_table = %s AND number < %s", (below, name, below))
    return count


def given(value: Any) -> Any:
    """Return a value as it is given to a statement: lists and objects as JSON."""
    return msgspec.json.encode(value).decode() if isinstance(value, (dict, list)) else value


def _words(fault: Exception) -> str:
    return " ".join(str(fault).split())


def _create(write: RowWrite) -> str:
    """Return a statement that makes a table for the row, to be mended by whoever types it."""
    types = {bool: "boolean", int: "bigint", float: "double precision", dict: "jsonb", list: "jsonb"}
    row = {**(write.values or {}), **write.key}
    columns = [f'"{name}" {types.get(type(value), "text")}' for name, value in row.items()]
    keys = ", ".join(f'"{name}"' for name in write.key)
    return f'CREATE TABLE "{write.table.rpartition(".")[2]}" ({", ".join(columns)}, PRIMARY KEY ({keys}))'
