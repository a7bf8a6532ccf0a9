"""Which log files go, and how."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from pyromq.errors import ConfigError
from pyromq.store.files.disk import DiskUsage
from pyromq.store.files.file_age import LogFile, times_written
from pyromq.store.log.retention import DeletionPlan, DiskSpaceGate, FilesInUse, Retention, RetentionConfig, decide
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import PAGE, SimulatedDisk

HOUR = 3_600_000
FOUR = int(datetime(2026, 3, 5, 4, 30).timestamp() * 1000)  # local time, as deleteWhen is
NOON = int(datetime(2026, 3, 5, 12, 0).timestamp() * 1000)
ROOMY = DiskUsage(total=100, used=10)
CONFIG = RetentionConfig()


def files(*ages_hours: float, now: int = FOUR, size: int = 100) -> list[LogFile]:
    return [LogFile(number * size, (number + 1) * size, int(now - age * HOUR)) for number, age in enumerate(ages_hours)]


def test_at_the_hour_files_older_than_the_limit_go() -> None:
    assert decide(files(100, 80, 71, 1), ROOMY, FOUR, CONFIG).files == 2
    assert decide(files(100, 80, 71, 1, now=NOON), ROOMY, NOON, CONFIG).files == 0


def test_the_last_file_never_goes() -> None:
    assert decide(files(100), ROOMY, FOUR, CONFIG).files == 0
    assert decide(files(100), DiskUsage(100, 99), FOUR, CONFIG).files == 0
    assert decide([], ROOMY, FOUR, CONFIG).files == 0


def test_a_younger_file_keeps_those_behind_it() -> None:
    assert decide(files(100, 10, 100, 1), ROOMY, FOUR, CONFIG).files == 1


def test_several_hours_of_deletion() -> None:
    config = RetentionConfig(delete_when="3;12")
    assert decide(files(100, 1, now=NOON), ROOMY, NOON, config).files == 1
    assert decide(files(100, 1), ROOMY, FOUR, config).files == 0


def test_a_disk_above_75_percent_needs_no_hour() -> None:
    assert decide(files(100, 1, now=NOON), DiskUsage(100, 75), NOON, CONFIG).files == 0
    assert decide(files(100, 50, 1, now=NOON), DiskUsage(100, 76), NOON, CONFIG).files == 1


def test_a_disk_above_85_percent_takes_the_oldest_whatever_their_age() -> None:
    assert decide(files(3, 2, 1, now=NOON), DiskUsage(100, 86), NOON, CONFIG).files == 2
    gentle = RetentionConfig(force_enabled=False)
    assert decide(files(3, 2, 1, now=NOON), DiskUsage(100, 86), NOON, gentle).files == 0


def test_ten_files_in_a_round() -> None:
    assert decide(files(*[100] * 30), ROOMY, FOUR, CONFIG).files == 10
    assert decide(files(*[1] * 30), DiskUsage(100, 99), FOUR, CONFIG).files == 10


def test_an_absolute_size() -> None:
    config = RetentionConfig(max_log_bytes=250)
    decision = decide(files(1, 1, 1, 1, now=NOON), ROOMY, NOON, config)
    assert decision == DeletionPlan(2, "the log has 400 bytes, the limit is 250")
    assert decide(files(1, 1, now=NOON), ROOMY, NOON, config).files == 0
    assert decide(files(1, 1, now=NOON), ROOMY, NOON, RetentionConfig(max_log_bytes=1)).files == 1


def test_by_hand_at_any_hour() -> None:
    assert decide(files(100, 1, now=NOON), ROOMY, NOON, CONFIG, by_hand=True).files == 1
    assert decide(files(10, 1, now=NOON), ROOMY, NOON, CONFIG, by_hand=True).files == 0


def test_ratios_are_clamped_as_in_java() -> None:
    config = RetentionConfig(disk_force_ratio=0.99, disk_warning_ratio=0.99)
    assert (config.force_at, config.warn_at) == (0.85, 0.90)
    config = RetentionConfig(disk_force_ratio=0.01, disk_warning_ratio=0.01)
    assert (config.force_at, config.warn_at) == (0.30, 0.35)


@pytest.mark.parametrize("text", ["24", "four", "04,05", "-1"])
def test_a_senseless_hour_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="deleteWhen"):
        RetentionConfig(delete_when=text)


class FakeStore:
    def __init__(self, found: list[LogFile]) -> None:
        self.files = found
        self.dropped: list[int] = []

    def log_files(self) -> list[LogFile]:
        return self.files

    async def drop_oldest_log_file(self) -> None:
        self.dropped.append(self.files[0].start)
        self.files = self.files[1:]


class Scene:
    def __init__(self, found: list[LogFile], now: int = FOUR, config: RetentionConfig = CONFIG) -> None:
        self.clock = ManualClock(now)
        self.store = FakeStore(found)
        self.disk = SimulatedDisk(capacity=100 * PAGE)
        self.gate = DiskSpaceGate(self.disk, config, self.clock)
        self.in_use = FilesInUse(self.clock)
        self.retention = Retention(self.store, self.gate, self.in_use, config, self.clock)

    def fill(self, pages: int) -> None:
        self.disk.open("filler", create=True).allocate(0, pages * PAGE)

    async def round(self) -> int:
        """A round, with the pauses between its files passing at once."""
        task = asyncio.create_task(self.retention.round())
        while not task.done():
            await self.clock.advance(0.1)
        return task.result()


async def test_a_round_drops_in_order() -> None:
    scene = Scene(files(100, 90, 80, 1))
    assert await scene.round() == 3
    assert scene.store.dropped == [0, 100, 200]


async def test_a_file_in_use_stays_and_so_do_those_behind_it_until_patience_ends() -> None:
    scene = Scene(files(100, 90, 1))
    with scene.in_use.reading(0):
        assert await scene.round() == 0
        await scene.clock.advance(60)
        assert await scene.round() == 0
        await scene.clock.advance(60)
        assert await scene.round() == 2
    assert scene.store.dropped == [0, 100]


async def test_a_file_goes_once_its_readers_are_done() -> None:
    scene = Scene(files(100, 1))
    with scene.in_use.reading(0), scene.in_use.reading(0, 100):
        assert await scene.round() == 0
    assert await scene.round() == 1


async def test_a_slaves_files_go_with_its_masters() -> None:
    scene = Scene(files(100, 90, 80, 1))
    scene.retention.goes_by_age = lambda: False
    assert await scene.round() == 0  # however old: the master says when
    assert await scene.retention.drop_before(199) == 1
    assert await scene.retention.drop_before(200) == 1
    assert await scene.retention.drop_before(1 << 40) == 1  # never the last
    assert scene.store.dropped == [0, 100, 200]


async def test_a_file_that_another_copy_lacks_stays_unless_space_is_short() -> None:
    scene = Scene(files(100, 90, 80, 1))
    scene.retention.wanted_from = lambda: 150
    assert await scene.round() == 1
    assert scene.store.dropped == [0]
    scene.fill(90)
    assert await scene.round() == 2


async def test_carriers_are_told_the_range_before_the_file_goes() -> None:
    scene = Scene(files(100, 90, 1))
    seen: list[tuple[int, int, int]] = []

    async def carry(start: int, end: int) -> None:
        seen.append((start, end, len(scene.store.dropped)))

    scene.retention.add_carrier(carry)
    assert await scene.round() == 2
    assert seen == [(0, 100, 0), (100, 200, 1)]


async def test_a_file_whose_records_cannot_be_carried_stays() -> None:
    scene = Scene(files(100, 1))

    async def fails(start: int, end: int) -> None:
        raise RuntimeError("no")

    scene.retention.add_carrier(fails)
    assert await scene.round() == 0
    assert scene.store.dropped == []


async def test_a_full_disk_refuses_writes_by_name_and_recovers_by_itself_alibaba_331() -> None:
    """alibaba/RocketMQ 331: the store never became writable again."""
    scene = Scene(files(1, now=NOON), now=NOON)
    await scene.round()
    assert scene.gate.refusal is None
    scene.fill(91)
    await scene.round()
    assert scene.gate.refusal is not None
    for word in ("simulated disk", "91%", str(91 * PAGE), str(100 * PAGE), "90%"):
        assert word in scene.gate.refusal
    scene.disk.remove("filler")
    await scene.round()
    assert scene.gate.refusal is None


async def test_whoever_is_refused_makes_the_disk_be_looked_at_again_every_few_seconds() -> None:
    scene = Scene(files(1, now=NOON), now=NOON)
    scene.fill(91)
    scene.gate.measure()
    scene.disk.capacity = 95 * PAGE
    assert "91%" in (scene.gate.why_refused() or "")
    await scene.clock.advance(3)
    assert "96%" in (scene.gate.why_refused() or "")
    scene.disk.remove("filler")
    assert scene.gate.why_refused() is not None
    await scene.clock.advance(3)
    assert scene.gate.why_refused() is None
    assert scene.gate.refusal is None


async def test_deleting_by_hand_lasts_twenty_rounds() -> None:
    scene = Scene(files(100, 1, now=NOON), now=NOON)
    assert await scene.round() == 0
    scene.retention.delete_by_hand()
    assert await scene.round() == 1
    scene.store.files = files(100, 1, now=NOON)
    for _ in range(18):
        scene.store.files = files(10, 1, now=NOON)
        assert await scene.round() == 0
    scene.store.files = files(100, 1, now=NOON)
    assert await scene.round() == 1
    scene.store.files = files(100, 1, now=NOON)
    assert await scene.round() == 0


async def test_the_loop_waits_before_the_first_round_and_between_rounds() -> None:
    scene = Scene(files(100, 1))
    running = asyncio.create_task(scene.retention.run())
    await scene.clock.advance(59)
    assert scene.store.dropped == []
    await scene.clock.advance(1)
    assert scene.store.dropped == [0]
    scene.store.files = files(100, 1)
    await scene.clock.advance(9)
    assert scene.store.dropped == [0]
    await scene.clock.advance(1)
    assert scene.store.dropped == [0, 0]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_file_with_a_time_that_is_still_to_come_is_as_old_as_the_next_that_has_none() -> None:
    """Written while the clock was a year ahead: it would stay for a year."""
    year = 365 * 24
    assert decide(files(100, -year, 90, 1), ROOMY, FOUR, CONFIG).files == 3
    assert decide(files(100, -year, 10, 1), ROOMY, FOUR, CONFIG).files == 1
    assert times_written(files(100, -year), FOUR) == [FOUR - 100 * HOUR, FOUR]


def test_a_file_that_was_written_while_the_clock_was_behind_is_no_older_than_those_before_it() -> None:
    year = 365 * 24
    assert decide(files(10, year, 5, 1), ROOMY, FOUR, CONFIG).files == 0


async def test_for_a_day_after_the_clock_went_ahead_no_file_goes_by_its_age() -> None:
    scene = Scene(files(1, 1, 1), config=RetentionConfig(pause_ms=0))
    month_s = 30 * 24 * 3600
    for step_s in (month_s, -month_s, month_s):  # the last time it is left so
        scene.clock.step_wall(step_s)
        assert await scene.retention.round() == 0
    await scene.clock.advance(hours=23)
    assert await scene.retention.round() == 0
    await scene.clock.advance(hours=1)
    assert await scene.retention.round() == 2


async def test_for_want_of_space_files_go_whatever_the_clock_does() -> None:
    scene = Scene(files(1, 1, 1), config=RetentionConfig(max_log_bytes=150, pause_ms=0))
    scene.clock.step_wall(30 * 24 * 3600)
    assert await scene.retention.round() == 2
