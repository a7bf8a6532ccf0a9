"""One record that a loop cannot handle: it is put aside and listed, everything else is delivered, retention goes on, a
restart does not try it again, and who releases it gets it delivered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.retries.dead_letters import _with_death
from pyromq.broker.timing import level_park, timer_park
from pyromq.broker.transactions import half_records, halves
from pyromq.broker.transactions.undecided import half_of
from pyromq.cli.msg.message_tables import life_lines
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.record import Record
from pyromq.protocol.requests import RequestCode
from pyromq.store.files.disk import read_whole, replace_durably
from pyromq.store.tables.quarantine import TABLE, QuarantinedRecord, read_copy, read_quarantine
from pyromq.store.tools.by_hand import quarantine_by_hand, release_by_hand
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.transactions.test_copies_and_many import push_out
from tests.broker.transactions.test_transactions import COMMIT, HALF, end, register, send_half
from tests.broker.virtual import START_MS, Virtual, virtual_broker

TIMING = "pyromq.broker.timing"
SCHEDULE, TIMER = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
# Files so small that a few sends push the oldest out.
SMALL_LOG: dict[str, Any] = {"max_log_bytes": 1 << 17, "commit_log_file_bytes": 1 << 16}


def plant(life: Virtual, topic: str, properties: dict[str, str], body: bytes = b"poison") -> int:
    """A record that nobody checked: as an older version, or Java's broker, has left it. Its place in the log."""
    record = Record(
        topic=topic,
        queue_id=0,
        body=body,
        properties=encode_properties(properties),
        born_timestamp=START_MS,
        born_host=HOST,
        store_host=HOST,
    )
    return life.broker.store.put([record])[0].position


def raising_for(body: bytes, real: Callable[..., Any], find: Callable[..., Record]) -> Callable[..., Any]:
    """As `real`, but it raises for the record with this body."""

    def broken(*arguments: Any, **named: Any) -> Any:
        if find(*arguments).body == body:
            raise KeyError("a fault of ours")
        return real(*arguments, **named)

    return broken


def first(*arguments: Any) -> Any:
    return arguments[0]


async def listed(life: Virtual) -> list[dict[str, Any]]:
    """What `pyromq inspect` shows; the runtime info counts the same."""
    told = json.loads(bytes((await life.call(RequestCode.INSPECT)).body))
    runtime = json.loads(bytes((await life.call(RequestCode.GET_BROKER_RUNTIME_INFO)).body))["table"]
    assert told["quarantined"] == len(told["quarantine"]) == int(runtime["pyromqQuarantined"])
    assert (told["ready"], told["loopFaults"], runtime["pyromqLoopFaults"]) == (True, {}, "0")
    return list(told["quarantine"])


# --- each loop --------------------------------------------------------------------------------------------------------


