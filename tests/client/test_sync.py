"""The blocking facade on our own broker, from threads without an event loop; and the front door."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import pyromq
from pyromq.client import client as async_client
from pyromq.client import sync
from pyromq.client.consume import pull_consumer as async_pull
from pyromq.client.consume import push_consumer as async_push
from pyromq.client.errors import Closed, NoNameServer
from pyromq.client.produce import producer as async_producer
from tests.client.world import Servers

FIRST = pyromq.ConsumeFromWhere.FIRST_OFFSET


async def in_a_thread(job: Callable[[str], Any], world: Servers) -> Any:
    """The world serves on this thread's loop meanwhile."""
    return await asyncio.to_thread(job, next(iter(world.name_servers)))


async def test_send_and_consume_without_an_event_loop(world: Servers) -> None:
    def job(address: str) -> list[str]:
        got: list[str] = []
        enough = threading.Event()

        def handle(text: str, msg: pyromq.Received) -> None:
            got.append(f"{msg.tag}:{text}")
            if len(got) == 6:
                enough.set()

        with sync.connect(address) as client, client.producer() as producer:
            assert producer.send("T", "one", tag="t").status is pyromq.SendStatus.OK
            producer.send_oneway("T", "two", tag="t")
            producer.send_many("T", ["three", "four", "five", "six"], tag="t")
            with client.push_consumer("T", handle, group="g", begin=FIRST, concurrency=3):
                assert enough.wait(30)
        return sorted(got)

    assert await in_a_thread(job, world) == sorted(
        f"t:{each}" for each in ("one", "two", "three", "four", "five", "six")
    )
    assert await world.committed("g") == 6


async def test_transactions_without_an_event_loop(world: Servers) -> None:
    def job(address: str) -> list[bytes]:
        with sync.connect(address) as client, client.producer("P") as producer:
            with producer.transaction("T", "paid") as transaction:
                assert transaction.message_id
            with pytest.raises(ZeroDivisionError), producer.transaction("T", "never"):
                raise ZeroDivisionError
            block = producer.transaction("T", "and this")
            with block:
                pass
            with pytest.raises(pyromq.Error, match="this transaction was entered before"), block:
                pass
            with client.pull_consumer("g", begin=FIRST) as consumer:
                consumer.assign(consumer.queues("T"))
                got: list[bytes] = []
                while len(got) < 2:
                    got += [each.body for each in consumer.poll(timeout=1)]
        return sorted(got)

    assert await in_a_thread(job, world) == [b"and this", b"paid"]


async def test_pull_without_an_event_loop(world: Servers) -> None:
    def job(address: str) -> list[int]:
        with sync.connect(address) as client, client.producer() as producer:
            producer.send_many("T", [str(number) for number in range(30)], order_key="k")
            with client.pull_consumer("g", begin=FIRST) as consumer:
                queues = consumer.queues("T")
                consumer.assign(queues)
                found: list[int] = []
                while len(found) < 30:
                    found += [int(message.body) for message in consumer.poll(10)]
                consumer.seek_to_begin(queues[0])
                consumer.commit()
                assert consumer.committed(queues[0]) == consumer.position(queues[0]) == 0
        return found

    assert await in_a_thread(job, world) == list(range(30))


async def test_messages_one_by_one_without_an_event_loop(world: Servers) -> None:
    await world.create_topic("T", queues=1)

    def job(address: str) -> list[tuple[bytes, int]]:
        seen: list[tuple[bytes, int]] = []
        with sync.connect(address) as client, client.producer() as producer:
            producer.send_many("T", ["one", "two", "three"])
            with client.simple_consumer("T", group="g", begin="first", invisible_s=600) as consumer:
                first, second, third = consumer.receive(max=3, wait=30)
                assert first.left_s > 590
                first.ack()
                second.dead_letter("no")
                assert [each.body for each in consumer.open] == [b"three"]
                third.later(0, counts=False)
                assert third.is_expired
                consumer.flush()
            with client.simple_consumer("T", group="g") as again:
                for msg in again:
                    seen.append((msg.body, msg.attempt))
                    again.ack([msg])
                    break
        return seen

    assert await in_a_thread(job, world) == [(b"three", 1)]


async def test_many_threads_share_one_client(world: Servers) -> None:
    def job(address: str) -> set[tuple[int, int]]:
        with sync.connect(address) as client, client.producer() as producer:
            places: list[tuple[int, int]] = []

            def send() -> None:
                for _ in range(20):
                    result = producer.send("T", b"x")
                    places.append((result.queue.queue_id, result.queue_offset))

            threads = [threading.Thread(target=send) for _ in range(5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return set(places)

    assert len(await in_a_thread(job, world)) == 100


def test_errors_come_through_and_a_closed_client_says_so() -> None:
    before = set(threading.enumerate())
    with sync.connect("127.0.0.1:1") as client, client.producer() as producer, pytest.raises(NoNameServer):
        producer.send("T", b"x")
    with pytest.raises(Closed):
        client.producer().start()
    assert not any(thread.name == "pyromq-client" for thread in set(threading.enumerate()) - before)


def test_a_second_stop_does_nothing_as_in_the_async_api() -> None:
    client = sync.connect("127.0.0.1:1")
    client.stop()
    with client, client.producer() as producer, client.pull_consumer("g") as consumer:
        producer.stop()
        producer.stop()
        client.stop()
        consumer.stop()
    client.stop()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (sync.Client, async_client.Client),
        (sync.Producer, async_producer.Producer),
        (sync.PushConsumer, async_push.PushConsumer),
        (sync.PullConsumer, async_pull.PullConsumer),
    ],
)
def test_the_facade_takes_the_same_arguments(ours: type, theirs: type) -> None:
    for name, method in inspect.getmembers(ours, inspect.isfunction):
        if name.startswith("_"):
            continue
        mine = inspect.signature(method).parameters
        if not any(each.kind is each.VAR_KEYWORD for each in mine.values()):
            assert list(mine) == list(inspect.signature(getattr(theirs, name)).parameters), name


def test_every_name_of_the_front_door_exists_and_importing_it_loads_nothing() -> None:
    for name in pyromq.__all__:
        assert getattr(pyromq, name) is not None
    assert pyromq.sync is sync
    assert set(pyromq.__all__) <= set(dir(pyromq))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = pyromq.nonsense
    program = "import sys, pyromq; print([n for n in sys.modules if n.startswith('pyromq.') or n == 'asyncio'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
