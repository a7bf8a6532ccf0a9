"""What administrators see of popped messages: the in-flight column of consumerProgress, and what 200056 answers."""

from __future__ import annotations

from pathlib import Path

from pyromq.protocol.bodies.body import decode_body
from pyromq.protocol.bodies.offsets import ConsumeStats
from pyromq.protocol.requests import RequestCode
from tests.broker.pop.popping import ack, pop
from tests.broker.virtual import Virtual, virtual_broker


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


async def test_there_is_nothing_to_roll_back(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        assert (await life.call(RequestCode.POP_ROLLBACK)).code == 0
