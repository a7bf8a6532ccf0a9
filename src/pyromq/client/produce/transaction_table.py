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

from collections.abc import Callable
from contextlib import closing
from typing import Any

from ...ambient import Clock
from ..noted_rows import NotedRows
from ..received import Received

DEFAULT_PATIENCE_S = 600.0


class TransactionTable:
    """Any thread. `connect` opens a DB-API connection; `placeholder` is `?` or `%s`, as the driver wants it."""

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        table: str = "pyromq_transactions",
        placeholder: str = "?",
        patience_s: float = DEFAULT_PATIENCE_S,
        clock: Clock | None = None,
    ) -> None:
        self._rows = NotedRows(connect, table, "message_id", 64, placeholder, clock)
        self._patience_ms = patience_s * 1000

    def create(self) -> None:
        """Create the table if it does not exist."""
        self._rows.create()

    def note(self, connection: Any, message_id: str) -> None:
        """Insert the id within the caller's transaction on this connection; the caller commits."""
        with closing(connection.cursor()) as cursor:
            cursor.execute(
                f"INSERT INTO {self._rows.table} (message_id, noted_ms) VALUES ({self._rows.mark}, {self._rows.mark})",
                (message_id, self._rows.now_ms()),
            )

    def __call__(self, msg: Received) -> bool | None:
        """Return True if the message was noted.

        One that is not may still be under way elsewhere: False only after `patience_s`.
        """
        with closing(self._rows.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(f"SELECT 1 FROM {self._rows.table} WHERE message_id = {self._rows.mark}", (msg.id,))
            if cursor.fetchone() is not None:
                return True
        return False if self._rows.now_ms() - msg.born_ms > self._patience_ms else None

    def forget(self, older_than_s: float) -> None:
        """Remove old rows. Brokers ask for 15 minutes by default (transactionCheckMax x transactionCheckInterval)."""
        self._rows.forget(older_than_s)
