"""Order by message group (`popOrderByGroup`): a pop holds the groups of what it has, others get those of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.pop.order.message_groups import AHEAD
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.store.files.disk import read_whole
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.pop.popping import Popped, ack, ack_batch, bodies, change, pop, pop_answer
from tests.broker.virtual import START_MS, Virtual, virtual_broker

FILE = "config/consumerOrderInfo.json"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Virtual]:
    async with virtual_broker(tmp_path, pop_order_by_group=True) as running:
        yield running


async def fill(broker: Virtual, groups: str, tags: str = "") -> None:
    """Send a message for each letter, of the message group of that name."""
    if "T" not in broker.broker.topics:
        broker.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1, perm=6))
    for number, letter in enumerate(groups):
        wanted = {"__SHARDINGKEY": letter} if letter != "-" else {}
        if tags:
            wanted["TAGS"] = tags[number]
        await broker.send("T", f"{letter}{number}".encode(), properties=wanted)


async def take(broker: Virtual, attempt: str = "a", count: int = 32, **extra: Any) -> list[Popped]:
    fields: dict[str, Any] = {"order": True, "attemptId": attempt, "maxMsgNums": count, "invisibleTime": 10_000}
    return await pop(broker, **(fields | extra))


def committed(broker: Virtual) -> int | None:
    return broker.broker.offsets.find("T", "G", 0)


async def test_others_get_the_messages_of_other_groups(broker: Virtual) -> None:
    await fill(broker, "AABBCA")
    assert bodies(await take(broker, "a", 2)) == ["A0", "A1"]
    assert bodies(await take(broker, "b", 2)) == ["B2", "B3"]
    assert bodies(await take(broker, "c")) == ["C4"]
    assert await take(broker, "d") == []


async def test_a_group_goes_on_when_all_that_somebody_has_of_it_is_acked(broker: Virtual) -> None:
    await fill(broker, "ABAA")
    first, second = await take(broker, "a", 2)
    assert bodies([first, second]) == ["A0", "B1"]
    await ack(broker, second)
    assert await take(broker, "b") == []
    await ack(broker, first)
    assert bodies(await take(broker, "b", 1)) == ["A2"]
    assert await take(broker, "c") == []


async def test_the_position_is_the_first_message_that_is_not_acked_and_acks_behind_it_are_kept(
    broker: Virtual,
) -> None:
    await fill(broker, "ABCAB")
    messages = {one.body: one for one in await take(broker, count=3)}
    await ack(broker, messages["C2"])
    await ack(broker, messages["B1"])
    assert committed(broker) == 0
    await broker.advance(10.1)
    assert bodies(await take(broker, "b")) == ["A0", "A3", "B4"]  # not B1 and C2: they are acked
    assert committed(broker) == 0


async def test_what_was_not_acked_comes_again_in_order_with_its_count(broker: Virtual) -> None:
    await fill(broker, "AAB")
    first, *_ = await take(broker, "a")
    await ack(broker, first)
    await broker.advance(10.1)
    answer = await pop_answer(broker, order=True, attemptId="b", invisibleTime=10_000)
    assert answer.fields["msgOffsetInfo"] == "0 0 1,2"
    assert answer.fields["orderCountInfo"] == "0 qo0%1 1;0 qo0%2 1;0 0 1"


async def test_the_same_attempt_gets_its_messages_again_and_older_receipts_are_void(broker: Virtual) -> None:
    await fill(broker, "AB")
    (old,) = await take(broker, "a", 1)
    await broker.advance(0.1)
    again = await take(broker, "a", 1)
    assert bodies(again) == ["A0"]
    await ack(broker, old)
    assert committed(broker) == 0
    await ack(broker, again[0])
    assert committed(broker) == 1


async def test_messages_without_a_key_are_one_group(broker: Virtual) -> None:
    await fill(broker, "-A-")
    assert bodies(await take(broker, "a", 1)) == ["-0"]
    assert bodies(await take(broker, "b")) == ["A1"]


async def test_what_no_filter_wants_is_passed_over(broker: Virtual) -> None:
    await fill(broker, "ABAB", tags="xyxy")
    (one, two) = await take(broker, exp="y", expType="TAG")
    assert bodies([one, two]) == ["B1", "B3"]
    await ack_batch(broker, [one])
    assert committed(broker) == 3
    await ack(broker, two)
    assert committed(broker) == 4


async def test_a_changed_time_holds_its_group_alone(broker: Virtual) -> None:
    await fill(broker, "AB")
    first, _ = await take(broker)
    await change(broker, first, 30_000)
    await broker.advance(10.1)
    assert bodies(await take(broker, "b")) == ["B1"]
    await broker.advance(20)
    assert bodies(await take(broker, "c")) == ["A0", "B1"]


async def test_who_waits_is_woken_by_an_ack_and_by_the_end_of_a_time(broker: Virtual) -> None:
    await fill(broker, "AAB")
    first, _ = await take(broker, "a", 1), await take(broker, "b", 1)
    held = asyncio.create_task(take(broker, "c", 1, pollTime=60_000))
    await broker.clock.settle()
    assert not held.done()
    await ack(broker, first[0])
    assert bodies(await held) == ["A1"]
    late = asyncio.create_task(take(broker, "d", pollTime=60_000))
    await broker.advance(10.2)
    assert bodies(await late)[0] in ("A1", "B2")


async def test_no_more_is_held_ahead_of_the_position_than_a_limit(broker: Virtual) -> None:
    await fill(broker, "A" + "B" * (AHEAD - 1) + "C")
    (first,) = await take(broker, "a", 1)
    for number in range((AHEAD - 1) // 32):
        await ack_batch(broker, await take(broker, f"b{number}"))
    rest = await take(broker, "c")
    assert {one.body[0] for one in rest} == {"B"}
    await ack_batch(broker, rest)
    assert await take(broker, "d") == []  # C lies too far ahead
    await ack(broker, first)
    assert committed(broker) == AHEAD
    assert bodies(await take(broker, "d")) == [f"C{AHEAD}"]


async def test_what_no_filter_wants_is_passed_at_once_unless_somebody_has_one_before(
    broker: Virtual,
) -> None:
    await fill(broker, "A" * 600 + "B", tags="x" * 600 + "y")
    wanted: dict[str, Any] = {"exp": "y", "expType": "TAG"}
    (one,) = await take(broker, **wanted) or await take(broker, **wanted)
    assert one.offset == 600
    await ack(broker, one)
    assert committed(broker) == 601
    await fill(broker, "C" + "D" * 300, tags="y" + "x" * 300)
    (held,) = await take(broker, **wanted)
    assert await take(broker, "b", **wanted) == []
    assert committed(broker) == 601
    await ack(broker, held)
    assert committed(broker) == 601 + AHEAD
    assert await take(broker, "b", **wanted) == []
    assert committed(broker) == 902


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_restart_forgets_nothing(tmp_path: Path, is_killed: bool) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=is_killed, pop_order_by_group=True) as broker:
        await fill(broker, "ABCB")
        messages = await take(broker, "a", 3)
        await ack(broker, messages[2])
    if is_killed:
        disk = disk.kill()
    else:
        assert '"o":[0,1]' in read_whole(disk, FILE).decode()  # what Java's broker would hold
    async with virtual_broker(tmp_path, disk, clock, pop_order_by_group=True) as broker:
        assert await take(broker, "b") == []
        await ack(broker, messages[1])
        assert bodies(await take(broker, "b")) == ["B3"]
        await ack(broker, messages[0])
        assert committed(broker) == 3


async def test_switched_off_the_queue_is_held_as_a_whole_and_nothing_is_lost(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, pop_order_by_group=True) as broker:
        await fill(broker, "ABC")
        first, second = await take(broker, "a", 2)
        await ack(broker, first)
    async with virtual_broker(tmp_path, disk, clock) as broker:
        assert await take(broker, "b") == []
        await ack(broker, second)
        assert bodies(await take(broker, "b")) == ["C2"]
    async with virtual_broker(tmp_path, disk, clock, pop_order_by_group=True) as broker:
        assert await take(broker, "c") == []  # the queue is held by b, until its end
        await broker.advance(10.1)
        assert bodies(await take(broker, "c")) == ["C2"]
