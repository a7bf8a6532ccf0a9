"""Send a few orders and handle them. Start a cluster by `pyromq up`, then run `python examples/send_and_consume.py`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pyromq


@dataclass
class Order:
    id: int
    total: float


async def main() -> None:
    async with pyromq.connect() as client:
        async with client.producer() as producer:
            for number in range(3):
                result = await producer.send("orders", Order(number, 9.5), tag="created", keys=[f"order-{number}"])
                print(f"sent order {number} to queue {result.queue.queue_id}, offset {result.queue_offset}")

        handled = asyncio.Event()

        async def bill(order: Order, msg: pyromq.Received) -> None:  # return is ack, an exception is a retry
            print(f"billed order {order.id}, attempt {msg.attempt}")
            if order.id == 2:
                handled.set()

        async with client.push_consumer(
            "orders",
            bill,
            group="billing",
            filter=pyromq.tag("created"),
            begin=pyromq.ConsumeFromWhere.FIRST_OFFSET,
        ):
            await handled.wait()


if __name__ == "__main__":
    asyncio.run(main())
