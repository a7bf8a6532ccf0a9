"""Changes of the demo's table, one transaction after the other, for as long as the demo goes on."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from ...ambient import Clock
from .databases import Database

ROWS = 400
_PAUSE_S = 0.05


@dataclass
class OrderChanges:
    """Inserts, updates, deletes and moves of keys, a few in each transaction.

    While the database is away it tries again. A transaction whose end was not heard of may count or not: the
    comparison at the end asks the database itself.
    """

    database: Database
    rng: random.Random
    clock: Clock
    next_id: int = ROWS
    transactions: int = 0
    tries: int = 0

    def fill(self) -> None:
        """Insert the rows that are there before the capture begins."""
        rows = ", ".join(f"({number}, 'customer {number % 37}', {number / 7:.2f}, NULL)" for number in range(ROWS))
        self.database.run(f"INSERT INTO orders VALUES {rows}")

    async def go_on(self, stop: asyncio.Event) -> None:
        """Change rows until `stop` is set."""
        while not stop.is_set():
            statements = self._statements()
            try:
                await asyncio.to_thread(self.database.run, *statements)
                self.transactions += 1
            except Exception:  # each client has errors of its own; the table does not mind what is lost
                self.tries += 1
            await self.clock.sleep(_PAUSE_S)

    def _statements(self) -> list[str]:
        return [self._statement() for _ in range(self.rng.randrange(1, 6))]

    def _statement(self) -> str:
        at = self.rng.randrange(self.next_id)
        price = self.rng.randrange(100_000) / 100
        match self.rng.randrange(10):
            case 0 | 1:
                self.next_id += 1
                return f"INSERT INTO orders VALUES ({self.next_id}, 'new', {price}, NULL)"
            case 2:
                return f"DELETE FROM orders WHERE id = {at}"
            case 3:  # to a key that no row has yet
                self.next_id += 1
                return f"UPDATE orders SET id = {self.next_id} WHERE id = {at}"
            case _:
                return f"UPDATE orders SET price = {price}, paid = '2026-01-02 03:04:05.678' WHERE id = {at}"
