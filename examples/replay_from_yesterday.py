"""Everything once more since yesterday 00:00, for a report that was wrong. Nobody else notices: the group is a new one.

Needs a cluster: `pyromq up`.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pyromq


def yesterday_ms() -> int:
    midnight = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    return int((midnight - timedelta(days=1)).timestamp() * 1000)


async def main() -> None:
    async with pyromq.connect() as client:
        async with client.producer() as producer:
            await producer.send_many("sales", [{"amount": amount} for amount in (10, 20, 12)])

        async with client.pull_consumer("report-again") as consumer:
            queues = await consumer.queues("sales")
            await consumer.assign(queues)
            for queue in queues:
                await consumer.seek_to_time(queue, yesterday_ms())
            amounts: list[int] = []
            while batch := await consumer.poll(timeout=2):
                amounts += [msg.decode(dict)["amount"] for msg in batch]
        print(f"{len(amounts)} sales since yesterday 00:00, {sum(amounts)} in all")


if __name__ == "__main__":
    asyncio.run(main())
