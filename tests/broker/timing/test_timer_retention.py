"""What waits outlives its log file, however long it waits and however soon the file goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.requests import RequestCode
from pyromq.store.files.disk import DiskUsage
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.virtual import START_MS, Virtual, properties, virtual_broker

HOUR_S = 3600
DAY_S = 24 * HOUR_S
TIMER = "rmq_sys_wheel_timer"
ANY_HOUR = ";".join(f"{hour:02d}" for hour in range(24))


def settings(hours: int, **more: Any) -> dict[str, Any]:
    return {
        "file_reserved_hours": hours,
        "delete_when": ANY_HOUR,
        "commit_log_file_bytes": 1 << 16,
        "timer_max_delay_sec": 100 * DAY_S,
        "files_per_round": 100,
        "pause_ms": 0,
    } | more


async def fill(life: Virtual) -> None:
    """More than a log file, so that the one before can go."""
    for _ in range(20):
        await life.send(topic="Fill", body=bytes(4000))


async def days(life: Virtual, count: int, step_s: int = 6 * HOUR_S) -> None:
    """Time passes in leaps, with traffic in between."""
    for _ in range(count * DAY_S // step_s):
        life.clock.step_wall(step_s - 11)
        await life.advance(11)
        await fill(life)


async def test_an_hour_of_retention_and_three_hours(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, **settings(1)) as life:
        for number in range(3):
            pairs = {"TIMER_DELAY_SEC": str(3 * HOUR_S), "UNIQ_KEY": f"U{number}"}
            await life.send(body=str(number).encode(), properties=pairs)
        first = life.stored(TIMER)[0]
        await fill(life)
        await life.advance(1.5 * HOUR_S)
        assert life.broker.store.commit_log.start > first.physical_offset
        assert life.broker.timing.timer_store.waiting == 3
        await fill(life)
        await life.advance(1.5 * HOUR_S - 1)
        assert life.bodies("T") == []
        await life.advance(1)
        delivered = life.stored("T")
        assert [record.body for record in delivered] == [b"0", b"1", b"2"]
        assert int(properties(delivered[0])["TIMER_ROLL_TIMES"]) >= 1
        assert life.broker.timing.timers is not None
        assert life.broker.timing.timers.lost == 0


@pytest.mark.parametrize("killed", [False, True])
async def test_three_days_of_retention_and_months(tmp_path: Path, killed: bool) -> None:
    """72 hours of retention, 40 and 90 days of waiting, and a restart every ten days."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    bodies: list[str] = []
    for period in range(10):
        async with virtual_broker(tmp_path, disk, clock, killed=killed, **settings(72)) as life:
            if period == 0:
                for waits in (40, 90):
                    pairs = {"TIMER_DELAY_SEC": str(waits * DAY_S), "UNIQ_KEY": f"U{waits}"}
                    await life.send(body=str(waits).encode(), properties=pairs)
            await days(life, 10)
            bodies = life.bodies("T")
            passed = (clock.now_ms() - START_MS) / 1000 / DAY_S
            assert bodies == [str(waits) for waits in (40, 90) if passed >= waits and passed - waits < 3]
            bodies = bodies or []
            assert life.broker.timing.timers is not None
            assert life.broker.timing.timers.lost == 0
            assert life.broker.store.commit_log.start > 0
        if killed:
            disk = disk.kill()


@pytest.mark.parametrize("why", ["size", "watermark", "by hand"])
async def test_whatever_makes_a_file_go_carries_timer_level_and_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    limits: dict[str, dict[str, Any]] = {
        "size": {"max_log_bytes": 3 << 16},
        "watermark": {"files_per_round": 1},
        "by hand": {"delete_when": ""},
    }
    async with virtual_broker(tmp_path, **settings(0 if why == "by hand" else 72, **limits[why])) as life:
        await life.send(body=b"t", properties={"TIMER_DELAY_SEC": "3000"})
        await life.send(body=b"l", properties={"DELAY": "16"})
        half = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "H", "CHECK_IMMUNITY_TIME_IN_SECONDS": "100000"}
        await life.send(body=b"h", properties=half, sysFlag=4)
        if why == "watermark":
            monkeypatch.setattr(life.disk, "usage", lambda: DiskUsage(100, 86))
        for _ in range(6):
            await fill(life)
            if why == "by hand":
                await life.call(RequestCode.DELETE_EXPIRED_COMMITLOG)
            await life.advance(20)
        assert life.broker.store.commit_log.start > 1 << 16
        assert [record.body for record in life.stored("RMQ_SYS_TRANS_HALF_TOPIC")][-1] == b"h"
        monkeypatch.undo()  # else what is delivered goes soon after, too
        await life.advance(3000)
        assert sorted(life.bodies("T")) == ["l", "t"]
        assert life.broker.timing.timers is not None
        assert life.broker.timing.levels is not None
        assert (life.broker.timing.timers.lost, life.broker.timing.levels.lost) == (0, 0)


async def test_a_kill_between_copy_and_deletion_delivers_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True, **settings(1)) as life:
        await life.send(body=b"t", properties={"TIMER_DELAY_SEC": str(3 * HOUR_S)})
        await fill(life)

        def killed(position: int, now_ms: int) -> None:
            raise OSError("killed here")

        monkeypatch.setattr(life.broker.timing.timer_store, "carried", killed)
        await life.advance(1.1 * HOUR_S)
        assert len(life.stored(TIMER)) > 1
        assert life.broker.store.commit_log.start == 0
    monkeypatch.undo()
    async with virtual_broker(tmp_path, disk.kill(), clock, **settings(1)) as life:
        await life.advance(3 * HOUR_S)
        assert life.bodies("T") == ["t"]


async def test_what_a_forced_deletion_takes_is_counted_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_broker(tmp_path, **settings(72)) as life:
        await life.send(body=b"t", properties={"TIMER_DELAY_SEC": "100"})
        await life.send(body=b"l", properties={"DELAY": "6"})
        await life.advance(1)
        for _ in range(3):
            await fill(life)
        await life.broker.store.drop_oldest_log_file()  # nobody asked the carriers
        await life.advance(120)
        assert life.bodies("T") == []
        assert "A TIMED MESSAGE IS LOST" in caplog.text
        assert "DELAYED MESSAGES ARE LOST" in caplog.text
        parked = json.loads(bytes((await life.call(RequestCode.INSPECT)).body))["parked"]
        assert parked == {"delay levels, LOST": 1, "timer, LOST": 1}
