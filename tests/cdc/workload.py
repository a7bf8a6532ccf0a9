"""Random changes to the tables of one database, each counted, and the statements in which databases differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.cdc.mariadb import MariaDb
from tests.cdc.postgres import Postgres

NUMBERS = 10_000  # rows of tool.numbers, from which statements take as many as they want
WIDER = {"INT": "BIGINT", "BIGINT": "VARCHAR(40)", "VARCHAR(40)": "VARCHAR(60)"}


@dataclass(frozen=True)
class Dialect:
    """What differs between the databases."""

    noise: str  # a text that is another one in each row
    unless_there: tuple[str, str]  # around an INSERT of keys some of which are there already
    retype: str
    topic: str


MYSQL = Dialect("UUID()", ("INSERT IGNORE", ""), "MODIFY {column} {type}", "cdc-shop-{table}")
POSTGRES = Dialect(
    "gen_random_uuid()::text", ("INSERT", " ON CONFLICT DO NOTHING"), "ALTER {column} TYPE {type}",
    "cdc-shop-public-{table}",
)  # fmt: skip


def make_numbers(server: MariaDb | Postgres) -> None:
    """Make a table of numbers where the capture does not look."""
    server.run(f"CREATE {'SCHEMA' if isinstance(server, Postgres) else 'DATABASE'} tool")
    server.run("CREATE TABLE tool.numbers (n INT PRIMARY KEY)")
    for first in range(1, NUMBERS + 1, 1000):
        server.run("INSERT INTO tool.numbers VALUES " + ", ".join(f"({n})" for n in range(first, first + 1000)))


@dataclass
class Table:
    """One table. `changes` counts the events that it has to have: what the database said that it did to its rows."""

    server: MariaDb | Postgres
    name: str
    columns: dict[str, str] = field(default_factory=lambda: {"id": "INT", "a": "VARCHAR(40)"})
    changes: int = 0
    _names: Any = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.dialect = POSTGRES if isinstance(self.server, Postgres) else MYSQL
        self.write(lambda cursor: cursor.execute(f"CREATE TABLE {self.name} (id INT PRIMARY KEY, a VARCHAR(40))"))

    @property
    def topic(self) -> str:
        return self.dialect.topic.format(table=self.name)

    def write(self, act: Callable[[Any], object]) -> None:
        with self.server.session("shop") as cursor:
            act(cursor)

    # --- changes of rows, in the transaction of a cursor ------------------------------------------------------------

    def insert(self, cursor: Any, first: int, rows: int) -> None:
        begin, end = self.dialect.unless_there
        cursor.execute(
            f"{begin} INTO {self.name} (id, a) SELECT {first} + n, {self.dialect.noise}"
            f" FROM tool.numbers WHERE n <= {rows}{end}"
        )
        self.changes += cursor.rowcount

    def update(self, cursor: Any, of: int, rest: int) -> None:
        cursor.execute(f"UPDATE {self.name} SET a = {self.dialect.noise} WHERE id % {of} = {rest % of}")
        self.changes += cursor.rowcount

    def delete(self, cursor: Any, of: int, rest: int) -> None:
        cursor.execute(f"DELETE FROM {self.name} WHERE id % {of} = {rest % of}")
        self.changes += cursor.rowcount

    def move(self, cursor: Any, key: int, other: int) -> None:
        """Give a row another key, unless that is taken: to the events it is a row deleted and one created."""
        cursor.execute(f"SELECT count(*) FROM {self.name} WHERE id = {other}")
        if cursor.fetchone()[0] == 0:
            cursor.execute(f"UPDATE {self.name} SET id = {other} WHERE id = {key}")
            self.changes += 2 * cursor.rowcount

    def roll_back(self, cursor: Any, first: int, rows: int) -> None:
        before = self.changes
        self.insert(cursor, first, rows)
        self.update(cursor, 2, first)
        cursor.execute("ROLLBACK")
        self.changes = before

    # --- changes of the table; the rows are written behind them, since these by themselves are no events ------------

    def alter(self, what: str) -> None:
        """Add, drop, rename or retype a column, as far as there is one for it."""
        *_, last = self.columns
        if what == "add":
            name = f"c{next(self._names)}"
            self._alter(f"ADD {name} INT", self.columns | {name: "INT"})
        elif what == "drop" and len(self.columns) > 2:
            self._alter(f"DROP COLUMN {last}", {name: kind for name, kind in self.columns.items() if name != last})
        elif what == "rename" and len(self.columns) > 2:
            name = f"c{next(self._names)}"
            renamed = {name if each == last else each: kind for each, kind in self.columns.items()}
            self._alter(f"RENAME COLUMN {last} TO {name}", renamed)
        elif what == "retype" and self.columns[last] in WIDER:
            wider = WIDER[self.columns[last]]
            words = self.dialect.retype.format(column=last, type=wider)
            self._alter(words, self.columns | {last: wider})

    def _alter(self, words: str, columns: dict[str, str]) -> None:
        self.write(lambda cursor: cursor.execute(f"ALTER TABLE {self.name} {words}"))
        self.columns = columns
        self.write(self._write_all)

    def _write_all(self, cursor: Any) -> None:
        *_, last = self.columns
        more = f", {last} = id" if self.columns[last] in ("INT", "BIGINT") else ""
        cursor.execute(f"UPDATE {self.name} SET a = {self.dialect.noise}{more}")
        self.changes += cursor.rowcount

    def truncate(self) -> None:
        self.write(lambda cursor: cursor.execute(f"TRUNCATE TABLE {self.name}"))
        self.changes += 1

    def rows(self) -> dict[str, Any]:
        with self.server.session("shop") as cursor:
            cursor.execute(f"SELECT {', '.join(self.columns)} FROM {self.name}")
            return {f'{{"id": {row[0]}}}': dict(zip(self.columns, row, strict=True)) for row in cursor.fetchall()}


def insert_into_all(cursor: Any, tables: Sequence[Table], first: int, rows: int) -> None:
    """Insert into each table in one transaction."""
    for table in tables:
        table.insert(cursor, first, rows)


def leave_open(server: MariaDb | Postgres, tables: Sequence[Table]) -> None:
    """Kill the database in a transaction that nobody has ended."""
    before = [table.changes for table in tables]
    with suppress(Exception), server.session("shop") as cursor:
        insert_into_all(cursor, tables, 200_000, 50)
        server.kill()
    for table, changes in zip(tables, before, strict=True):
        table.changes = changes
    server.start()
