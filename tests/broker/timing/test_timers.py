"""Timed messages on virtual time: stored as Java stores them, never early, once, whatever happens between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.model.recall_handle import decode_handle
from pyromq.protocol.requests import RequestCode
from pyromq.store.files.disk import DiskFull
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.virtual import START_MS, Virtual, properties, virtual_broker

TIMER = "rmq_sys_wheel_timer"
DAY_S = 86_400


async def test_it_waits_as_java_stores_it(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        pairs = {"TIMER_DELAY_SEC": "3", "TAGS": "a", "UNIQ_KEY": "U"}
        sent = await life.send(queue=2, body=b"later", properties=pairs, flag=9)
        assert (sent.code, sent.fields["queueId"], sent.fields["queueOffset"]) == (0, "2", "0")
        (waiting,) = life.stored(TIMER)
        kept = {
            "CLUSTER": "DefaultCluster",
            "MSG_REGION": "DefaultRegion",
            "REAL_QID": "2",
            "REAL_TOPIC": "T",
            "TAGS": "a",
            "TIMER_DELAY_SEC": "3",
            "TIMER_OUT_MS": str(START_MS + 2000),
            "TRACE_ON": "true",
            "UNIQ_KEY": "U",
        }
        assert properties(waiting) == kept
        handle = decode_handle(sent.fields["recallHandle"])
        assert handle == ("T", "broker-a", START_MS + 2001, "U")
        await life.advance(2.999)
        assert life.bodies("T", 2) == []
        await life.advance(0.001)
        (delivered,) = life.stored("T", 2)
        times = {"TIMER_ENQUEUE_MS": str(START_MS), "TIMER_DEQUEUE_MS": str(START_MS + 3000)}
        assert properties(delivered) == kept | times
        assert (delivered.born_timestamp, delivered.flag, delivered.body) == (waiting.born_timestamp, 9, b"later")
        assert delivered.store_timestamp == START_MS + 3000
        assert [message.tags for message in await life.pulled(queue=2, tags="a")] == ["a"]


@pytest.mark.parametrize(
    ("name", "value", "due_ms", "delivered_ms"),
    [
        ("TIMER_DELAY_SEC", "5", 5000, 5000),
        ("TIMER_DELAY_MS", "4200", 4200, 5000),
        ("TIMER_DELAY_MS", "4001", 4001, 5000),
        ("TIMER_DELIVER_MS", str(START_MS + 4999), 4999, 5000),
    ],
)
async def test_never_early_and_at_most_a_precision_late(
    tmp_path: Path, name: str, value: str, due_ms: int, delivered_ms: int
) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(properties={name: value})
        await life.advance(due_ms / 1000 - 0.001)
        assert life.bodies("T") == []
        await life.advance(2)
        assert life.stored("T")[0].store_timestamp == START_MS + delivered_ms


async def test_a_finer_precision(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, timer_precision_ms=100) as life:
        await life.send(properties={"TIMER_DELAY_MS": "4210"})
        await life.advance(4.209)
        assert life.bodies("T") == []
        await life.advance(1)
        assert life.stored("T")[0].store_timestamp == START_MS + 4300


async def test_the_first_of_the_three_counts(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        pairs = {"TIMER_DELIVER_MS": str(START_MS + 9000), "TIMER_DELAY_MS": "8000", "TIMER_DELAY_SEC": "2"}
        await life.send(properties=pairs)
        await life.advance(2)
        assert life.bodies("T") == ["hello"]


@pytest.mark.parametrize("pair", [("TIMER_DELAY_SEC", "0"), ("TIMER_DELAY_MS", "-5"), ("TIMER_DELIVER_MS", "17")])
async def test_already_due_means_now(tmp_path: Path, pair: tuple[str, str]) -> None:
    async with virtual_broker(tmp_path) as life:
        sent = await life.send(properties=dict([pair]))
        (stored,) = life.stored("T")
        assert properties(stored)[pair[0]] == pair[1]
        assert "TIMER_OUT_MS" not in properties(stored)
        assert "recallHandle" not in sent.fields


@pytest.mark.parametrize("value", ["abc", "", "1.5", "9" * 30])
async def test_what_is_no_time_is_refused(tmp_path: Path, value: str) -> None:
    async with virtual_broker(tmp_path) as life:
        refused = await life.send(properties=f"TIMER_DELIVER_MS\x01{value}\x02")
        if value:
            assert refused.code == ResponseCode.MESSAGE_ILLEGAL
            assert "is no number of milliseconds" in str(refused.remark)
            assert life.bodies("T") == []
        else:
            assert life.bodies("T") == ["hello"]  # a property without a value is none


async def test_the_limit_is_three_days_and_may_be_years(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        assert (await life.send(properties={"TIMER_DELAY_SEC": str(3 * DAY_S)})).code == 0
        refused = await life.send(properties={"TIMER_DELAY_SEC": str(3 * DAY_S + 1)})
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        assert "259200000ms (timerMaxDelaySec=259200)" in str(refused.remark)
    ten_years = 10 * 365 * DAY_S
    async with virtual_broker(tmp_path / "b", timer_max_delay_sec=ten_years) as life:
        assert (await life.send(properties={"TIMER_DELAY_SEC": str(ten_years)})).code == 0
        assert int(properties(life.stored(TIMER)[0])["TIMER_OUT_MS"]) == START_MS + ten_years * 1000 - 1000


async def test_timers_may_be_switched_off(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, timer_wheel_enable=False) as life:
        refused = await life.send(properties={"TIMER_DELAY_SEC": "5"})
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "timerWheelEnable is false" in str(refused.remark)


async def test_what_a_consumer_sends_on_does_not_wait_again(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(properties={"TIMER_DELAY_SEC": "1"})
        await life.advance(1)
        got = properties(life.stored("T")[0])
        await life.send(topic="Next", properties=got)
        assert life.bodies("Next") == ["hello"]


async def test_thousands_due_in_one_second_leave_in_order(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, commit_log_file_bytes=8 << 20) as life:
        for number in range(3_000):
            await life.send(body=str(number).encode(), properties={"TIMER_DELAY_SEC": "7"})
        await life.advance(7)
        assert life.bodies("T") == [str(number) for number in range(3_000)]
        assert {record.store_timestamp for record in life.stored("T")} == {START_MS + 7_000}


# --- stops, kills, power cuts -----------------------------------------------------------------------------------------


async def test_a_stop_repeats_and_loses_nothing(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    for life_number in range(4):
        async with virtual_broker(tmp_path, disk, clock) as life:
            assert life.bodies("T") == [str(number) for number in range(life_number)]
            await life.send(body=str(life_number).encode(), properties={"TIMER_DELAY_SEC": "10"})
            await life.advance(4)
        await clock.advance(10)
    async with virtual_broker(tmp_path, disk, clock) as life:
        assert life.bodies("T") == ["0", "1", "2", "3"]
        assert life.broker.timing.timer_store.waiting == 0


@pytest.mark.parametrize("passed", [0, 0.5, 1, 4.999, 5, 5.5, 6, 9.9, 10, 30])
async def test_a_kill_at_any_moment_repeats_and_loses_nothing(tmp_path: Path, passed: float) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        for number in range(5):
            await life.send(body=str(number).encode(), properties={"TIMER_DELAY_SEC": "5"})
        await life.send(body=b"last", properties={"TIMER_DELAY_SEC": "10"})
        await life.advance(passed)
    async with virtual_broker(tmp_path, disk.kill(), clock) as life:
        await life.advance(20)
        assert life.bodies("T") == ["0", "1", "2", "3", "4", "last"]


@pytest.mark.parametrize("seed", range(12))
async def test_a_power_cut_loses_nothing_that_was_flushed(tmp_path: Path, seed: int) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        for number in range(5):
            await life.send(body=str(number).encode(), properties={"TIMER_DELAY_SEC": str(3 + number)})
        await life.broker.store.flush_all()
        await life.advance(seed / 2)
    async with virtual_broker(tmp_path, disk.crash(seed), clock) as life:
        await life.advance(60)
        assert set(life.bodies("T")) == {"0", "1", "2", "3", "4"}
        for record in life.stored("T"):
            assert record.store_timestamp >= START_MS + (3 + int(record.body)) * 1000


async def test_long_after_its_time_it_comes_at_once(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        for number in range(3):
            await life.send(body=str(number).encode(), properties={"TIMER_DELAY_SEC": str(100 - number)})
        await life.advance(1)
    clock.step_wall(40 * DAY_S)
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(0.1)
        assert life.bodies("T") == ["2", "1", "0"]
        await life.send(body=b"new", properties={"TIMER_DELAY_SEC": "2"})
        await life.advance(3)
        assert life.bodies("T") == ["2", "1", "0", "new"]


async def test_a_clock_that_was_set_back_makes_nothing_early(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(body=b"a", properties={"TIMER_DELAY_SEC": "10"})
        await life.advance(5)
        life.clock.step_wall(-3600)
        await life.send(body=b"b", properties={"TIMER_DELAY_SEC": "10"})
        await life.advance(9)
        assert life.bodies("T") == []
        await life.advance(3600)
        assert sorted(life.bodies("T")) == ["a", "b"]


async def test_a_full_disk_delays_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with virtual_broker(tmp_path) as life:
        for number in range(3):
            await life.send(body=str(number).encode(), properties={"TIMER_DELAY_SEC": "2"})
        store, put = life.broker.store, life.broker.store.put

        def full(records: Any) -> Any:
            if len(records) > 1 or records[0].body == b"1":
                raise DiskFull("no room: a test took it")
            return put(records)

        monkeypatch.setattr(store, "put", full)
        await life.advance(4)
        assert life.bodies("T") == ["0", "2"]
        monkeypatch.undo()
        await life.advance(2)
        assert life.bodies("T") == ["0", "2", "1"]


async def test_lost_files_are_made_anew_and_nothing_comes_twice(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        for number in range(6):
            await life.send(body=str(number).encode(), properties={"TIMER_DELAY_SEC": str(5 + 100 * number)})
        await life.advance(200)
        assert life.bodies("T") == ["0", "1"]
    disk.remove("timerwheel")
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(1000)
        assert life.bodies("T") == ["0", "1", "2", "3", "4", "5"]


# --- settings that operators change while it runs ---------------------------------------------------------------------


async def change(life: Virtual, **settings: object) -> None:
    body = "".join(f"{name}={value}\n" for name, value in settings.items()).encode()
    answer = await life.call(RequestCode.UPDATE_BROKER_CONFIG, body)
    assert answer.code == 0, answer.remark


@pytest.mark.parametrize("key", ["timerStopEnqueue", "timerStopDequeue"])
async def test_delivery_may_be_stopped_and_goes_on(tmp_path: Path, key: str) -> None:
    async with virtual_broker(tmp_path) as life:
        await change(life, **{key: "true"})
        await life.send(properties={"TIMER_DELAY_SEC": "2"})
        await life.advance(30)
        assert life.bodies("T") == []
        await change(life, **{key: "false"})
        await life.advance(11)
        assert life.bodies("T") == ["hello"]


async def test_a_crowded_second_refuses_some_then_all(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, timer_congest_num_each_slot=20) as life:
        codes = []
        for _ in range(120):
            answer = await life.send(properties={"TIMER_DELIVER_MS": str(START_MS + 9000)})
            codes.append(answer.code)
            await life.clock.settle()
            await life.advance(0.02)
        assert codes[:20] == [0] * 20
        assert 20 < codes.count(0) <= 41
        assert set(codes[-10:]) == {ResponseCode.SYSTEM_ERROR}
        assert (await life.send(properties={"TIMER_DELAY_SEC": "100"})).code == 0  # another second has room
