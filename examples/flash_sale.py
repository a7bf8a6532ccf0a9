"""A flash sale: five thousand people want a hundred things at once. The queue takes the peak, the shop takes its time.

One order key per article keeps its purchases in line, so that nothing is sold twice, without a lock in a database.
Needs a cluster: `pyromq up`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pyromq

BUYERS = 5_000
STOCK = {"console": 60, "headphones": 40}


@dataclass
class Wish:
    buyer: int
    article: str


async def main() -> None:
    left = dict(STOCK)
    sold: list[Wish] = []
    refused = 0
    answered = asyncio.Event()

    async def sell(wish: Wish) -> None:
        nonlocal refused
        if left[wish.article] > 0:
            left[wish.article] -= 1
            sold.append(wish)
        else:
            refused += 1
        if len(sold) + refused == BUYERS:
            answered.set()

    async with pyromq.connect() as client, client.producer("shop") as producer:
        articles = list(STOCK)
        for article in articles:
            wishes = (Wish(buyer, article) for buyer in range(BUYERS) if articles[buyer % 2] == article)
            await producer.send_many("flash-sale", wishes, tag=article, order_key=article)
        print(f"{BUYERS} wishes are safe with the broker")

        begin = pyromq.ConsumeFromWhere.FIRST_OFFSET
        async with client.push_consumer("flash-sale", sell, group="shop", orderly=True, begin=begin):
            await answered.wait()
    print(f"sold {len(sold)}, left {sum(left.values())}, {refused} came too late")
    print(f"the last who got one was number {max(wish.buyer for wish in sold)}")


if __name__ == "__main__":
    asyncio.run(main())
