"""Messages for later, taken back in time, and consumers that begin at a time: on real clocks."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from pyromq.model.group import ConsumeFromWhere
from tests.client.conftest import NewWorld
from tests.client.test_push_consumer import Seen
from tests.client.world import Servers

FIRST = ConsumeFromWhere.FIRST_OFFSET


async def test_a_delay_and_an_exact_time_are_kept_and_what_is_recalled_does_not_come(world_with: NewWorld) -> None:
    world = await world_with(recall_message_enable=True)
    seen = Seen()
    async with world.client() as client, client.producer() as producer:
        at_ms = time.time_ns() // 1_000_000 + 1500
        wrong = await producer.send("T", b"wrong", delay=1.2)
        await producer.send("T", b"delayed", delay=1)
        await producer.send("T", b"timed", deliver_at_ms=at_ms)
        assert wrong.recall_handle is not None
        await producer.recall(wrong)
        async with client.push_consumer("T", seen, group="g", begin=FIRST):
            await seen.count(2)
    arrived = {message.body: message for message in seen.messages}
    assert arrived.keys() == {b"delayed", b"timed"}
    assert arrived[b"delayed"].stored_ms - arrived[b"delayed"].born_ms >= 900
    assert arrived[b"timed"].stored_ms >= at_ms - 1000  # brokers count in whole seconds


async def test_a_new_group_may_begin_at_a_time(world: Servers) -> None:
    await world.create_topic("T", queues=1)
    pushed = Seen()
    async with world.client() as client, client.producer() as producer:
        await producer.send_many("T", ["old", "older"], order_key="k")
        await asyncio.sleep(0.02)  # another millisecond: begin_ms tells the two apart by nothing else
        begin_ms = time.time_ns() // 1_000_000
        await producer.send_many("T", ["new", "newer"], order_key="k")
        options: dict[str, Any] = {"begin": ConsumeFromWhere.TIMESTAMP, "begin_ms": begin_ms}
        async with client.push_consumer("T", pushed, group="push", **options):
            await pushed.count(2)
        async with client.pull_consumer("pull", **options) as consumer:
            await consumer.subscribe("T")
            polled = [each.body for each in await consumer.poll(30)]
    assert sorted(pushed.bodies) == ["new", "newer"]
    assert polled == [b"new", b"newer"]
