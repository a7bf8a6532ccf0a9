"""A question and its answer through the broker: who asks needs no address of who answers.

Needs a cluster: `pyromq up`.
"""

from __future__ import annotations

import asyncio

import pyromq


async def main() -> None:
    async with pyromq.connect() as client, client.producer("calculator") as producer:

        async def square(number: int, msg: pyromq.Received) -> None:
            await producer.reply(msg, number * number)

        begin = pyromq.ConsumeFromWhere.FIRST_OFFSET
        async with client.push_consumer("squares", square, group="calculators", begin=begin):
            answers = await asyncio.gather(*(producer.request("squares", number, timeout=10) for number in range(5)))
            print("squares:", *(answer.decode(int) for answer in answers))


if __name__ == "__main__":
    asyncio.run(main())
