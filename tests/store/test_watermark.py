from __future__ import annotations

import asyncio

import pytest

from pyromq.store.errors import StoreNotWritable
from pyromq.store.log.watermarks import Watermark


async def test_waiters_wake_in_order_once_their_position_is_reached() -> None:
    mark = Watermark(10)
    woken: list[int] = []

    async def wait(position: int) -> None:
        await mark.reached(position)
        woken.append(position)

    tasks = [asyncio.create_task(wait(position)) for position in (30, 20, 10)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert woken == [10]
    mark.advance(25)
    await tasks[1]
    assert woken == [10, 20]
    mark.advance(30)
    await tasks[0]
    assert mark._waiters == []


async def test_it_never_goes_down() -> None:
    mark = Watermark(10)
    seen: list[int] = []
    mark.on_advance(seen.append)
    for value in (5, 10, 12, 11):
        mark.advance(value)
    assert (mark.value, seen) == (12, [12])


async def test_a_failure_reaches_those_who_wait_and_those_who_come_later() -> None:
    mark = Watermark()
    waiting = asyncio.create_task(mark.reached(5))
    await asyncio.sleep(0)
    mark.fail(StoreNotWritable("sync failed"))
    with pytest.raises(StoreNotWritable):
        await waiting
    with pytest.raises(StoreNotWritable):
        await mark.reached(5)
    await mark.reached(0)


async def test_a_waiter_that_was_cancelled_does_not_hurt() -> None:
    mark = Watermark()
    waiting = asyncio.create_task(mark.reached(5))
    await asyncio.sleep(0)
    waiting.cancel()
    mark.advance(5)
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_listener_that_fails_takes_nobody_along(caplog: pytest.LogCaptureFixture) -> None:
    mark, seen = Watermark(), list[int]()

    def fail(value: int) -> None:
        raise ValueError("a fault of its own")

    mark.on_advance(fail)
    mark.on_advance(seen.append)
    waiter = asyncio.ensure_future(mark.reached(7))
    await asyncio.sleep(0)
    mark.advance(7)
    await waiter
    assert seen == [7]
    assert "who listens to a watermark failed" in caplog.text
