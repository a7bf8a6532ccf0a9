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


class TransactionTable(NotedRows):
    """Any thread. `connect` opens a DB-API connection; `placeholder` is `?` or `%s`, as the driver wants it.

    `forget` removes old rows. Brokers ask for 15 minutes by default (transactionCheckMax x transactionCheckInterval).
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