async def test_a_delayed_message_that_cannot_be_delivered_is_put_aside_and_comes_when_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, clock = SimulatedDisk(now_ms=lambda: START_MS), ManualClock()
    monkeypatch.setattr(f"{TIMING}.level_delivery.unpark", raising_for(b"bad", level_park.unpark, first))
    async with virtual_broker(tmp_path, disk, clock) as life:
        for body in (b"before", b"bad", b"behind"):
            await life.send(body=body, properties={"DELAY": "1"})
        await life.advance(5)
        assert life.bodies("T") == ["before", "behind"]
        (aside,) = await listed(life)
        assert (aside["by"], aside["topic"], aside["reason"]) == (
            "delay levels",
            SCHEDULE,
            "KeyError: 'a fault of ours'",
        )
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(60)
        assert [one["position"] for one in await listed(life)] == [aside["position"]]
    release_by_hand(disk, aside["position"], clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:  # the fault is still there
        await life.advance(10)
        (again,) = await listed(life)
        assert again["position"] > aside["position"]
    monkeypatch.undo()
    release_by_hand(disk, again["position"], clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(10)
        assert life.bodies("T") == ["before", "behind", "bad"]
        assert await listed(life) == []


async def test_the_life_of_a_message_that_was_put_aside_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{TIMING}.level_delivery.unpark", raising_for(b"bad", level_park.unpark, first))
    monkeypatch.setattr(f"{TIMING}.timer_slots.unpark", raising_for(b"bad", timer_park.unpark, first))
    monkeypatch.setattr(halves, "half_of", raising_for(b"bad", half_of, lambda record, checks: record))
    async with virtual_broker(tmp_path) as life:
        half = {"TRAN_MSG": "true", "PGROUP": "P"}
        for id_, how in (("level", {"DELAY": "1"}), ("timer", {"TIMER_DELAY_SEC": "5"}), ("half", half)):
            flags = 4 if how is half else 0
            assert (await life.send(body=b"bad", properties={"UNIQ_KEY": id_} | how, sysFlag=flags)).code == 0
        await life.send(body=b"bad", properties={"UNIQ_KEY": "retried"})
        fields: dict[str, Any] = {"offset": life.stored("T")[-1].physical_offset, "group": "G", "delayLevel": 1}
        assert (await life.call(RequestCode.CONSUMER_SEND_MSG_BACK, **fields)).code == 0
        await life.advance(10)
        for id_ in ("level", "timer", "half"):
            answer = await life.call(RequestCode.MESSAGE_LIFE, topic="T", id=id_)
            told = json.loads(bytes(answer.body))
            assert (told["state"], told["reason"]) == ("put aside", "KeyError: 'a fault of ours'"), id_
            line = next(each for each in life_lines(told | {"broker": "b"}) if each.startswith("state"))
            assert "put aside: KeyError: 'a fault of ours' since " in line
        answer = await life.call(RequestCode.MESSAGE_LIFE, topic="T", id="retried")
        told = json.loads(bytes(answer.body))
        assert (told["state"], [one["state"] for one in told["groups"]]) == ("ready", ["put aside"])


async def test_a_delayed_message_that_does_not_say_where_it_belongs_is_put_aside(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        place = plant(life, SCHEDULE, {"DELAY": "1"})
        await life.send(body=b"behind", properties={"DELAY": "1"})
        await life.advance(5)
        assert life.bodies("T") == ["behind"]
        (aside,) = await listed(life)
        assert (aside["position"], aside["reason"]) == (place, "it does not say where it belongs")


async def test_a_timed_message_that_cannot_be_delivered_is_put_aside_and_comes_when_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, clock = SimulatedDisk(now_ms=lambda: START_MS), ManualClock()
    monkeypatch.setattr(f"{TIMING}.timer_slots.unpark", raising_for(b"bad", timer_park.unpark, first))
    async with virtual_broker(tmp_path, disk, clock) as life:
        for body in (b"before", b"bad", b"behind"):
            await life.send(body=body, properties={"TIMER_DELAY_SEC": "5"})
        await life.advance(10)
        assert life.bodies("T") == ["before", "behind"]
        (aside,) = await listed(life)
        assert (aside["by"], aside["topic"]) == ("timers", TIMER)
        assert life.broker.timing.timer_store.waiting == 0
        assert life.broker.timing.parked() == {}
    monkeypatch.undo()
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(60)
        assert life.bodies("T") == ["before", "behind"]
    release_by_hand(disk, aside["position"], clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(10)
        assert life.bodies("T") == ["before", "behind", "bad"]
        assert await listed(life) == []


@pytest.mark.parametrize(
    "hostile",
    [
        {"TIMER_OUT_MS": "9" * 5000},
        {"TIMER_OUT_MS": "²"},
        {"TIMER_OUT_MS": "-1"},
        {"TIMER_OUT_MS": str(START_MS), "REAL_QID": "²"},
        {"TIMER_OUT_MS": str(START_MS), "REAL_QID": "9" * 5000},
        {"TIMER_OUT_MS": str(START_MS), "REAL_QID": "0", "TIMER_ROLL_TIMES": "abc"},
        {"TIMER_OUT_MS": str(START_MS), "REAL_QID": "0", "big": "x" * 32_600},
        {"TIMER_OUT_MS": str(START_MS - 400 * 86_400_000), "REAL_QID": "0"},
        {"TIMER_OUT_MS": str((1 << 63) - 1), "REAL_QID": "0"},
    ],
    ids=lambda pairs: "-".join(f"{name}={value[:12]}" for name, value in pairs.items()),
)
async def test_whatever_a_store_holds_for_the_timer_it_delivers_all_the_rest(
    tmp_path: Path, hostile: dict[str, str]
) -> None:
    disk, clock = SimulatedDisk(now_ms=lambda: START_MS), ManualClock()
    for body in ("first", "second"):
        async with virtual_broker(tmp_path, disk, clock) as life:
            plant(life, TIMER, hostile | {"REAL_TOPIC": "T"})
            await life.send(body=body.encode(), properties={"TIMER_DELAY_SEC": "5"})
            await life.advance(10)
            assert body in life.bodies("T")
            assert not life.broker.environment.loops.faults
            delivered = life.bodies("T").count("poison")
            waits = life.broker.timing.timer_store.waiting
            assert delivered + waits + len(await listed(life)) == (1 if body == "first" else 2)


async def test_a_timed_message_that_cannot_be_read_into_the_timer_is_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(raw: bytes) -> Any:
        if b"bad" in raw:
            raise OverflowError("a fault of ours")
        return timer_park.waiting(raw)

    monkeypatch.setattr(f"{TIMING}.timer_feed.waiting", broken)
    async with virtual_broker(tmp_path) as life:
        for body in (b"before", b"bad", b"behind"):
            await life.send(body=body, properties={"TIMER_DELAY_SEC": "5"})
        await life.advance(10)
        assert life.bodies("T") == ["before", "behind"]
        assert [one["reason"] for one in await listed(life)] == ["OverflowError: a fault of ours"]


async def test_a_half_message_that_cannot_be_understood_does_not_keep_the_broker_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, clock = SimulatedDisk(now_ms=lambda: START_MS), ManualClock()
    monkeypatch.setattr(halves, "half_of", raising_for(b"bad", half_of, lambda record, checks: record))
    async with virtual_broker(tmp_path, disk, clock) as life:
        bad, good = await send_half(life, "bad"), await send_half(life, "good")
        await life.advance(120)
        assert [one["position"] for one in await listed(life)] == [bad.physical_offset]
    async with virtual_broker(tmp_path, disk, clock) as life:
        assert len(await listed(life)) == 1
        assert (await end(life, good, COMMIT)).code == 0
        await life.advance(120)
        assert life.bodies("T") == ["good"]
    monkeypatch.undo()
    release_by_hand(disk, bad.physical_offset, clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        released = life.stored(HALF)[-1]
        assert (await end(life, released, COMMIT)).code == 0
        assert life.bodies("T") == ["good", "bad"]
        assert await listed(life) == []


async def test_a_half_message_that_nobody_can_be_asked_about_is_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = raising_for(b"bad", half_records.discarded, first)
    monkeypatch.setattr("pyromq.broker.transactions.check.discarded", broken)
    async with virtual_broker(tmp_path, transaction_check_max=1) as life:
        register(life)
        for key in ("one", "bad", "two"):
            await send_half(life, key)
        await life.advance(300)
        assert life.bodies("TRANS_CHECK_MAX_TIME_TOPIC") == ["one", "two"]
        assert len(await listed(life)) == 1
        assert not life.broker.transactions.halves.undecided.all()


# --- retention --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "real", "properties"),
    [
        (f"{TIMING}.timers.timer_copy", timer_park.timer_copy, {"TIMER_DELAY_SEC": "100000"}),
        (f"{TIMING}.level_delivery.unpark", level_park.unpark, {"DELAY": "3"}),
        ("pyromq.broker.transactions.survival.half_copy", half_records.half_copy, {"TRAN_MSG": "true", "PGROUP": "P"}),
    ],
    ids=["timers", "delay levels", "transactions"],
)
async def test_a_record_that_cannot_be_carried_forward_is_copied_aside_and_its_file_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, real: Callable[..., Any], properties: dict[str, str]
) -> None:
    disk, clock = SimulatedDisk(now_ms=lambda: START_MS), ManualClock()
    monkeypatch.setattr(where, raising_for(b"bad", real, first))
    settings = SMALL_LOG | {"transaction_check_max": 1000}
    async with virtual_broker(tmp_path, disk, clock, **settings) as life:
        half = 4 if "TRAN_MSG" in properties else 0
        assert (await life.send(body=b"bad", properties=properties, sysFlag=half)).code == 0
        await push_out(life)
        (aside,) = await listed(life)
        assert aside["position"] < life.broker.store.commit_log.start
    (noted,) = read_quarantine(disk)
    copy = read_copy(disk, noted)
    assert copy is not None
    assert b"bad" in copy
    assert (len(copy), noted.is_copied) == (noted.size, True)
    monkeypatch.undo()
    release_by_hand(disk, noted.position, clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, **settings) as life:
        await life.advance(20)
        assert await listed(life) == []
        assert not disk.exists(noted.copy_name)
        if not half:
            await life.advance(100_100)
            assert life.bodies("T") == ["bad"]
        else:
            assert [one.body for one in life.stored(HALF)] == [b"bad"]


async def test_a_dead_letter_that_cannot_be_carried_forward_does_not_hold_up_retention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, disk = "%DLQ%G", SimulatedDisk(now_ms=lambda: START_MS)
    broken = raising_for(b"bad", _with_death, first)
    monkeypatch.setattr("pyromq.broker.retries.dead_letters._with_death", broken)
    async with virtual_broker(tmp_path, disk, dead_letter_reserved_hours=1000, **SMALL_LOG) as life:
        for body in (b"one", b"bad", b"two"):
            plant(life, dead, {}, body)
        await push_out(life)
        assert life.bodies(dead) == ["one", "two"]
        (aside,) = await listed(life)
        assert aside["by"] == "dead letters"
    (noted,) = read_quarantine(disk)
    assert noted.is_copied


# --- by hand ----------------------------------------------------------------------------------------------------------


async def test_what_is_put_aside_by_hand_is_left_out_until_it_is_released(tmp_path: Path) -> None:
    disk, clock = SimulatedDisk(now_ms=lambda: START_MS), ManualClock()
    async with virtual_broker(tmp_path, disk, clock) as life:
        for body in (b"one", b"two"):
            await life.send(body=body, properties={"DELAY": "3"})
        place = life.stored(SCHEDULE, 2)[0].physical_offset
        config = life.broker.environment.config
    noted = quarantine_by_hand(disk, config, place, clock.now_ms)
    assert (noted.loop, noted.topic, noted.queue_id) == ("by hand", SCHEDULE, 2)
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(20)
        assert life.bodies("T") == ["two"]
    release_by_hand(disk, place, clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(20)
        assert life.bodies("T") == ["two", "one"]


async def test_a_message_that_consumers_find_anyway_is_not_stored_again_when_it_is_released(tmp_path: Path) -> None:
    disk, clock = SimulatedDisk(now_ms=lambda: START_MS), ManualClock()
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.send(body=b"plain")
        place = life.stored("T")[0].physical_offset
        config = life.broker.environment.config
    quarantine_by_hand(disk, config, place, clock.now_ms)
    release_by_hand(disk, place, clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        assert life.bodies("T") == ["plain"]
        assert await listed(life) == []


async def test_a_release_that_the_list_still_has_after_a_kill_is_not_carried_out_twice(tmp_path: Path) -> None:
    disk, clock = SimulatedDisk(now_ms=lambda: START_MS), ManualClock()
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.send(body=b"once", properties={"DELAY": "3", "UNIQ_KEY": "C0A8010100002A9F0000000000000001"})
        place = life.stored(SCHEDULE, 2)[0].physical_offset
        config = life.broker.environment.config
    quarantine_by_hand(disk, config, place, clock.now_ms)
    release_by_hand(disk, place, clock.now_ms)
    before_the_kill = read_whole(disk, TABLE)
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(20)
        assert life.bodies("T") == ["once"]
    replace_durably(disk, TABLE, before_the_kill)
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(20)
        assert life.bodies("T") == ["once"]
        assert await listed(life) == []


async def test_a_list_that_cannot_be_read_does_not_keep_the_broker_from_starting(tmp_path: Path) -> None:
    disk = SimulatedDisk(now_ms=lambda: START_MS)
    async with virtual_broker(tmp_path, disk) as life:
        plant(life, SCHEDULE, {"DELAY": "1"})
        await life.advance(5)
        assert len(await listed(life)) == 1
    for name in ("pyromq/quarantine.json", "pyromq/quarantine.json.bak"):
        file = disk.open(name, create=True)
        file.truncate(0)
        file.pwrite(0, b"{]")
        file.close()
    async with virtual_broker(tmp_path, disk) as life:
        assert await listed(life) == []
        assert (await life.send(body=b"x")).code == 0


def test_what_is_listed_survives_the_way_to_the_table() -> None:
    one = QuarantinedRecord(position=7, size=1, topic="T", queue_id=0, loop="timers", reason="r", time_ms=5)
    assert one.copy_name == "pyromq/quarantine/00000000000000000007"
