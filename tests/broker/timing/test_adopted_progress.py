"""What a master has delivered, a slave that has taken over its progress does not deliver again; the rest it does."""

from __future__ import annotations

from pathlib import Path

from pyromq.protocol.bodies.body import DataVersion
from pyromq.protocol.bodies.stats import TimerCount, TimerMetrics
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.virtual import START_MS, virtual_broker


async def test_delay_levels_go_on_where_the_master_is(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as slave:
        for number in range(3):
            await slave.send(body=b"%d" % number, properties={"DELAY": "2"})
        parts = slave.broker
        await parts.timing.adopt_levels({2: 2, 7: 0}, parts.store.commit_log.end)
        await slave.advance(6)
        assert slave.bodies("T") == ["2"]
        assert parts.timing.progress.offsets == {2: 3, 7: 0}


async def test_a_masters_progress_may_go_back(tmp_path: Path) -> None:
    """It delivers once more then, and so does who takes over."""
    async with virtual_broker(tmp_path) as slave:
        for number in range(3):
            await slave.send(body=b"%d" % number, properties={"DELAY": "2"})
        end = slave.broker.store.commit_log.end
        await slave.broker.timing.adopt_levels({2: 3}, end)
        await slave.broker.timing.adopt_levels({2: 1}, end)
        await slave.advance(6)
        assert slave.bodies("T") == ["1", "2"]


async def test_it_is_on_disk_once_the_log_is(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as slave:
        await slave.send(properties={"DELAY": "2"})
        await slave.broker.timing.adopt_levels({2: 1}, slave.broker.store.commit_log.end)
    async with virtual_broker(tmp_path, disk, clock) as slave:
        assert slave.broker.timing.progress.offsets == {2: 1}
        await slave.advance(6)
        assert slave.bodies("T") == []


async def test_timers_go_on_where_the_master_is(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as slave:
        for seconds in (3, 5, 9, 30):
            await slave.send(body=b"%d" % seconds, properties={"TIMER_DELAY_SEC": str(seconds)})
        await slave.clock.advance(0.1)
        await slave.broker.timing.timers.adopt(START_MS + 7000)
        assert slave.broker.timing.timer_store.waiting == 2
        await slave.advance(12)
        assert slave.bodies("T") == ["9"]
    async with virtual_broker(tmp_path, disk, clock) as slave:
        await slave.advance(60)
        assert slave.bodies("T") == ["9", "30"]


async def test_a_timer_never_goes_back_by_its_master(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as slave:
        await slave.advance(10)
        before = slave.broker.timing.timer_store.read_ms
        await slave.broker.timing.timers.adopt(START_MS - 5000)
        assert slave.broker.timing.timer_store.read_ms == before


async def test_counts_are_the_masters(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as slave:
        await slave.send(properties={"TIMER_DELAY_SEC": "3600"})
        await slave.clock.advance(1)
        counts = {"A": TimerCount(count=3), "B": TimerCount(count=1)}
        metrics = TimerMetrics(data_version=DataVersion(counter=9), timing_count=counts)
        slave.broker.timing.adopt_counts(metrics)
        assert slave.broker.timing.timers.counts.by_topic() == {"A": 3, "B": 1}
        await slave.send("A", properties={"TIMER_DELAY_SEC": "3600"})
        await slave.clock.advance(1)
        assert slave.broker.timing.timers.counts.by_topic() == {"A": 4, "B": 1}
