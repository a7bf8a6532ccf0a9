"""What administrators see of popped messages: the in-flight column of consumerProgress, and what 200056 answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.protocol.bodies.body import decode_body
from pyromq.protocol.bodies.offsets import ConsumeStats
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.pop.popping import ack, pop
from tests.broker.virtual import START_MS, Virtual, virtual_broker


async def progress(life: Virtual) -> tuple[int, int, int]:
    """Committed, in flight and lag of queue 0, as mqadmin consumerProgress and `pyromq group lag` read them."""
    answer = await life.call(RequestCode.GET_CONSUME_STATS, consumerGroup="G", topic="T")
    table = decode_body(ConsumeStats, answer.body).offset_table
    one = next(one for queue, one in table.items() if (queue.topic, queue.queue_id) == ("T", 0))
    return one.consumer_offset, one.in_flight, one.lag


async def test_the_in_flight_column(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        for number in range(6):
            await life.send(body=b"%d" % number)
        popped = await pop(life, maxMsgNums=4)
        assert await progress(life) == (0, 4, 6)
        await ack(life, popped[0])
        await ack(life, popped[2])
        assert await progress(life) == (1, 3, 5)
        for one in (popped[1], popped[3]):
            await ack(life, one)
        assert await progress(life) == (4, 0, 2)


@pytest.mark.parametrize("by_group", [False, True])
async def test_messages_in_order_are_in_flight_too(tmp_path: Path, by_group: bool) -> None:
    """Also after a kill: the block is in the journal."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True, pop_order_by_group=by_group) as life:
        for number in range(6):
            await life.send(body=b"%d" % number)
        popped = await pop(life, maxMsgNums=4, queueId=0, order=True, invisibleTime=60_000)
        assert await progress(life) == (0, 4, 6)
        await ack(life, popped[0])
        assert await progress(life) == (1, 3, 5)
        assert life.broker.pop_parts.figures()["pyromqPopOrderInFlight"] == "3"
    async with virtual_broker(tmp_path, disk.kill(), clock, pop_order_by_group=by_group) as life:
        assert await progress(life) == (1, 3, 5)
        assert life.broker.pop_parts.parked()["messages popped in order, in flight"] == 3
        for one in popped[1:]:
            await ack(life, one)
        assert await progress(life) == (4, 0, 2)
        assert life.broker.pop_parts.parked() == {}


async def test_there_is_nothing_to_roll_back(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        assert (await life.call(RequestCode.POP_ROLLBACK)).code == 0
