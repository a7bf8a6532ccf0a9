"""Handlers that take too long: plain functions are given up and run on, and each is named with its line. Real time."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from pyromq import sync
from pyromq.ambient import SystemClock
from pyromq.client.core.retry import Retry
from pyromq.client.handle.handlers import Outcomes
from pyromq.client.handle.threads import HandlerThreads
from pyromq.client.middleware import HandleNext, Middleware
from pyromq.client.received import Received
from pyromq.transport.dispatch import Reply
from tests.client.cluster import Cluster
from tests.client.test_push_consumer import FIRST, Seen, send
from tests.client.test_push_timing import BACK, broker_with, consume
from tests.client.world import ON_JAVA, Servers, turns_until

DEAD_AT_ONCE = Retry(times=0)


class Stuck:
    """A handler in a thread that waits for the test where a body is `0`, and remembers the others."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.done: list[str] = []
        self.running: list[str] = []

    def handle(self, text: str) -> None:
        self.running.append(text)
        if text == "0":
            self.may_end.wait(30)  # here it stands
        self.done.append(text)


STANDS = f"{__file__}:{Stuck.handle.__code__.co_firstlineno + 3} in handle"


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    made = Stuck()
    yield made
    made.may_end.set()


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[Any]:
    return [each for each in caplog.records if getattr(each, "event", "").startswith(event)]


async def test_a_plain_function_that_takes_too_long_is_given_up_and_the_others_go_on(
    world: Servers, caplog: pytest.LogCaptureFixture, stuck: Stuck
) -> None:
    await world.create_topic("T", 1)
    await send(world, 3)
    options: dict[str, Any] = {"group": "g", "begin": FIRST, "timeout_s": 1.0, "concurrency": 1, "retry": DEAD_AT_ONCE}
    seen = Seen()
    async with world.client() as client, client.push_consumer("T", stuck.handle, **options) as consumer:
        await turns_until(lambda: stuck.done == ["1", "2"])  # one at a time, and the first holds nobody up
        async with client.push_consumer("%DLQ%g", seen, group="undertaker", begin=FIRST):
            await seen.count(1)
        assert (consumer.runner.done, consumer.runner.failed) == (2, 1)
        stuck.may_end.set()
        await turns_until(lambda: len(stuck.done) == 3)
    assert await world.committed("g") == 3
    (line,) = lines(caplog, "handler failed")
    assert line.fields["then"] == "dead letter"
    assert "the handler took longer than its time-out: its thread runs on, at " in line.fields["fault"]
    assert STANDS in line.fields["fault"]
    if not ON_JAVA:
        assert "in handle" in seen.messages[0].properties["PYRO_REASON"]


async def test_threads_that_run_on_are_bounded_and_then_messages_wait_without_failing(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, stuck: Stuck
) -> None:
    broker = broker_with(cluster, b"0", b"0", b"1")
    broker.script[BACK] = lambda request: Reply()
    _, consumer = await consume(cluster, stuck.handle, timeout_s=10, concurrency=1, retry=DEAD_AT_ONCE)
    for count in (1, 2):
        await turns_until(lambda count=count: len(stuck.running) == count)  # type: ignore[misc]
        await cluster.clock.advance(11)
    await turns_until(lambda: bool(lines(caplog, "no message is handled")))
    await cluster.clock.advance(100)  # longer than the time-out: waiting for a thread is no attempt
    assert (stuck.running, consumer.runner.failed) == (["0", "0"], 2)
    stuck.may_end.set()
    await turns_until(lambda: consumer.runner.done == 1)
    assert "1" in stuck.done
    line, *more = lines(caplog, "no message is handled")
    assert len(more) == 1  # after a minute
    assert line.fields["threads"] == 2
    assert "in handle" in line.fields["at"]


async def test_one_thread_that_ends_is_for_one_call(stuck: Stuck) -> None:
    """Whoever passes `free` is about to be timed: without a thread of its own it would fail without being called."""
    threads, clock, ends = HandlerThreads(2), SystemClock(), [threading.Event() for _ in range(4)]
    given_up = [asyncio.create_task(threads.call(end.wait, 30)) for end in ends]
    await turns_until(lambda: len(threads._busy) == 4)
    for task in given_up:
        task.cancel()
    await asyncio.gather(*given_up, return_exceptions=True)
    passed: list[int] = []

    async def attempt(number: int) -> None:
        await threads.free(clock)
        passed.append(number)
        await threads.call(stuck.may_end.wait, 30)

    attempts = [asyncio.create_task(attempt(number)) for number in range(3)]
    for count, end in enumerate(ends[:2], 1):
        end.set()
        await turns_until(lambda count=count: len(threads._busy) == count)  # type: ignore[misc]
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(passed) == count
    for end in ends:
        end.set()
    stuck.may_end.set()
    await asyncio.gather(*attempts)
    threads.close()


