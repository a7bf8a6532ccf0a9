"""A ready-made answer to "was it committed?": ids of half messages in a table of the caller's own database.

The id is written by the caller's own database transaction, so it is there exactly if that transaction was committed:

    table = TransactionTable(lambda: sqlite3.connect("shop.db"))
    table.create()
    producer.transaction_check("orders", table)

    async with producer.transaction("orders", order) as tx:
        with sqlite3.connect("shop.db") as db:
            db.execute("INSERT INTO ...")
            table.note(db, tx.message_id)

Works on any DB-API connection. It blocks, so the producer asks it in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from typing import Any

from ...ambient import Clock, usual_clock
from ..received import Received

DEFAULT_PATIENCE_S = 300.0  # well within the 15 rounds of 30 s that brokers ask: behind them it would be given up
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


class NotedRows:
    """Words and when they were noted, in a table of the user's own database. Any thread; it blocks.

    The idempotence middleware keeps what was handled in one.
    """

    _column, _letters = "word", 255

    def __init__(self, connect: Callable[[], Any], table: str, placeholder: str, clock: Clock | None) -> None:
        if not _NAME.fullmatch(table):
            raise ValueError(f"table = {table!r}: letters, digits and _ only")
        if placeholder not in ("?", "%s"):
            raise ValueError(f"placeholder = {placeholder!r}: ? or %s, see the paramstyle of your driver")
        self._connect, self._table, self._placeholder = connect, table, placeholder
        self._insert = f"INSERT INTO {table} ({self._column}, noted_ms) VALUES ({placeholder}, {placeholder})"
        self._now_ms = (clock or usual_clock).now_ms

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


class TransactionTable(NotedRows):
    """Any thread. `connect` opens a DB-API connection; `placeholder` is `?` or `%s`, as the driver wants it.

    `forget` removes old rows. A broker that found no producer to ask may ask for as long as it keeps messages
    (fileReservedTime, 72 hours by default).
    """

    _column, _letters = "message_id", 64

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        table: str = "pyromq_transactions",
        placeholder: str = "?",
        patience_s: float = DEFAULT_PATIENCE_S,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(connect, table, placeholder, clock)
        self._patience_ms = patience_s * 1000

    def note(self, connection: Any, message_id: str) -> None:
        """Insert the id within the caller's transaction on this connection; the caller commits."""
        with closing(connection.cursor()) as cursor:
            cursor.execute(self._insert, (message_id, self._now_ms()))

    def __call__(self, msg: Received) -> bool | None:
        """Return True if the message was noted. It may still be under way elsewhere: False only after `patience_s`."""
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(f"SELECT 1 FROM {self._table} WHERE message_id = {self._placeholder}", (msg.id,))
            if cursor.fetchone() is not None:
                return True
        return False if self._now_ms() - msg.born_ms > self._patience_ms else None
