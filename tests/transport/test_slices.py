"""Work in slices: the loop is let on when one is over, and what comes out is the same as in one go."""

from __future__ import annotations

import asyncio
import random

from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.keyed import ByQueue, MessageQueue
from pyromq.protocol.bodies.offsets import ConsumeStats, ConsumeStatsList, OffsetWrapper
from pyromq.protocol.json import Dialect
from pyromq.testing.clock import ManualClock
from pyromq.transport.turns.slices import Slices


class Ticking(ManualClock):
    """Half a millisecond passes with every look at it."""

    def monotonic(self) -> float:
        self._passed_us += 500
        return super().monotonic()


async def test_the_loop_is_let_on_whenever_a_slice_is_over() -> None:
    slices, others = Slices(Ticking()), 0

    async def count() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    found = [item async for item in slices.each(range(400))]
    counting.cancel()
    assert found == list(range(400))
    assert slices.given_way >= 80  # four looks a slice, and one when it begins
    assert others >= slices.given_way


async def test_a_walk_inside_a_walk_goes_on_with_its_slice() -> None:
    """Each inner one is short; that it begins a slice of its own would let nobody on for ever."""
    slices = Slices(Ticking())
    async for _ in slices.each(range(100)):
        async for _ in slices.each(range(2)):
            pass
    assert slices.given_way >= 50


async def test_nobody_is_let_on_while_a_slice_lasts() -> None:
    clock = ManualClock()
    slices = Slices(clock)
    await slices.give_way()
    assert len([item async for item in slices.each(range(10_000))]) == 10_000
    assert slices.given_way == 1


async def test_a_table_in_parts_is_the_table() -> None:
    queues = [MessageQueue(broker_name="b", queue_id=number, topic="T") for number in range(70)]
    progress = ConsumeStats(offset_table=ByQueue({queue: OffsetWrapper(broker_offset=5) for queue in queues}))
    groups = [{f"g{number}": [progress, ConsumeStats()]} for number in range(40)] + [{"none": []}]
    body = ConsumeStatsList(broker_addr="a", consume_stats_list=groups)
    slices = Slices(Ticking())
    for dialect in Dialect:
        assert await slices.encoded(body, dialect) == encode_body(body, dialect)
    assert slices.given_way > 40


async def test_many_names_are_put_in_order_in_slices() -> None:
    names = [f"topic-{number}" for number in range(7_000)]
    random.Random(1).shuffle(names)
    slices = Slices(Ticking())
    assert await slices.in_order(names) == sorted(names)
    assert slices.given_way > 1_000
    assert await slices.in_order({"b", "a"}) == ["a", "b"]
