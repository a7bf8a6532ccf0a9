"""Orders that nobody pays are closed: a timed message per order, taken back when the money comes.

Needs a cluster: `pyromq up`. In a shop the time is half an hour; here it is two seconds.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pyromq

TIME_TO_PAY_S = 2


@dataclass
class CloseOrder:
    order: int


async def main() -> None:
    state = {1: "open", 2: "open"}
    closed = asyncio.Event()

    async with pyromq.connect() as client, client.producer("shop") as producer:

        async def close(command: CloseOrder) -> None:
            # The order may have been paid while the timer rang: what the database says counts.
            if state[command.order] == "open":
                state[command.order] = "closed"
                print(f"order {command.order}: nobody paid, closed")
                closed.set()

        async with client.push_consumer("close-orders", close, group="closing"):
            timers = {
                order: await producer.send("close-orders", CloseOrder(order), delay=TIME_TO_PAY_S) for order in state
            }
            print("orders 1 and 2: placed")

            state[1] = "paid"
            await producer.recall(timers[1])
            print("order 1: paid, its timer is taken back")

            await closed.wait()


if __name__ == "__main__":
    asyncio.run(main())
