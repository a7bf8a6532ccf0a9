"""One payment, three effects: the order's row, the customer's points, the emptied cart. All of them or none.

The row and the message are one transaction: the message is delivered if, and only if, the row is there, also if this
program dies in between. Points and cart are consumers of their own, each in its own time. Needs a cluster: `pyromq up`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyromq


@dataclass
class OrderPaid:
    customer: str
    order: int
    total: int


class CardRefused(Exception):
    pass


async def main(folder: Path) -> None:
    def database() -> sqlite3.Connection:
        return sqlite3.connect(folder / "shop.db")

    with database() as db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total INTEGER)")
    table = pyromq.TransactionTable(database)
    table.create()

    points = {"ann": 0, "bob": 0}
    carts = {"ann": ["book"], "bob": ["lamp"]}
    done = asyncio.Event()

    async def add_points(paid: OrderPaid) -> None:
        points[paid.customer] += paid.total // 10
        if not carts["ann"]:
            done.set()

    async def empty_cart(paid: OrderPaid) -> None:
        carts[paid.customer].clear()
        if points["ann"]:
            done.set()

    async with pyromq.connect() as client, client.producer("payments") as producer:
        producer.transaction_check("order-paid", table)

        async def pay(paid: OrderPaid, card_works: bool) -> None:
            async with producer.transaction("order-paid", paid, keys=[f"order-{paid.order}"]) as tx:
                with database() as db:
                    db.execute("INSERT INTO orders VALUES (?, ?, ?)", (paid.order, paid.customer, paid.total))
                    table.note(db, tx.message_id)
                    if not card_works:
                        raise CardRefused  # takes back the row and the message

        begin = pyromq.ConsumeFromWhere.FIRST_OFFSET
        async with (
            client.push_consumer("order-paid", add_points, group="points", begin=begin),
            client.push_consumer("order-paid", empty_cart, group="carts", begin=begin),
        ):
            try:
                await pay(OrderPaid("bob", 1, 40), card_works=False)
            except CardRefused:
                print("bob's card was refused")
            await pay(OrderPaid("ann", 2, 250), card_works=True)
            print("ann has paid")
            await done.wait()

    with database() as db:
        rows = db.execute("SELECT customer FROM orders").fetchall()
    db.close()
    print(f"orders of {', '.join(name for (name,) in rows)}; points {points}; carts {carts}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(main(Path(scratch)))
