"""Loops that are watched over: one that dies is counted and begins again, later each time that it dies young."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from pyromq import logs
from pyromq.supervision import LAST_PAUSE_S, Loops
from pyromq.testing.clock import ManualClock


def watched(clock: ManualClock) -> Loops:
    return Loops(clock, logs.get("pyromq.test"))


async def test_a_loop_that_dies_begins_again_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock, begun = ManualClock(), 0
    loops = watched(clock)

    async def loop() -> None:
        nonlocal begun
        begun += 1
        if begun < 3:
            raise KeyError(begun)
        await asyncio.Event().wait()

    task = asyncio.create_task(loops.keep("statistics", loop))
    await clock.advance(10)
    assert (begun, loops.restarts) == (3, 2)
    assert loops.faults["statistics"] == (2, "KeyError: 2")
    lines = [line for line in caplog.records if "a loop has died" in line.getMessage()]
    assert ["loop=statistics" in line.getMessage() and line.exc_info is not None for line in lines] == [True, True]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


async def test_a_loop_that_always_dies_waits_longer_each_time_up_to_a_minute() -> None:
    clock, moments = ManualClock(), list[float]()
    loops = watched(clock)

    async def loop() -> None:
        moments.append(clock.monotonic())
        raise ValueError

    task = asyncio.create_task(loops.keep("flush", loop))
    await clock.advance(1000)
    pauses = [later - sooner for sooner, later in pairwise(moments)]
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == LAST_PAUSE_S
    task.cancel()


async def test_a_loop_that_ran_for_long_begins_again_soon() -> None:
    clock, moments = ManualClock(), list[float]()
    loops = watched(clock)

    async def loop() -> None:
        moments.append(clock.monotonic())
        await clock.sleep(1000)
        raise ValueError

    task = asyncio.create_task(loops.keep("flush", loop))
    await clock.advance(5000)
    assert moments == [0, 1001, 2002, 3003, 4004]
    task.cancel()


async def test_a_loop_that_returns_is_no_fault() -> None:
    loops = watched(ManualClock())

    async def loop() -> None:
        return

    await loops.keep("registration", loop)
    assert loops.restarts == 0
