"""Order by sharding key with our SDK: producer and orderly consumer at work while the broker restarts."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from pyromq.client.produce.sending import SendPolicy
from pyromq.client.received import Received
from pyromq.model.group import ConsumeFromWhere
from tests.client.world import Servers, turns_until

KEYS = [f"user-{number}" for number in range(5)]
EACH = 40


@pytest.mark.fresh_broker
async def test_messages_of_one_sharding_key_stay_in_order_through_a_restart_of_the_broker(world: Servers) -> None:
    """A restart may repeat what was not committed or not answered; it must not let anything overtake."""
    await world.create_topic("T", queues=3, attributes="+message.type=FIFO")
    seen: dict[str, list[int]] = {key: [] for key in KEYS}
    at_work: set[str] = set()

    async def handle(text: str, msg: Received) -> None:
        key = msg.properties["__SHARDINGKEY"]
        assert key == msg.order_key
        assert key not in at_work, "two of one key at once"
        at_work.add(key)
        await asyncio.sleep(0)
        at_work.remove(key)
        seen[key].append(int(text))

    def handled() -> int:
        return sum(len(set(numbers)) for numbers in seen.values())

    async with (
        world.client() as client,
        client.producer(policy=SendPolicy(timeout_s=60)) as producer,
        client.push_consumer("T", handle, group="g", orderly=True, begin=ConsumeFromWhere.FIRST_OFFSET),
    ):

        async def send(start: int, stop: int) -> list[asyncio.Task[object]]:
            return [
                asyncio.ensure_future(producer.send("T", str(number), order_key=key))
                for number in range(start, stop)
                for key in KEYS
            ]

        first = await send(0, EACH // 2)
        await turns_until(lambda: handled() >= len(KEYS))  # both are in the midst of it
        second = await send(EACH // 2, EACH)
        await world.restart_broker()
        await asyncio.gather(*first, *second)
        await turns_until(lambda: handled() == len(KEYS) * EACH)
    for key, numbers in seen.items():
        assert numbers[0] == 0, key
        assert all(after <= before + 1 for before, after in pairwise(numbers)), (key, numbers)
        assert sorted(set(numbers)) == list(range(EACH)), key
