"""A broker whose timer wheel was damaged delivers all the same, once, and its counts by topic are true again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.virtual import START_MS, Virtual, virtual_broker

WHEEL = "timerwheel"
SLOT_BYTES = 32


def parked(life: Virtual) -> dict[str, int]:
    assert life.broker.timing.timers is not None
    return life.broker.timing.timers.parked()


def damage(disk: SimulatedDisk, what: str, slot_ms: int) -> None:
    size = disk.size(WHEEL)
    place = slot_ms // 1000 % (size // SLOT_BYTES) * SLOT_BYTES
    file = disk.open(WHEEL)
    if what == "zeros":
        file.pwrite(0, bytes(size))
    elif what == "page":
        file.pwrite(place // 4096 * 4096, bytes(4096))
    else:
        disk.flip_bit(WHEEL, place + 4, 6)  # its time is now in the past: it looks delivered
    file.sync()


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("what", ["zeros", "page", "bit"])
async def test_a_damaged_wheel_loses_nothing_and_counts_are_true(
    tmp_path: Path, what: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=how == "kill") as life:
        for number in range(10):
            pairs = {"TIMER_DELAY_SEC": str(14 + number % 2), "UNIQ_KEY": f"id-{number}"}
            await life.send(body=str(number).encode(), properties=pairs)
            await life.advance(0.4)
        assert parked(life)["timer, topic T"] == 10
    disk = disk.kill() if how == "kill" else disk
    damage(disk, what, START_MS + 14_000)
    async with virtual_broker(tmp_path, disk, clock) as life:
        assert "made anew" in caplog.text
        await life.clock.settle()
        assert parked(life)["timer, topic T"] == 10
        assert life.bodies("T") == []
        await life.advance(60)
        assert sorted(life.bodies("T")) == [str(number) for number in range(10)]
        assert parked(life) == {}


async def test_files_made_anew_while_it_runs_are_counted_once(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        for number in range(10):
            await life.send(body=str(number).encode(), properties={"TIMER_DELAY_SEC": str(14 + number % 2)})
        await life.advance(0.5)
        assert parked(life)["timer, topic T"] == 10
    disk.flip_bit("timerlog/00000000000000000000", 3)  # seen when its slot comes
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(60)
        assert sorted(life.bodies("T")) == [str(number) for number in range(10)]
        assert parked(life) == {}
