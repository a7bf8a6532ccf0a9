"""Workers of a concurrent consumer, by themselves: who gets which message when, and what may run in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pyromq.client.connect.background import Tasks
from pyromq.client.consume.concurrent_service import STREAK, ConcurrentService
from pyromq.client.consume.consume_service import AssignedQueue, in_flight_of
from pyromq.client.core.process_queue import FlowLimits, ProcessQueue
from pyromq.client.handle.attempts import HandlerRunner, StartedCoroutine
from pyromq.client.handle.failures import Failures
from pyromq.client.handle.handlers import worker
from pyromq.client.received import Received
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.testing.clock import ManualClock
from tests.client.messages import stored

Handle = Callable[[Received], Awaitable[None]]


def queue(number: int, count: int) -> AssignedQueue:
    process = ProcessQueue(FlowLimits())
    process.add(stored(offset, queue_id=number) for offset in range(count))
    return AssignedQueue(queue=MessageQueue(broker_name="b", queue_id=number, topic="T"), process=process)


class Consumer:
    """What a push consumer makes of a handler, without a broker."""

    def __init__(self, handle: Any, concurrency: int = 20, max_batch: int | None = None) -> None:
        self.faults: list[BaseException] = []
        clock = ManualClock()
        self.deliveries = ConcurrentService(
            attempt=HandlerRunner(worker(handle, concurrency, max_batch is not None), clock, 900.0),
            describe=Received,
            failures=Failures("g", clock, "dead-letter"),
            concurrency=concurrency,
            max_batch=max_batch or 1,
            clock=clock,
            tasks=Tasks(self.faults.append),
            send_back=None,
            owner="g",
        )

    async def __aenter__(self) -> ConcurrentService:
        self.deliveries.start()
        await turns(2)
        return self.deliveries

    async def __aexit__(self, *_: object) -> None:
        await self.deliveries.finish(0)
        assert self.faults == []


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_as_many_handlers_run_at_once_as_were_asked_for() -> None:
    may_end, running = asyncio.Event(), 0

    async def handle(msg: Received) -> None:
        nonlocal running
        running += 1
        await may_end.wait()

    held = queue(0, 30)
    async with Consumer(handle, concurrency=7) as deliveries:
        deliveries.offer(held)
        await turns(30)
        assert (running, deliveries.running, held.process.waiting) == (7, 7, 23)
        may_end.set()
        await turns(30)
        assert (running, deliveries.running, len(held.process)) == (30, 0, 0)


async def test_messages_that_come_while_all_others_wait_are_handled() -> None:
    seen: list[int] = []
    may_end = asyncio.Event()

    async def handle(msg: Received) -> None:
        seen.append(msg.offset)
        await may_end.wait()

    held = queue(0, 1)
    async with Consumer(handle) as deliveries:
        for offset in range(1, 6):
            deliveries.offer(held)
            await turns(5)
            held.process.add([stored(offset)])
        deliveries.offer(held)
        await turns(5)
        assert seen == [0, 1, 2, 3, 4, 5]
        may_end.set()
        await turns(5)


async def test_handlers_that_never_wait_let_the_event_loop_work_in_between() -> None:
    seen, seen_by_others = 0, []

    async def handle(msg: Received) -> None:
        nonlocal seen
        seen += 1

    async with Consumer(handle) as deliveries:
        deliveries.offer(queue(0, 10 * STREAK))
        while seen < 10 * STREAK:
            await asyncio.sleep(0)
            seen_by_others.append(seen)
    assert len(set(seen_by_others)) >= 9


async def test_a_long_queue_does_not_keep_the_others_waiting() -> None:
    order: list[int] = []

    async def handle(msg: Received) -> None:
        order.append(msg.queue.queue_id)
        await asyncio.sleep(0)

    queues = [queue(0, 400), queue(1, 4), queue(2, 4)]
    async with Consumer(handle, concurrency=2) as deliveries:
        for each in queues:
            deliveries.offer(each)
        await turns(300)
    assert not any(len(each.process) for each in queues)
    assert set(order[:40]) == {0, 1, 2}


async def test_a_queue_that_leaves_is_not_worked_on_any_further() -> None:
    seen: list[int] = []
    held = queue(0, 10)

    async def handle(msg: Received) -> None:
        seen.append(msg.offset)
        if msg.offset == 3:
            held.is_leaving = True

    async with Consumer(handle) as deliveries:
        deliveries.offer(held)
        await turns(10)
    assert seen == [0, 1, 2, 3]
    assert held.process.commit_offset() == 4


async def test_nothing_new_begins_once_the_end_has_come() -> None:
    seen: list[int] = []

    async def handle(msg: Received) -> None:
        seen.append(msg.offset)
        await asyncio.sleep(0)

    held = queue(0, 10)
    consumer = Consumer(handle, concurrency=1)
    async with consumer as deliveries:
        deliveries.offer(held)
        await turns(1)
        assert seen == [0]
        await deliveries.finish(30)
    assert seen == [0]
    assert held.process.commit_offset() == 1


async def test_batches_take_what_is_there() -> None:
    sizes: list[int] = []

    async def handle(messages: list[Received]) -> None:
        sizes.append(len(messages))

    async with Consumer(handle, max_batch=4) as deliveries:
        deliveries.offer(queue(0, 10))
        await turns(5)
    assert sizes == [4, 4, 2]


# --- a coroutine whose first step was made ---------------------------------------------------------------------------


async def test_the_rest_of_a_coroutine_is_awaited_in_the_task_that_began_it() -> None:
    gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    tasks: list[asyncio.Task[Any] | None] = []

    async def work() -> str:
        tasks.append(asyncio.current_task())
        word = await gate
        await asyncio.sleep(0)
        tasks.append(asyncio.current_task())
        return word

    coroutine = work()
    rest = StartedCoroutine(coroutine, coroutine.send(None))
    asyncio.get_running_loop().call_soon(gate.set_result, "done")
    assert await rest == "done"
    assert tasks == [asyncio.current_task()] * 2


async def test_who_is_cancelled_while_it_waits_may_clean_up_and_go_on() -> None:
    steps: list[str] = []

    async def work() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            steps.append("cancelled")
            await asyncio.sleep(0)
        return "went on"

    async def run() -> str:
        coroutine = work()
        return await StartedCoroutine(coroutine, coroutine.send(None))

    task = asyncio.create_task(run())
    await turns(1)
    task.cancel()
    assert await task == "went on"
    assert steps == ["cancelled"]


async def test_an_error_of_the_rest_comes_through() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise ValueError("late")

    coroutine = work()
    with pytest.raises(ValueError, match="late"):
        await StartedCoroutine(coroutine, coroutine.send(None))


def test_what_is_never_finished_is_closed() -> None:
    ended: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append(True)

    coroutine = work()
    rest = StartedCoroutine(coroutine, coroutine.send(None)).__await__()
    next(rest)
    rest.close()
    assert ended == [True]


def test_all_who_have_a_queue_share_its_table_while_one_of_them_lives() -> None:
    first = in_flight_of("g", "q1")
    assert in_flight_of("g", "q1") is first
    assert in_flight_of("g", "q2") is not first
    assert in_flight_of("h", "q1") is not first