async def test_what_is_cancelled_within_a_handler_fails_its_message_and_no_other(world: Servers) -> None:
    """A handler may wait for a task or a future that somebody else cancelled."""
    await world.create_topic("T", 1)
    await send(world, 2)
    dead, done = Seen(), list[tuple[str, str]]()

    async def waits(text: str) -> None:
        if text == "0":
            task = asyncio.create_task(asyncio.Event().wait())
            asyncio.get_running_loop().call_soon(task.cancel)
            await task
        done.append(("tasks", text))

    def blocks(text: str) -> None:
        if text == "0":
            raise concurrent.futures.CancelledError
        done.append(("threads", text))

    async def at_once(text: str) -> None:
        if text == "0":
            raise asyncio.CancelledError
        done.append(("at once", text))

    options: dict[str, Any] = {"begin": FIRST, "concurrency": 1, "retry": DEAD_AT_ONCE}
    async with (
        world.client() as client,
        client.push_consumer("T", waits, group="tasks", **options),
        client.push_consumer("T", blocks, group="threads", **options),
        client.push_consumer("T", at_once, group="at-once", **options),
    ):
        await turns_until(lambda: sorted(done) == [("at once", "1"), ("tasks", "1"), ("threads", "1")])
        for number, group in enumerate(("tasks", "threads", "at-once"), 1):
            async with client.push_consumer(f"%DLQ%{group}", dead, group=f"undertaker-{group}", begin=FIRST):
                await dead.count(number)


async def test_a_plain_function_has_the_context_that_middleware_made_for_it(world: Servers) -> None:
    """As the current span of OpenTelemetry is kept."""
    await send(world, 2)
    span: ContextVar[str] = ContextVar("span", default="none")
    seen: list[str] = []

    class Spans(Middleware):
        async def handle(self, messages: list[Received], call_next: HandleNext) -> Outcomes:
            span.set(f"of {messages[0].body.decode()}")
            return await call_next(messages)

    def handle(text: str) -> None:
        seen.append(f"{text} {span.get()}")

    async with (
        world.client() as client,
        client.push_consumer("T", handle, group="g", begin=FIRST, middleware=[Spans()]),
    ):
        await turns_until(lambda: len(seen) == 2)
    assert sorted(seen) == ["0 of 0", "1 of 1"]


async def test_a_slow_handler_is_named_with_its_line(
    world: Servers, caplog: pytest.LogCaptureFixture, stuck: Stuck
) -> None:
    await world.create_topic("T", 1)
    await send(world, 1)
    may_end = asyncio.Event()

    async def waits(msg: Received) -> None:
        await may_end.wait()

    options: dict[str, Any] = {"begin": FIRST, "slow_s": 0.1}
    async with (
        world.client() as client,
        client.push_consumer("T", stuck.handle, group="threads", **options),
        client.push_consumer("T", waits, group="tasks", **options),
    ):

        def named(group: str, place: str) -> list[Any]:
            """Its lines, but for those that found the handler on its way to the place."""
            busy = [each for each in lines(caplog, "a handler is still busy") if each.fields["group"] == group]
            return [each for each in busy if place in each.fields["at"]]

        def is_named(group: str, place: str) -> bool:
            return len(named(group, place)) >= 2

        for group, name, place in (
            ("threads", "Stuck.handle", STANDS),
            ("tasks", "waits", "in waits"),
        ):
            await turns_until(partial(is_named, group, place))
            fields = named(group, place)[0].fields
            assert fields["handler"].endswith(name)
            assert (fields["offset"], fields["attempt"], len(fields["id"])) == (0, 1, 32)
        may_end.set()
        stuck.may_end.set()


