"""Delay levels on virtual time: stored as Java stores them, due when they are due, once, whatever happens between."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode
from pyromq.store.files.disk import DiskFull
from pyromq.store.files.real_disk import RealDisk
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.virtual import START_MS, properties, virtual_broker
from tests.store.small import by_key
from tests.support import golden_store

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
GOLDEN = Path(__file__).parents[2] / "golden"
HOUR_S = 3600


async def test_it_waits_as_java_stores_it(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        sent = await life.send(queue=2, body=b"later", properties={"DELAY": "3", "TAGS": "a", "UNIQ_KEY": "U"}, flag=9)
        assert (sent.code, sent.fields["queueId"], sent.fields["queueOffset"]) == (0, "2", "0")
        (waiting,) = life.stored(SCHEDULE, 2)
        assert properties(waiting) == {
            "CLUSTER": "DefaultCluster",
            "DELAY": "3",
            "MSG_REGION": "DefaultRegion",
            "REAL_QID": "2",
            "REAL_TOPIC": "T",
            "TAGS": "a",
            "TRACE_ON": "true",
            "UNIQ_KEY": "U",
        }
        queue = life.broker.store.queues.get(SCHEDULE, 2)
        assert queue is not None
        assert (entry := queue.entry_at(0)) is not None
        assert entry.tag_code == START_MS + 10_000
        await life.advance(9.999)
        assert life.bodies("T", 2) == []
        await life.advance(0.001)
        (delivered,) = life.stored("T", 2)
        assert properties(delivered) == properties(waiting)
        assert (delivered.born_timestamp, delivered.flag) == (waiting.born_timestamp, 9)
        assert (delivered.store_timestamp, delivered.body) == (START_MS + 10_000, b"later")
        assert [message.tags for message in await life.pulled(queue=2, tags="a")] == ["a"]


async def test_each_of_the_18_levels_is_as_long_as_it_says(tmp_path: Path) -> None:
    delays_s = [1, 5, 10, 30, *range(60, 601, 60), 1200, 1800, HOUR_S, 2 * HOUR_S]
    async with virtual_broker(tmp_path) as life:
        for level in range(1, 19):
            await life.send(body=str(level).encode(), properties={"DELAY": str(level)})
        await life.advance(2 * HOUR_S)
        delivered = {int(record.body): record.store_timestamp - START_MS for record in life.stored("T")}
        assert delivered == {level: delay * 1000 for level, delay in enumerate(delays_s, 1)}


async def test_a_delayed_message_counts_when_it_is_stored_and_when_it_is_delivered(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        for delay_s, puts in ((0, "1"), (1, "2")):
            if not delay_s:
                await life.send(properties={"DELAY": "1"})
            await life.advance(delay_s)
            answer = await life.call(RequestCode.GET_BROKER_RUNTIME_INFO)
            assert json.loads(bytes(answer.body))["table"]["putMessageTimesTotal"] == puts


async def test_above_the_highest_level_is_the_highest(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(properties={"DELAY": "99"})
        assert properties(life.stored(SCHEDULE, 17)[0])["DELAY"] == "18"
        await life.advance(2 * HOUR_S)
        assert life.bodies("T") == ["hello"]


async def test_levels_below_one_are_no_delay(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        for level in ("0", "-1"):
            await life.send(body=level.encode(), properties={"DELAY": level})
        assert life.bodies("T") == ["0", "-1"]


@pytest.mark.parametrize("level", ["abc", "1s", " 1", "1.5", "\u00b2"])
async def test_what_is_no_number_is_refused_as_java_refuses_it(tmp_path: Path, level: str) -> None:
    async with virtual_broker(tmp_path) as life:
        refused = await life.send(properties={"DELAY": level})
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "is no delay level" in str(refused.remark)
        assert life.bodies("T") == []


async def test_a_level_wins_over_timers(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(properties={"DELAY": "1", "TIMER_DELAY_SEC": "100"})
        await life.advance(1)
        (delivered,) = life.stored("T")
        assert "TIMER_DELAY_SEC" not in properties(delivered)


async def test_a_table_of_ones_own(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, message_delay_level="2s 2h " + "1m " * 18) as life:
        for level in (1, 2, 20, 21):
            await life.send(body=str(level).encode(), properties={"DELAY": str(level)})
        await life.advance(2)
        assert life.bodies("T") == ["1"]
        await life.advance(60)
        assert life.bodies("T") == ["1", "20", "21"]
        await life.advance(2 * HOUR_S)
        assert life.bodies("T") == ["1", "20", "21", "2"]


async def test_no_level_at_all_is_refused_in_words(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, message_delay_level="") as life:
        refused = await life.send(properties={"DELAY": "1"})
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        assert "messageDelayLevel" in str(refused.remark)


async def test_properties_that_leave_no_room_for_the_delay_are_refused(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        remarks = []
        for size in range(32_400, 32_700, 10):
            answer = await life.send(properties={"DELAY": "1", "x": "y" * size})
            assert answer.code in (ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL), answer.remark
            remarks.append(answer.remark or "stored")
        assert "stored" in remarks
        assert any("those of its delay" in remark for remark in remarks)
        assert len(life.stored(SCHEDULE)) == remarks.count("stored")


async def test_thousands_due_at_once_leave_in_order(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, commit_log_file_bytes=8 << 20) as life:
        for number in range(3_000):
            await life.send(body=str(number).encode(), properties={"DELAY": "2"})
        await life.advance(5)
        assert life.bodies("T") == [str(number) for number in range(3_000)]
        assert {record.store_timestamp for record in life.stored("T")} == {START_MS + 5_000}


async def test_levels_do_not_hold_each_other_up(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        for level in (18, 2, 1):
            await life.send(body=str(level).encode(), properties={"DELAY": str(level)})
        await life.advance(1)
        assert life.bodies("T") == ["1"]
        await life.send(body=b"again", properties={"DELAY": "1"})
        await life.advance(1)
        assert life.bodies("T") == ["1", "again"]
        await life.advance(3)
        assert life.bodies("T") == ["1", "again", "2"]


# --- stops, kills, power cuts -----------------------------------------------------------------------------------------


async def test_a_stop_repeats_and_loses_nothing(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    for life_number in range(4):
        async with virtual_broker(tmp_path, disk, clock) as life:
            assert life.bodies("T") == [str(number) for number in range(life_number)]
            await life.send(body=str(life_number).encode(), properties={"DELAY": "3"})
            await life.advance(4)
        await clock.advance(10)
    async with virtual_broker(tmp_path, disk, clock) as life:
        assert life.bodies("T") == ["0", "1", "2", "3"]
        assert life.broker.timing.progress.offsets == {3: 4}


@pytest.mark.parametrize("passed", [0, 1, 4.999, 5, 7, 14.9, 15, 30])
async def test_a_kill_at_any_moment_repeats_and_loses_nothing(tmp_path: Path, passed: float) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        for number in range(5):
            await life.send(body=str(number).encode(), properties={"DELAY": "2"})
        await life.send(body=b"last", properties={"DELAY": "3"})
        await life.advance(passed)
    async with virtual_broker(tmp_path, disk.kill(), clock) as life:
        await life.advance(20)
        assert life.bodies("T") == ["0", "1", "2", "3", "4", "last"]


@pytest.mark.parametrize("between_s", [0.1, 0.5, 0.9])
async def test_a_kill_repeats_nothing_within_a_second_of_the_index(tmp_path: Path, between_s: float) -> None:
    """The index has whole seconds from its first entry on: what was delivered in the middle of one is found too."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        await life.send(topic="First", properties={"UNIQ_KEY": "first"})
        await life.advance(between_s)
        await life.send(body=b"late", properties={"DELAY": "1", "UNIQ_KEY": "U"})
        await life.advance(1)
        assert life.bodies("T") == ["late"]
    async with virtual_broker(tmp_path, disk.kill(), clock) as life:
        await life.advance(20)
        assert life.bodies("T") == ["late"]


