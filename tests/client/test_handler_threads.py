"""Handlers that take too long: plain functions are given up and run on, and each is named with its line. Real time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyromq import sync
from pyromq.client.core.retry import Retry
from pyromq.client.received import Received
from tests.client.test_push_consumer import FIRST, Seen, send
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
    options: dict[str, Any] = {"group": "g", "begin": FIRST, "timeout_s": 0.3, "concurrency": 1, "retry": DEAD_AT_ONCE}
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
    assert f"{__file__}:32 in handle" in line.fields["fault"]
    if not ON_JAVA:
        assert "in handle" in seen.messages[0].properties["PYRO_REASON"]


async def test_threads_that_run_on_are_bounded_and_then_messages_wait_without_failing(
    world: Servers, caplog: pytest.LogCaptureFixture, stuck: Stuck
) -> None:
    await world.create_topic("T", 1)
    async with world.client() as client, client.producer() as producer:
        for text in ("0", "0", "1"):
            await producer.send("T", text)
        options: dict[str, Any] = {"group": "g", "begin": FIRST, "timeout_s": 0.2, "concurrency": 1}
        async with client.push_consumer("T", stuck.handle, **options, retry=DEAD_AT_ONCE) as consumer:
            await turns_until(lambda: bool(lines(caplog, "no message is handled")))
            await asyncio.sleep(0.5)  # longer than the time-out: waiting for a thread is no attempt
            assert (stuck.running, consumer.runner.failed) == (["0", "0"], 2)
            stuck.may_end.set()
            await turns_until(lambda: consumer.runner.done == 1)
    assert "1" in stuck.done
    (line,) = lines(caplog, "no message is handled")
    assert line.fields["threads"] == 2
    assert "in handle" in line.fields["at"]


async def test_a_slow_handler_is_named_with_its_line_at_growing_intervals(
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
        await turns_until(lambda: len(lines(caplog, "a handler is still busy")) >= 6)
        may_end.set()
        stuck.may_end.set()
    for group, name, place in (
        ("threads", "Stuck.handle", f"{__file__}:32 in handle"),
        ("tasks", "waits", "in waits"),
    ):
        found = [each for each in lines(caplog, "a handler is still busy") if each.fields["group"] == group]
        times = [each.created for each in found]
        assert times[2] - times[1] > 1.5 * (times[1] - times[0])
        assert found[0].fields["handler"].endswith(name)
        assert place in found[0].fields["at"]
        assert (found[0].fields["offset"], found[0].fields["attempt"], len(found[0].fields["id"])) == (0, 1, 32)


async def test_a_function_in_a_thread_may_renew_its_time(world: Servers) -> None:
    await send(world, 1)
    done: list[int] = []

    def handle(msg: Received) -> None:
        for _ in range(5):
            threading.Event().wait(0.2)
            msg.renew()
        done.append(msg.attempt)

    options: dict[str, Any] = {"group": "g", "begin": FIRST, "timeout_s": 0.5}
    async with world.client() as client, client.push_consumer("T", handle, **options) as consumer:
        await turns_until(lambda: bool(done))
        await turns_until(lambda: consumer.runner.done == 1)
        assert consumer.runner.failed == 0


async def test_an_ordered_message_is_never_in_two_threads_at_once(world: Servers, stuck: Stuck) -> None:
    await world.create_topic("T", 1)
    await send(world, 2)
    options: dict[str, Any] = {"group": "g", "begin": FIRST, "timeout_s": 0.1, "orderly": True}
    async with world.client() as client, client.push_consumer("T", stuck.handle, **options):
        await turns_until(lambda: bool(stuck.running))
        await asyncio.sleep(0.5)
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
