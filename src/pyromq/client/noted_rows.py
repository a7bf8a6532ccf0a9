"""Words and when they were noted, in a table of the user's own database: any DB-API connection, SQLite for instance.

`TransactionTable` keeps ids of half messages in one, the idempotence middleware what was handled. It blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from typing import Any

from ..ambient import Clock, SystemClock

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


class NotedRows:
    """Any thread. `connect` opens a connection; `placeholder` is `?` or `%s`, as the driver wants it."""

    _column, _letters = "word", 255

    def __init__(self, connect: Callable[[], Any], table: str, placeholder: str, clock: Clock | None) -> None:
        if not _NAME.fullmatch(table):
            raise ValueError(f"table = {table!r}: letters, digits and _ only")
        if placeholder not in ("?", "%s"):
            raise ValueError(f"placeholder = {placeholder!r}: ? or %s, see the paramstyle of your driver")
        self._connect, self._table, self._placeholder = connect, table, placeholder
        self._insert = f"INSERT INTO {table} ({self._column}, noted_ms) VALUES ({placeholder}, {placeholder})"
        self._now_ms = (clock or SystemClock()).now_ms

    def create(self) -> None:
        """Create the table if it does not exist."""
        words = f"{self._column} VARCHAR({self._letters}) PRIMARY KEY, noted_ms BIGINT NOT NULL"
        self._run(f"CREATE TABLE IF NOT EXISTS {self._table} ({words})")

    def forget(self, older_than_s: float) -> None:
        """Remove rows that are older."""
        oldest_ms = self._now_ms() - older_than_s * 1000
        self._run(f"DELETE FROM {self._table} WHERE noted_ms < {self._placeholder}", oldest_ms)

    def _run(self, statement: str, *values: Any) -> None:
        with closing(self._connect()) as connection:
            with closing(connection.cursor()) as cursor:
                cursor.execute(statement, values)
            connection.commit()
