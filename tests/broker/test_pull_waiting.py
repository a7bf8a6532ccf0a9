"""Pulls that wait: who listens for arrivals, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pyromq.broker.pull.suspended import AT_ONCE, SuspendedPulls
from pyromq.broker.pull.tickets import AnyTicket
from pyromq.broker.reading.long_poll import SuspendedPull
from pyromq.kernel.state import QueueTail
from pyromq.store.log.watermarks import Readable
from pyromq.testing.clock import ManualClock
from tests.broker.settings import live


class Queue:
    """As much of a queue as an arrival is about."""

    def __init__(self, topic: str, queue_id: int = 0) -> None:
        self.topic, self.queue_id, self.readable_end, self.next_offset = topic, queue_id, 0, 0


class World:
    """Waiting pulls over a store's arrivals; each look takes note."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.readable = Readable(0)
        self.woken: list[int] = []
        self.ended: list[int] = []
        self.dismissed: list[SuspendedPull[AnyTicket]] = []
        self.takes_long = False
        self.pulls = SuspendedPulls(self.clock, self.readable, self.look, self.end, self.dismissed.append)

    def look(self, pull: SuspendedPull[AnyTicket]) -> bool:
        self.woken.append(pull.offset)
        return self.takes_long

    def end(self, pull: SuspendedPull[AnyTicket]) -> bool:
        self.ended.append(pull.offset)
        return False

    def suspend(self, topic: str, offset: int, peer: object = "c") -> None:
        self.pulls.put_back(SuspendedPull(topic, 0, offset, 15.0, peer, cast(Any, None)))

    async def arrive(self, queue: Queue) -> None:
        queue.next_offset += 1
        end = self.readable.watermark.value + 1
        self.readable.appended([cast(QueueTail, queue)], end)
        self.readable.advance(end)
        await self.clock.settle()


async def test_nobody_listens_to_a_topic_that_no_pull_waits_on() -> None:
    world, mine, other = World(), Queue("T"), Queue("U")
    assert world.readable.listeners == {}
    world.suspend("T", 0)
    assert list(world.readable.listeners) == ["T"]
    await world.arrive(other)
    assert world.woken == []
    await world.arrive(mine)
    assert world.woken == [0]
    await world.arrive(mine)  # nobody came again
    assert world.readable.listeners == {}
    assert world.woken == [0]


async def test_a_pull_that_comes_again_is_woken_again() -> None:
    world, queue = World(), Queue("T")
    for offset in (0, 1, 3, 5):
        world.suspend("T", offset)
        await world.arrive(queue)
        if offset:
            await world.arrive(queue)  # one that nobody waits for
    assert world.woken == [0, 1, 3, 5]


async def test_many_wait_and_one_listens() -> None:
    world, queue = World(), Queue("T")
    for offset in (0, 0, 1, 7):
        world.suspend("T", offset, peer=offset)
    assert len(world.readable.listeners["T"]) == 1
    world.pulls.drop(cast(Any, 0))
    await world.arrive(queue)
    await world.arrive(queue)
    assert world.woken == [1]
    world.pulls.drop(cast(Any, 7))
    await world.arrive(queue)
    assert world.readable.listeners == {}


async def test_who_stops_listening_from_within_takes_nobody_along() -> None:
    readable, queue, heard = Readable(0), Queue("T"), []

    def once(name: str) -> Callable[[QueueTail], None]:
        def listener(_: QueueTail) -> None:
            heard.append(name)
            readable.off_arrival("T", listener)

        return listener

    for name in ("first", "second"):
        readable.on_arrival("T", once(name))
    readable.on_arrival("T", lambda _: heard.append("always"))
    for end in (1, 2):
        queue.next_offset += 1
        readable.appended([cast(QueueTail, queue)], end)
        readable.advance(end)
    assert heard == ["first", "second", "always", "always"]


async def woken_in_turns(world: World, queue: Queue, turns: int) -> list[int]:
    """How many were served after the arrival's own turn, and after each further one."""
    queue.next_offset += 1
    end = world.readable.watermark.value + 1
    world.readable.appended([cast(QueueTail, queue)], end)
    world.readable.advance(end)
    counts = []
    for _ in range(turns):
        await world.clock.settle(1)
        counts.append(len(world.woken))
    return counts


async def test_pulls_that_one_arrival_wakes_are_served_in_turns() -> None:
    world, queue = World(), Queue("T")
    for number in range(3 * AT_ONCE):
        world.suspend("T", 0, peer=number)
    assert await woken_in_turns(world, queue, 4) == [AT_ONCE, 2 * AT_ONCE, 3 * AT_ONCE, 3 * AT_ONCE]
    assert len(world.pulls) == 0


async def test_after_a_look_that_took_long_others_have_their_turn() -> None:
    """An expression that costs milliseconds, and many clients that wait with it."""
    world, queue = World(), Queue("T")
    world.takes_long = True
    for number in range(4):
        world.suspend("T", 0, peer=number)
    assert await woken_in_turns(world, queue, 5) == [1, 2, 3, 4, 4]


async def test_who_leaves_between_two_turns_is_not_served_and_a_stop_answers_the_others() -> None:
    world, queue = World(), Queue("T")
    world.takes_long = True
    for number in range(4):
        world.suspend("T", 0, peer=number)
    assert await woken_in_turns(world, queue, 1) == [1]
    assert len(world.pulls) == len(world.pulls.all()) == 3
    world.pulls.drop(cast(Any, 1))
    world.pulls.end_all()
    assert len(world.ended) == 2
    await world.clock.settle()
    assert len(world.woken) == 1
    assert len(world.pulls) == 0


async def test_pulls_with_long_requests_are_held_up_to_so_many_bytes() -> None:
    world, config = World(), live(max_held_pull_bytes=10_000).config

    class Ticket:
        size = 3_000

    def keep() -> bool:
        return world.pulls.add(("T", 0, 0), 1000, cast(Any, "c"), cast(Any, Ticket()), config)

    assert [keep() for _ in range(5)] == [True, True, True, False, False]
    world.pulls.drop(cast(Any, "c"))
    assert keep()


async def test_all_are_dismissed_without_a_look_those_too_that_were_to_be_served() -> None:
    world, queue = World(), Queue("T")
    world.takes_long = True
    for _ in range(3):
        world.suspend("T", 0)
    world.suspend("U", 0)
    queue.next_offset += 1
    world.readable.appended([cast(QueueTail, queue)], 1)
    world.readable.advance(1)
    world.pulls.dismiss_all()
    await world.clock.settle()
    assert (len(world.dismissed), len(world.pulls)) == (4, 0)
    assert (world.woken, world.ended) == ([], [])
