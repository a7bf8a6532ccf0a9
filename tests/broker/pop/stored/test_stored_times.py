"""When messages of stored check points come again: at their time, whatever was acked or changed in the last moment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pyromq.store.config import FlushMode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.pop.popping import Popped, ack, ack_batch, change, pop
from tests.broker.pop.test_pop_restarts import flushed
from tests.broker.virtual import START_MS, Virtual, properties, virtual_broker

RETRY, REVIVE, TIMER = "%RETRY%G_T", "rmq_sys_REVIVE_LOG_DefaultCluster", "rmq_sys_wheel_timer"
ONE_QUEUE: dict[str, Any] = {"revive_queue_num": 1}
LATE_S = 0.1


async def stored(life: Virtual, invisible_ms: int, names: Sequence[str] = "abcd") -> list[Popped]:
    """Hand these messages out, and let them leave memory."""
    for name in names:
        await life.send(body=name.encode(), properties={"UNIQ_KEY": f"id-{name}"})
    popped = await pop(life, invisibleTime=invisible_ms)
    assert [one.body for one in popped] == [*names]
    return popped


def again(life: Virtual) -> str:
    return "".join(life.bodies(RETRY))


@pytest.mark.parametrize("past_ms", [0, 1, 250, 499, 500, 999])
@pytest.mark.parametrize("invisible_ms", [15_000, 15_001, 15_999, 60_500])
@pytest.mark.parametrize("flush", FlushMode)
async def test_at_the_invisible_time(tmp_path: Path, past_ms: int, invisible_ms: int, flush: FlushMode) -> None:
    """Wherever it lies between two slots of the timer."""
    clock = ManualClock(START_MS + past_ms)
    async with virtual_broker(tmp_path, None, clock, flush_mode=flush) as life, flushed(life):
        popped = await stored(life, invisible_ms)
        await life.advance(12)
        assert life.broker.pop_parts.table.used_bytes == 0
        await ack(life, popped[1])
        await life.advance(invisible_ms / 1000 - 12.001)
        assert (await ack(life, popped[2])).code == 0, "in the last millisecond"
        await life.advance(0.000999)
        assert again(life) == ""
        await life.advance(0.000001 + LATE_S)
        assert again(life) == "ad"
        assert life.broker.stored_pops.revive.undecided() == 0


async def test_acks_and_changes_of_the_last_tick_count_and_later_ones_do_not(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        popped = await stored(life, 20_000, "abcdef")
        await life.advance(19.999)
        assert (await ack(life, popped[0])).code == 0
        assert (await ack_batch(life, popped[1:2])).code == 0
        answer, changed = await change(life, popped[2], 12_345)
        assert answer.code == 0
        answer, short = await change(life, popped[3], 300)
        assert answer.code == 0
        await life.advance(0.001)
        assert (await ack(life, popped[4])).code == 0, "answered as in Java, though it is late"
        await life.advance(LATE_S)
        assert again(life) == "ef"
        await life.advance(0.198)
        assert again(life) == "ef"
        await life.advance(LATE_S)
        assert again(life) == "efd", "at its new time"
        await life.advance(12.0445 - LATE_S)
        assert again(life) == "efd"
        assert (await ack(life, changed)).code == 0
        await life.advance(30)
        assert again(life) == "efd"
        assert (await ack(life, short)).code == 0


async def test_two_changes_in_one_millisecond(tmp_path: Path) -> None:
    """The second is of the first one's receipt: what acks the first must not ack the second."""
    async with virtual_broker(tmp_path) as life:
        popped = await stored(life, 20_000, "a")
        await life.advance(15)
        answer, once = await change(life, popped[0], 9_000)
        assert answer.code == 0
        answer, _ = await change(life, once, 4_000)
        assert answer.code == 0
        await life.advance(3.99)
        assert again(life) == ""
        await life.advance(0.011 + LATE_S)
        assert again(life) == "a"
        await life.advance(30)
        assert again(life) == "a"


