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
    """Any thread. `connect` opens a connection; `mark` is `?` or `%s`, as the driver wants it."""

    def __init__(
        self, connect: Callable[[], Any], table: str, column: str, letters: int, mark: str, clock: Clock | None
    ) -> None:
        if not _NAME.fullmatch(table):
            raise ValueError(f"table = {table!r}: letters, digits and _ only")
        if mark not in ("?", "%s"):
            raise ValueError(f"placeholder = {mark!r}: ? or %s, see the paramstyle of your driver")
        self.connect, self.table, self.mark = connect, table, mark
        self._column, self._letters = column, letters
        self._clock = clock or SystemClock()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def create(self) -> None:
        words = f"{self._column} VARCHAR({self._letters}) PRIMARY KEY, noted_ms BIGINT NOT NULL"
        self._run(f"CREATE TABLE IF NOT EXISTS {self.table} ({words})")

    def forget(self, older_than_s: float) -> None:
        self._run(f"DELETE FROM {self.table} WHERE noted_ms < {self.mark}", self.now_ms() - older_than_s * 1000)

    def _run(self, statement: str, *values: Any) -> None:
        with closing(self.connect()) as connection:
            with closing(connection.cursor()) as cursor:
                cursor.execute(statement, values)
            connection.commit()
