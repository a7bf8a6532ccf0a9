"""A wall clock that is set while the broker runs or is down: what waits is delivered, once, and not before its time on
the clock as it stands then. Durations (registration, idle clients) do not follow it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.transactions.test_transactions import COMMIT, end, register, send_half
from tests.broker.virtual import START_MS, Virtual, virtual_broker

DAY_S = 86_400
JUMPS = [sign * seconds for seconds in (1, DAY_S, 25 * DAY_S, 30 * DAY_S, 365 * DAY_S) for sign in (1, -1)]
IDS = [f"{jump:+d}s" for jump in JUMPS]


async def send_both(life: Virtual, name: str, delay_s: int = 30) -> None:
    """A timed message, and one of the level of 30 s."""
    timed = {"TIMER_DELAY_SEC": str(delay_s), "UNIQ_KEY": f"t-{name}"}
    assert (await life.send(topic="Timed", body=name.encode(), properties=timed)).code == 0
    assert (await life.send(topic="Level", body=name.encode(), properties={"DELAY": "4", "UNIQ_KEY": name})).code == 0


def assert_calm(life: Virtual) -> None:
    assert not life.broker.environment.loops.faults
    assert len(life.broker.storage.quarantine) == 0


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("jump_s", JUMPS, ids=IDS)
async def test_what_is_sent_after_the_clock_was_set_comes_in_its_time(
    tmp_path: Path, jump_s: int, restarts: bool
) -> None:
    """The clock is set, and set back to where it was: nothing that is sent afterwards waits for the time between."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    steps = [jump_s, -jump_s, 0]
    for number, step in enumerate(steps):
        async with virtual_broker(tmp_path, disk, clock) as life:
            await life.send(body=b"x")  # the log's time follows a clock that is ahead, and does not go back
            for inner in [step] if restarts else steps if not number else []:
                clock.step_wall(inner)
                await life.send(body=b"x")
                name = f"{number}.{inner}"
                before = clock.monotonic()
                await send_both(life, name)
                await life.advance(29)
                assert name not in life.bodies("Level")
                assert name not in life.bodies("Timed")
                await life.advance(15)
                assert name in life.bodies("Level")
                assert name in life.bodies("Timed")
                assert clock.monotonic() - before < 60
            await life.advance(120)
            for topic in ("Level", "Timed"):
                assert len(life.bodies(topic)) == len(set(life.bodies(topic)))
            assert_calm(life)


@pytest.mark.parametrize("jump_s", JUMPS, ids=IDS)
async def test_what_waits_while_the_clock_is_set_comes_once_and_not_before_its_time_on_that_clock(
    tmp_path: Path, jump_s: int
) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        await send_both(life, "early", 3600)
        due_ms = clock.now_ms() + 3_600_000
        await life.advance(1)
        clock.step_wall(jump_s)
        await life.advance(60)
        if clock.now_ms() < due_ms:
            assert life.bodies("Timed") == []
        else:
            assert life.bodies("Timed") == ["early"]
        assert life.bodies("Level") == ["early"]  # at most its level's delay from when that was seen
        clock.step_wall(-jump_s)
        await life.advance(60)
    async with virtual_broker(tmp_path, disk, clock) as life:
        await life.advance(max(0, due_ms - clock.now_ms()) / 1000 + 15)
        assert life.bodies("Timed") == ["early"]
        assert life.bodies("Level") == ["early"]
        assert_calm(life)


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
async def test_a_clock_that_was_25_days_ahead_and_is_set_right_ends_nothing(tmp_path: Path, killed: bool) -> None:
    """The next timed message once ended the broker, and again after restarts."""
    clock = ManualClock(START_MS + 25 * DAY_S * 1000)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=killed) as life:
        await send_both(life, "ahead")
        await life.advance(120)
    if killed:
        disk = disk.kill()
    clock.step_wall(-25 * DAY_S)
    for number in range(3):
        async with virtual_broker(tmp_path, disk, clock) as life:
            await send_both(life, f"right {number}")
            await life.advance(60)
            assert life.bodies("Timed") == ["ahead", *(f"right {one}" for one in range(number + 1))]
            assert life.bodies("Level") == ["ahead", *(f"right {one}" for one in range(number + 1))]
            assert_calm(life)


