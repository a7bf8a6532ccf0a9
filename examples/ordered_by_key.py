"""Messages of one customer stay in order: one key, one queue, one handler at a time. Needs a cluster: `pyromq up`."""

from __future__ import annotations

import asyncio

import pyromq

STEPS = ("created", "paid", "packed", "sent")


async def main() -> None:
    async with pyromq.connect() as client:
        async with client.producer() as producer:
            for customer in ("ann", "bob"):
                await asyncio.gather(*(producer.send("steps", step, order_key=customer) for step in STEPS))

        seen: dict[str, list[str]] = {}
        complete = asyncio.Event()

        async def follow(step: str, msg: pyromq.Received) -> None:
            seen.setdefault(msg.order_key or "", []).append(step)
            if sum(map(len, seen.values())) == 2 * len(STEPS):
                complete.set()

        begin = pyromq.ConsumeFromWhere.FIRST_OFFSET
        async with client.push_consumer("steps", follow, group="followers", orderly=True, begin=begin):
            await complete.wait()
        for customer, steps in sorted(seen.items()):
            print(f"{customer}: {', '.join(steps)}")


if __name__ == "__main__":
    asyncio.run(main())
