"""ManualClock: time that moves only when a test says so."""

from __future__ import annotations

import asyncio
import math

import pytest

from pyromq.ambient import Clock, UsualClock
from pyromq.testing.clock import ManualClock


def test_it_is_a_clock() -> None:
    clock: Clock = ManualClock(now_ms=5_000)
    assert (clock.now_ms(), clock.monotonic()) == (5_000, 0.0)


async def test_time_stands_still_until_advanced() -> None:
    clock = ManualClock(now_ms=1_000)
    await clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (2_500, 1.5)


@pytest.mark.parametrize("length", [-1, math.nan, math.inf])
async def test_time_goes_forward_by_a_number_of_seconds(length: float) -> None:
    clock = ManualClock(now_ms=1_000)
    with pytest.raises(ValueError, match=r"advance by .* s: time goes forward"):
        await clock.advance(length)
    assert clock.now_ms() == 1_000


async def test_many_small_steps_add_up_exactly() -> None:
    clock = ManualClock(now_ms=0)
    for _ in range(1000):
        await clock.advance(0.001)
    assert (clock.now_ms(), clock.monotonic()) == (1_000, 1.0)


async def test_timers_run_in_order_each_at_its_own_moment() -> None:
    clock = ManualClock()
    ran: list[tuple[str, float]] = []
    for name, delay in (("late", 3.0), ("early", 1.0), ("early too", 1.0), ("never", 9.0)):
        clock.call_later(delay, lambda name: ran.append((name, clock.monotonic())), name)
    await clock.advance(5)
    assert ran == [("early", 1.0), ("early too", 1.0), ("late", 3.0)]
    assert clock.timers == 1


async def test_a_timer_set_by_a_timer_still_falls_into_the_same_advance() -> None:
    clock = ManualClock()
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(clock.monotonic())
        clock.call_later(1, tick)

    clock.call_later(1, tick)
    await clock.advance(3)
    assert ticks == [1.0, 2.0, 3.0]


async def test_what_is_left_of_a_float_passes_too() -> None:
    """A part that waits for the rest of its time, as long as there is one, comes to its end."""
    clock = ManualClock()
    looks: list[float] = []

    def look() -> None:
        looks.append(clock.monotonic())
        if len(looks) < 100 and clock.monotonic() < 1.0000000001:
            clock.call_later(1.0000000001 - clock.monotonic(), look)

    clock.call_later(1.0000000001, look)
    await clock.advance(2)
    assert looks == [1.0, 1.000001]


async def test_timers_that_keep_time_from_going_on_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.testing.clock.MOST_AT_ONCE", 100)
    clock = ManualClock()

    def stays() -> None:
        clock.call_later(0, stays)

    stays()
    with pytest.raises(RuntimeError, match=r"time does not go on: .*stays"):
        await clock.advance(1)


async def test_a_cancelled_timer_does_not_run() -> None:
    clock = ManualClock()
    ran: list[int] = []
    clock.call_later(1, ran.append, 1).cancel()
    await clock.advance(2)
    assert ran == []
    assert clock.timers == 0


async def test_sleepers_wake_when_their_time_has_come() -> None:
    clock = ManualClock()
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(clock.monotonic())

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(sleeper(2))
        tasks.create_task(sleeper(0))
        tasks.create_task(sleeper(1))
        await clock.settle()
        assert woken == [0.0]
        await clock.advance(10)
    assert woken == [0.0, 1.0, 2.0]


async def test_a_cancelled_sleeper_leaves_no_timer() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert clock.timers == 0


async def test_timeout_raises_in_the_block_once_the_seconds_have_passed() -> None:
    clock = ManualClock()

    async def waits_forever() -> None:
        async with clock.timeout(3):
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(waits_forever())
    await clock.advance(2.999)
    assert not task.done()
    await clock.advance(0.001)
    with pytest.raises(TimeoutError):
        await task


@pytest.mark.parametrize("seconds", [0, -1])
async def test_a_timeout_of_0_is_over_while_the_clock_stands(seconds: float) -> None:
    clock = ManualClock()
    with pytest.raises(TimeoutError):
        async with clock.timeout(seconds):
            await asyncio.get_running_loop().create_future()
    assert clock.timers == 0


async def test_timeout_is_silent_when_the_block_ends_in_time_and_when_none() -> None:
    clock = ManualClock()
    for seconds in (3, None):
        async with clock.timeout(seconds):
            await clock.advance(2)
    await clock.advance(10)
    assert clock.timers == 0


async def test_cancelling_a_task_inside_a_timeout_is_no_timeout() -> None:
    clock = ManualClock()

    async def waits_forever() -> None:
        async with clock.timeout(3):
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(waits_forever())
    await clock.settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_wall_clock_may_step_back_without_touching_durations() -> None:
    clock = ManualClock(now_ms=10_000)
    clock.step_wall(-4)
    assert (clock.now_ms(), clock.monotonic()) == (6_000, 0.0)


async def test_a_failing_timer_fails_the_test() -> None:
    clock = ManualClock()
    clock.call_later(1, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        await clock.advance(1)


def test_clocks_in_the_place_of_the_usual_one_may_end_in_any_order() -> None:
    usual, first, second = UsualClock(), ManualClock(1_000), ManualClock(2_000)
    blocks = [usual.replaced_by(each) for each in (first, second, first)]
    for block in blocks:
        block.__enter__()
    blocks[0].__exit__(None, None, None)
    assert usual.now_ms() == 1_000  # of the last block
    blocks[2].__exit__(None, None, None)
    assert usual.now_ms() == 2_000
    blocks[1].__exit__(None, None, None)
    assert usual.now_ms() > 1_000_000_000_000
