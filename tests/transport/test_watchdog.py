"""Several deadlines behind one timer."""

from __future__ import annotations

from pyromq.testing.clock import ManualClock
from pyromq.transport.turns.timeouts import Watchdog


async def test_the_earliest_deadline_is_told_once(clock: ManualClock) -> None:
    late: list[tuple[str, float]] = []
    dog = Watchdog(clock, idle_s=120, late=lambda name: late.append((name, clock.monotonic())))
    dog.expect("frame_s", 60)
    dog.expect("opening_s", 30)
    await clock.advance(200)
    assert late == [("opening_s", 30.0)]


async def test_a_deadline_that_was_met_is_forgotten_and_one_that_stands_is_not_moved(clock: ManualClock) -> None:
    late: list[tuple[str, float]] = []
    dog = Watchdog(clock, idle_s=1000, late=lambda name: late.append((name, clock.monotonic())))
    dog.expect("opening_s", 30)
    await clock.advance(20)
    dog.end("opening_s")
    dog.expect("frame_s", 60)
    await clock.advance(20)
    dog.expect("frame_s", 60)
    await clock.advance(100)
    assert late == [("frame_s", 80.0)]


async def test_activity_puts_off_idleness_without_setting_timers(clock: ManualClock) -> None:
    late: list[float] = []
    dog = Watchdog(clock, idle_s=10, late=lambda _: late.append(clock.monotonic()))
    for _ in range(30):
        await clock.advance(1)
        dog.active_at = clock.monotonic()
    assert late == []
    assert clock.timers == 1
    await clock.advance(20)
    assert late == [40.0]


async def test_a_stopped_one_says_nothing(clock: ManualClock) -> None:
    late: list[str] = []
    dog = Watchdog(clock, idle_s=10, late=late.append)
    dog.stop()
    await clock.advance(20)
    assert (late, clock.timers) == ([], 0)
