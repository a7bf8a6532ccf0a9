"""Requests that hold the event loop: counted by code, each stretch between two awaits by itself, and rarely logged."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.errors import RequestRefused
from pyromq.protocol.command import Command
from pyromq.testing.clock import ManualClock
from pyromq.transport.dispatch import Dispatcher, Handler, Reply, Request, await_answer
from pyromq.transport.peer import Peer
from pyromq.transport.turns.loop_holds import LoopHolds

LIMIT_MS = 20


class Nobody:
    address = "nobody:1"


class Watched:
    """A dispatcher with one handler, of code 7, on a clock that the handler moves itself."""

    def __init__(self, handler: Handler) -> None:
        self.clock = ManualClock()
        self.holds = LoopHolds(self.clock, LIMIT_MS)
        self._dispatcher = Dispatcher(self.holds.around({7: handler}))

    async def ask(self) -> Reply | None:
        peer: Peer = Nobody()  # type: ignore[assignment]
        return await await_answer(self._dispatcher(Request(Command(code=7), peer)))

    def work(self, ms: float) -> None:
        self.clock._passed_us += round(ms * 1000)

    @property
    def seen(self) -> list[tuple[int, int, float]]:
        return [(hold.code, hold.times, round(hold.longest_ms)) for hold in self.holds.all()]


async def test_a_handler_that_answers_at_once(caplog: pytest.LogCaptureFixture) -> None:
    durations = iter([LIMIT_MS, 21, 50, 1])

    def handler(_: Request) -> Reply:
        world.work(next(durations))
        return Reply(remark="done")

    world = Watched(handler)
    for _ in range(4):
        assert await world.ask() == Reply(remark="done")
    assert world.seen == [(7, 2, 50)]
    assert world.holds.total == 2
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["a request held the event loop code=7 ms=21.0 limit=loopHoldMs value=20"]


async def test_each_stretch_between_two_awaits_counts_by_itself() -> None:
    async def handler(_: Request) -> Reply:
        for ms in (15, 15, 30):
            world.work(ms)
            await asyncio.sleep(0)
        world.work(40)
        return Reply(remark="late")

    world = Watched(handler)
    assert await world.ask() == Reply(remark="late")
    assert world.seen == [(7, 2, 40)]


async def test_a_handler_that_only_waits_holds_nobody() -> None:
    async def handler(_: Request) -> None:
        await world.clock.sleep(30)

    world = Watched(handler)
    asked = asyncio.ensure_future(world.ask())
    await world.clock.advance(31)
    assert await asked is None
    assert world.seen == []


async def test_what_is_refused_is_refused_and_counts() -> None:
    def at_once(_: Request) -> Reply:
        world.work(25)
        raise RequestRefused("no")

    async def later(_: Request) -> Reply:
        await asyncio.sleep(0)
        world.work(35)
        raise RequestRefused("no, later")

    world = Watched(at_once)
    reply = await world.ask()
    assert (reply and reply.remark, world.seen) == ("no", [(7, 1, 25)])
    world = Watched(later)
    reply = await world.ask()
    assert (reply and reply.remark, world.seen) == ("no, later", [(7, 1, 35)])


async def test_a_cancellation_reaches_the_handler() -> None:
    ended = []

    async def handler(_: Request) -> Reply:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return Reply()

    asked = asyncio.ensure_future(Watched(handler).ask())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert ended == ["cancelled"]


async def test_a_handler_may_go_on_after_a_time_out_inside() -> None:
    async def handler(_: Request) -> Reply:
        try:
            async with world.clock.timeout(1):
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            return Reply(remark="gave up")
        return Reply()

    world = Watched(handler)
    asked = asyncio.ensure_future(world.ask())
    await world.clock.advance(2)
    assert await asked == Reply(remark="gave up")