async def test_a_slow_handler_is_named_at_growing_intervals(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    broker_with(cluster, b"0")

    async def waits(msg: Received) -> None:
        await asyncio.Event().wait()

    await consume(cluster, waits, slow_s=60)
    await cluster.clock.advance(500)
    assert [each.fields["busy_s"] for each in lines(caplog, "a handler is still busy")] == [60, 180, 420]


async def test_a_function_in_a_thread_may_renew_its_time(cluster: Cluster) -> None:
    broker_with(cluster, b"0")
    steps = [threading.Event() for _ in range(5)]
    renewed: list[int] = []

    def handle(msg: Received) -> None:
        for step in steps:
            step.wait(30)
            msg.renew()
            renewed.append(msg.attempt)

    _, consumer = await consume(cluster, handle, timeout_s=10)
    for count, step in enumerate(steps, 1):
        await cluster.clock.advance(8)
        step.set()
        await turns_until(lambda count=count: len(renewed) == count)  # type: ignore[misc]
    await turns_until(lambda: consumer.runner.done == 1)
    assert consumer.runner.failed == 0


async def test_an_ordered_message_is_never_in_two_threads_at_once(world: Servers, stuck: Stuck) -> None:
    await world.create_topic("T", 1)
    await send(world, 2)
    options: dict[str, Any] = {"begin": FIRST, "timeout_s": 0.1}
    other = Stuck()
    async with world.client() as client, client.push_consumer("T", stuck.handle, group="g", orderly=True, **options):
        await turns_until(lambda: bool(stuck.running))
        async with client.push_consumer("T", other.handle, group="other", **options) as unordered:
            await turns_until(lambda: unordered.runner.failed > 0)  # began later, and its time is over
            other.may_end.set()
        assert stuck.running == ["0"]
        stuck.may_end.set()
        await turns_until(lambda: stuck.done == ["0", "1"])


async def test_without_an_event_loop_it_is_the_same(
    world: Servers, caplog: pytest.LogCaptureFixture, stuck: Stuck
) -> None:
    await world.create_topic("T", 1)
    await send(world, 2)
    address = next(iter(world.name_servers))

    def job() -> None:
        with sync.connect(address) as client:
            options: dict[str, Any] = {"group": "g", "begin": FIRST, "timeout_s": 0.3, "grace_s": 0.1}
            with client.push_consumer("T", stuck.handle, concurrency=1, **options):
                while stuck.done != ["1"] or not lines(caplog, "handler failed"):
                    threading.Event().wait(0.01)

    await asyncio.to_thread(job)
    assert "its thread runs on, at " in lines(caplog, "handler failed")[0].fields["fault"]
    (line,) = lines(caplog, "handlers run on in threads")
    assert (line.fields["threads"], "in handle" in line.fields["at"]) == (1, True)


@pytest.mark.parametrize("is_batch", [False, True])
async def test_what_a_plain_function_returns_is_awaited_and_its_outcome_counts(world: Servers, is_batch: bool) -> None:
    await world.create_topic("T", 1)
    await send(world, 2)
    seen, done = Seen(), []

    async def handle(text: str) -> None:
        await asyncio.sleep(0)
        if text == "0":
            raise ValueError("no")
        done.append(text)

    async def handle_batch(texts: list[str], msgs: list[Received]) -> list[Received]:
        await asyncio.sleep(0)
        done.extend(text for text in texts if text != "0")
        return [msg for msg in msgs if msg.body == b"0"]

    def one(text: str) -> Any:
        return handle(text)

    def several(texts: list[str], msgs: list[Received]) -> Any:
        return handle_batch(texts, msgs)

    options: dict[str, Any] = {"group": "g", "begin": FIRST, "retry": DEAD_AT_ONCE}
    options |= {"max_batch": 4} if is_batch else {}
    async with world.client() as client, client.push_consumer("T", several if is_batch else one, **options):
        async with client.push_consumer("%DLQ%g", seen, group="undertaker", begin=FIRST):
            await seen.count(1)
        await turns_until(lambda: done == ["1"])
    assert seen.bodies == ["0"]
    assert await world.committed("g") == 2


async def test_a_function_that_returns_a_generator_has_not_handled_its_message(world: Servers) -> None:
    await world.create_topic("T", 1)
    await send(world, 1)
    seen = Seen()

    def handle(msg: Received) -> Any:
        return (each for each in msg.body)

    async with (
        world.client() as client,
        client.push_consumer("T", handle, group="g", begin=FIRST, retry=DEAD_AT_ONCE),
        client.push_consumer("%DLQ%g", seen, group="undertaker", begin=FIRST),
    ):
        await seen.count(1)