async def test_delays_of_a_level_count_from_each_message_while_the_log_is_ahead_of_the_clock(tmp_path: Path) -> None:
    """All of them have one store time then: that of the newest record."""
    async with virtual_broker(tmp_path) as life:
        life.clock.step_wall(DAY_S)
        await life.send(body=b"x")
        life.clock.step_wall(-DAY_S)
        sent: dict[str, float] = {}
        for number in range(5):
            name = f"{number}"
            sent[name] = life.clock.monotonic()
            await life.send(topic="Level", body=name.encode(), properties={"DELAY": "4"})
            await life.advance(7)
        came: dict[str, float] = {}
        for _ in range(60):
            for name in life.bodies("Level"):
                came.setdefault(name, life.clock.monotonic())
            await life.advance(1)
        assert list(came) == list(sent)
        for name in sent:
            assert 30 <= came[name] - sent[name] <= 42


@pytest.mark.parametrize("jump_s", JUMPS, ids=IDS)
async def test_a_transaction_is_asked_about_and_ended_whatever_the_clock_does(tmp_path: Path, jump_s: int) -> None:
    async with virtual_broker(tmp_path, file_reserved_hours=24 * 400) as life:
        peer = register(life)
        half = await send_half(life)
        life.clock.step_wall(jump_s)
        await life.advance(120)
        assert [one.code for one in peer.sent if one.code == RequestCode.CHECK_TRANSACTION_STATE]
        assert (await end(life, half, COMMIT)).code == ResponseCode.SUCCESS
        assert life.bodies("T") == ["k"]
        assert_calm(life)


@pytest.mark.parametrize("jump_s", JUMPS, ids=IDS)
async def test_keys_and_times_are_found_whatever_the_clock_does(tmp_path: Path, jump_s: int) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    for number in range(3):
        async with virtual_broker(tmp_path, disk, clock) as life:
            await life.send(body=b"%d" % number, properties={"KEYS": f"k{number}"})
            clock.step_wall(jump_s if number == 0 else -jump_s)
            for known in range(number + 1):
                found = await life.call(
                    RequestCode.QUERY_MESSAGE,
                    topic="T",
                    key=f"k{known}",
                    maxNum=9,
                    beginTimestamp=0,
                    endTimestamp=1 << 62,
                )
                assert found.code == 0
            times = [record.store_timestamp for record in life.stored("T")]
            assert times == sorted(times)
            for offset, time in enumerate(times):
                told = await life.call(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, topic="T", queueId=0, timestamp=time)
                assert int(told.fields["offset"]) == times.index(time) <= offset


@pytest.mark.parametrize("jump_s", JUMPS, ids=IDS)
async def test_a_repeat_is_no_second_message_whatever_the_clock_does(tmp_path: Path, jump_s: int) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    known = {"__SEND_ID": "p/1/1"}
    async with virtual_broker(tmp_path, disk, clock, duplicate_window_enable=True) as life:
        assert (await life.send(body=b"once", properties=known)).code == 0
        clock.step_wall(jump_s)
        await life.send(body=b"once", properties=known)
        assert (await life.send(body=b"two", properties={"__SEND_ID": "p/1/2"})).code == 0
    async with virtual_broker(tmp_path, disk, clock, duplicate_window_enable=True) as life:
        assert (await life.send(body=b"two", properties={"__SEND_ID": "p/1/2"})).code == 0
        assert life.bodies("T").count("two") == 1
        if jump_s < 600:  # beyond, it is older than the window remembers
            assert life.bodies("T").count("once") == 1
