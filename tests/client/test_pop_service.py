"""Handlers of a push consumer that pops, on virtual time and without a broker: who is called, renewed, let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from math import inf

import pytest

from pyromq.client.connect.background import Tasks
from pyromq.client.core.retry import Retry
from pyromq.client.errors import ReceiptExpired
from pyromq.client.handle.failures import Failures
from pyromq.client.pop.leases import Leases
from pyromq.client.pop.pop_service import PopService
from pyromq.client.pop.popped import Popped
from pyromq.client.received import Received
from pyromq.testing.clock import ManualClock
from tests.client.messages import stored
from tests.client.test_leases import PLACE, Broker, turns


class Bench:
    """A service whose handlers wait until they are released."""

    def __init__(self, concurrency: int = 20) -> None:
        self.clock, self.broker = ManualClock(), Broker()
        self.leases = Leases(self.broker, self.clock, "g", 0)
        self.tasks = Tasks(lambda fault: pytest.fail(repr(fault)))
        self.begun: list[int] = []
        self.release = asyncio.Event()
        self.service = PopService(
            attempt=self.attempt,
            failures=Failures("g", self.clock, "retry"),
            retry=Retry(),
            most_retries=_sixteen,
            concurrency=concurrency,
            max_batch=1,
            invisible_s=60,
            renew_for_s=600,
            clock=self.clock,
            tasks=self.tasks,
        )
        self.service.on_free = lambda: None
        self.service.start()

    async def attempt(self, messages: Sequence[Received]) -> list[Exception | None]:
        self.begun += [each.offset for each in messages]
        await self.release.wait()
        return [None] * len(messages)

    def offer(self, *offsets: int, seconds: float = 60) -> None:
        until = self.clock.monotonic() + seconds
        found = [
            Popped(stored(offset, b"x", topic="T"), PLACE, receipt=f"r{offset}", until=until, keeper=self.leases)
            for offset in offsets
        ]
        self.leases.add(found)
        self.service.offer(PLACE, found)


async def _sixteen(_: Received) -> int:
    return 16


@pytest.fixture
async def bench() -> AsyncIterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(concurrency: int = 20) -> Bench:
        made.append(Bench(concurrency))
        return made[-1]

    yield make
    for each in made:
        await each.tasks.cancel()


async def test_messages_that_come_together_wait_for_no_handler_that_is_busy(bench: Callable[..., Bench]) -> None:
    one = bench()
    one.offer(0, 1, 2, 3)
    await turns()
    one.offer(4, 5, 6)
    one.offer(7)
    await turns()
    assert sorted(one.begun) == [*range(8)]


async def test_no_more_handlers_than_allowed_are_busy_at_a_time(bench: Callable[..., Bench]) -> None:
    one = bench(concurrency=3)
    one.offer(*range(5))
    await turns()
    assert one.begun == [0, 1, 2]
    one.release.set()
    await turns()
    assert one.begun == [*range(5)]


async def test_a_message_is_renewed_while_its_handler_works_and_no_longer_than_allowed(
    bench: Callable[..., Bench],
) -> None:
    one = bench()
    one.offer(0)
    await one.clock.advance(90)
    assert one.broker.changed == [(0, 60, True)] * 3
    await one.clock.advance(600)
    renewed = len(one.broker.changed)
    await one.clock.advance(600)
    assert len(one.broker.changed) == renewed


async def test_what_its_server_renews_is_let_go_by_one_change(bench: Callable[..., Bench]) -> None:
    one = bench()
    one.offer(0, seconds=inf)
    await one.clock.advance(590)
    assert one.broker.changed == []
    await one.clock.advance(100)
    assert one.broker.changed == [(0, 60, True)]


async def test_an_ack_of_what_its_server_gave_back_is_tried_for_some_seconds_alone(
    bench: Callable[..., Bench],
) -> None:
    one = bench()
    one.offer(0, seconds=inf)
    await turns()
    one.broker.faults = [ReceiptExpired("receipt handle is expired") for _ in range(9)]
    one.release.set()
    await one.clock.advance(60)
    assert 1 < len(one.broker.acked) < 6
    assert one.leases.open == []
