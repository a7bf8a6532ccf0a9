"""Java's store with messages that wait for a time: it opens here, and they come due when Java would deliver them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.store.files.real_disk import RealDisk
from pyromq.store.timer.timer_log import TimerLog
from pyromq.store.timer.timer_state import read_check
from pyromq.store.timer.timer_wheel import TimerWheel
from pyromq.testing.clock import ManualClock
from tests.broker.virtual import Virtual, properties, virtual_broker
from tests.store.golden_store import manifest, unpack

TIMER = "rmq_sys_wheel_timer"
# However full the disk of this machine is, nothing may expire for it.
WHOLE: dict[str, Any] = {"trace_topic_enable": True, "timer_wheel_slots": 2 * 7 * 86_400, "disk_max_used_percent": 95}


@pytest.fixture
def messages() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = manifest("clean")["store"]["messages"]
    return found


@pytest.fixture
def clock(messages: list[dict[str, Any]]) -> ManualClock:
    return ManualClock(max(one["storeTimestamp"] for one in messages))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpack("clean", tmp_path, with_wheel=True)


def test_wheel_log_and_checkpoint_are_read_as_java_wrote_them(root: Path) -> None:
    store, disk = manifest("clean")["store"], RealDisk(root)
    check = read_check(disk)
    assert check is not None
    assert list(check) == list(store["timerCheck"].values())
    log = TimerLog(disk, 100 << 20)
    assert log.file_bytes == 4096
    units = [
        [
            u.position,
            52,
            u.previous,
            u.flags,
            u.written_ms,
            u.delay_ms,
            u.record_position,
            u.record_size,
            u.topic_hash,
            0,
        ]
        for u in log.scan(0, log.limit)
    ]
    assert units == store["timerLog"]["units"][:-1]  # the last says where the data ends
    wheel = TimerWheel(disk)
    waiting = wheel.load(check.read_ms // 1000, log.limit)
    slots = [slot for slot in store["timerWheel"]["slots"] if slot[1] * 1000 >= check.read_ms]
    assert waiting == sum(slot[4] for slot in slots)
    for _, tick, first, last, count, _ in slots:
        assert wheel.get(tick) == (tick, first, last, count)


def pending(life: Virtual, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    read_ms = life.broker.timing.timer_store.read_ms
    waits = [one for one in messages if one["topic"] == TIMER and int(one["properties"]["TIMER_OUT_MS"]) >= read_ms]
    recalled = {one["properties"].get("TIMER_DEL_UNIQKEY") for one in waits}
    return [
        one
        for one in waits
        if one["properties"]["UNIQ_KEY"] not in recalled and one["properties"]["REAL_TOPIC"] == "GoldenDelay"
    ]


@pytest.mark.parametrize("with_wheel", [True, False])
async def test_javas_timers_come_due(
    tmp_path: Path, messages: list[dict[str, Any]], clock: ManualClock, with_wheel: bool
) -> None:
    """Without the wheel everything is made anew from the topic, with the same outcome."""
    root = unpack("clean", tmp_path, with_wheel=with_wheel)
    async with virtual_broker(root, RealDisk(root), clock, **WHOLE) as life:
        waits = pending(life, messages)
        assert len(waits) == 181
        before = sum(len(life.stored("GoldenDelay", queue)) for queue in (0, 1))
        last = max(int(one["properties"]["TIMER_OUT_MS"]) for one in waits)
        while clock.now_ms() < last + 2000:
            clock.step_wall(3600 - 10)
            await life.advance(10)
        delivered = [record for queue in (0, 1) for record in life.stored("GoldenDelay", queue)]
        levels = 6  # delay levels were pending, too
        assert len(delivered) == before + len(waits) + levels
        by_id = {properties(record)["UNIQ_KEY"]: record for record in delivered}
        for one in waits:
            record = by_id[one["properties"]["UNIQ_KEY"]]
            assert record.store_timestamp >= int(one["properties"]["TIMER_OUT_MS"]) + 1000
            assert record.queue_id == int(one["properties"]["REAL_QID"])
            kept = {name: value for name, value in properties(record).items() if name in one["properties"]}
            assert kept == one["properties"]


async def test_the_crashed_store_opens_too(tmp_path: Path) -> None:
    root = unpack("crashed", tmp_path, with_wheel=True)
    stored = manifest("crashed")["store"]["messages"]
    clock = ManualClock(max(one["storeTimestamp"] for one in stored))
    async with virtual_broker(root, RealDisk(root), clock, **WHOLE) as life:
        waiting = life.broker.timing.timer_store.waiting
        assert waiting > 0
        assert life.broker.timing.timer_store.queue_offset == len([one for one in stored if one["topic"] == TIMER])
        for _ in range(24 * 4):
            clock.step_wall(3600 - 10)
            await life.advance(10)
        assert life.broker.timing.timer_store.waiting == 0
        assert life.broker.timing.timers is not None
        assert life.broker.timing.timers.lost == 0