async def test_each_at_its_own_time_within_a_slot_of_the_timer(tmp_path: Path) -> None:
    """The later ones are first in the revive queue; acks of all of them wait in one slot."""
    async with virtual_broker(tmp_path, **ONE_QUEUE) as life:
        for name, invisible_ms in (("a", 20_900), ("b", 20_600), ("c", 20_300)):
            await stored(life, invisible_ms, name)
        await life.advance(20.3 + LATE_S)
        assert again(life) == "c"
        await life.advance(0.3)
        assert again(life) == "cb"
        await life.advance(0.3)
        assert again(life) == "cba"
        await life.broker.store.flush_log()
        await life.advance(1.1)
        assert life.broker.offsets.find(REVIVE, "CID_RMQ_SYS_REVIVE_GROUP", 0) == 2


@pytest.mark.parametrize("is_killed", [False, True])
async def test_those_that_came_before_their_turn_in_the_queue_do_not_come_twice(
    tmp_path: Path, is_killed: bool
) -> None:
    """The group's offset cannot say that they are settled: at a stop records do, after a kill copies are found."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=is_killed, **ONE_QUEUE) as life:
        for name, invisible_ms in (("a", 20_900), ("b", 20_600), ("c", 20_300)):
            await stored(life, invisible_ms, name)
        await life.advance(20.7)
        assert again(life) == "cb"
        assert life.broker.offsets.find(REVIVE, "CID_RMQ_SYS_REVIVE_GROUP", 0) is None
    async with virtual_broker(tmp_path, disk.kill(), clock, **ONE_QUEUE) as life:
        tags = [properties(one)["TAGS"] for one in life.stored(REVIVE)]
        assert tags == ["ck"] * 3 + ([] if is_killed else ["bAck"] * 2), "what Java finds"
        await life.advance(0.3)
        assert again(life) == "cba"
        await life.advance(10)
        assert again(life) == "cba"


async def test_a_timer_that_may_not_take_in_acks_makes_them_wait(tmp_path: Path) -> None:
    """Rather late than an acked message twice."""
    async with virtual_broker(tmp_path) as life:
        popped = await stored(life, 20_000)
        await life.advance(19.5)
        live = life.broker.base.live
        live.change("timerStopEnqueue=true")
        await ack(life, popped[0])
        await life.advance(30)
        assert again(life) == ""
        live.change("timerStopEnqueue=false")
        await life.advance(1.1)
        assert again(life) == "bcd"


async def test_a_broker_that_was_away_for_long_catches_up(tmp_path: Path) -> None:
    """Slots of an hour are delivered one after the other: no check point is decided before its acks were."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        popped = []
        for number in range(30):
            popped += await stored(life, 60_000 + number * 700, [f"{number:02}"])
        await life.advance(12)
        for one in popped[::2]:
            assert (await ack(life, one)).code == 0
    clock = ManualClock(clock.now_ms() + 3_600_000)
    disk = disk.kill()
    disk.now_ms = clock.now_ms
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(1)
        assert sorted(life.bodies(RETRY)) == sorted(one.body for one in popped[1::2])


async def test_more_than_may_be_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check points of many seconds before, in one queue: acks behind what was not read count as well."""
    monkeypatch.setattr("pyromq.broker.pop.stored.revive_topic.MOST_UNDECIDED", 3)
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True, **ONE_QUEUE) as life:
        popped = []
        for number in range(20):
            popped += await stored(life, 30_000 + number * 400, [f"{number:02}"])
        await life.advance(12)
        for one in popped[::2]:
            assert (await ack(life, one)).code == 0
    clock = ManualClock(clock.now_ms() + 60_000)
    disk = disk.kill()
    disk.now_ms = clock.now_ms
    async with virtual_broker(tmp_path, disk, clock, **ONE_QUEUE) as life:
        await life.advance(2)
        assert sorted(life.bodies(RETRY)) == sorted(one.body for one in popped[1::2])
        assert life.broker.stored_pops.revive.undecided() == 0