@pytest.mark.parametrize("seed", range(12))
async def test_a_power_cut_loses_nothing_that_was_flushed(tmp_path: Path, seed: int) -> None:
    """Progress never runs ahead of the log: what it passed is on the medium in its topic."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True, flush_delay_offset_interval=500) as life:
        for number in range(5):
            await life.send(body=str(number).encode(), properties={"DELAY": "4"})
        await life.broker.store.flush_all()
        await life.advance(30 + seed)
    async with virtual_broker(tmp_path, disk.crash(seed), clock) as life:
        await life.advance(60)
        assert set(life.bodies("T")) == {"0", "1", "2", "3", "4"}


async def test_a_full_disk_delays_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with virtual_broker(tmp_path) as life:
        for number in range(3):
            await life.send(body=str(number).encode(), properties={"DELAY": "1"})
        store, put = life.broker.store, life.broker.store.put
        calls = 0

        def full(records: Any) -> Any:
            nonlocal calls
            calls += 1
            if len(records) > 1 or records[0].body == b"1":
                raise DiskFull("no room: a test took it")
            return put(records)

        monkeypatch.setattr(store, "put", full)
        await life.advance(3)
        assert life.bodies("T") == ["0", "2"]
        assert calls > 4
        monkeypatch.undo()
        await life.advance(2)
        assert life.bodies("T") == ["0", "2", "1"]
        assert life.broker.timing.progress.offsets == {1: 3}


# --- retention --------------------------------------------------------------------------------------------------------


async def test_what_waits_outlives_its_file(tmp_path: Path) -> None:
    """An hour of retention and a level of three hours."""
    hours = ";".join(f"{hour:02d}" for hour in range(24))
    settings: dict[str, Any] = {
        "message_delay_level": "1s 5s 1m 10m 1h 3h",
        "file_reserved_hours": 1,
        "delete_when": hours,
        "commit_log_file_bytes": 1 << 16,
    }
    async with virtual_broker(tmp_path, **settings) as life:
        for number in range(3):
            await life.send(body=str(number).encode(), properties={"DELAY": "6", "UNIQ_KEY": f"U{number}"})
        first = life.stored(SCHEDULE, 5)[0]
        for _ in range(40):
            await life.send(topic="Fill", body=bytes(4000))
        await life.advance(1.5 * HOUR_S)
        assert life.broker.store.commit_log.start > first.physical_offset
        assert life.bodies("T") == []
        for _ in range(40):
            await life.send(topic="Fill", body=bytes(4000))
        await life.advance(1.5 * HOUR_S - 1)
        assert life.bodies("T") == []
        await life.advance(2)
        delivered = life.stored("T")
        assert [record.body for record in delivered] == [b"0", b"1", b"2"]
        assert properties(delivered[0]) == properties(first)


# --- Java's store -----------------------------------------------------------------------------------------------------


async def test_javas_pending_messages_come_due(tmp_path: Path) -> None:
    golden_store(tmp_path)
    with gzip.open(GOLDEN / "store-clean.json.gz") as file:
        manifest = json.load(file)
    messages = manifest["store"]["messages"]
    pending = [one for one in messages if one["topic"] == SCHEDULE and one["queueId"] in (16, 17)]
    before = [one for one in messages if one["topic"] == "GoldenDelay"]
    root = tmp_path / "store"
    clock = ManualClock(max(one["storeTimestamp"] for one in messages))
    async with virtual_broker(root, RealDisk(root), clock, trace_topic_enable=True) as life:
        assert life.broker.timing.progress.body() == (
            b'{"dataVersion":{"counter":18,"stateVersion":0,"timestamp":1794769286063},'
            b'"offsetTable":{1:9,2:2,3:3,4:1,17:0,18:0}}'
        )
        asked = await life.call(RequestCode.GET_ALL_DELAY_OFFSET)
        assert asked.body == life.broker.timing.progress.body()
        for one in sorted(pending, key=lambda one: int(one["tagsCode"])):
            await life.advance((one["tagsCode"] - clock.now_ms()) / 1000 - 0.001)
            unique = one["properties"]["UNIQ_KEY"]
            assert by_key(life.broker.store, "GoldenDelay", unique) == []
            await life.advance(0.001)
            (delivered,) = by_key(life.broker.store, "GoldenDelay", unique)
            assert properties(delivered) == one["properties"]
            assert delivered.queue_id == int(one["properties"]["REAL_QID"])
            assert delivered.born_timestamp == one["bornTimestamp"]
        assert sum(len(life.stored("GoldenDelay", queue)) for queue in (0, 1)) == len(before) + len(pending)
