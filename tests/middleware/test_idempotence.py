"""Repeats are dropped by id, key or function; in memory and in a database; each group for itself."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pyromq.client.handle.handlers import Outcomes
from pyromq.client.received import Received
from pyromq.middleware.idempotence import Idempotence, Seen, SeenInDatabase, SeenInMemory
from pyromq.model.message import Property
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.testing.broker import RmqBroker
from pyromq.testing.clock import ManualClock
from tests.client.messages import stored

QUEUE = MessageQueue(broker_name="a", queue_id=0, topic="T")


def message(word: str, key: str = "", group: str = "g", offset: int = 0) -> Received:
    properties = {Property.UNIQ_KEY: word} | ({Property.KEYS: key} if key else {})
    return Received(stored(offset, properties=properties), QUEUE, group=group)


class Handler:
    def __init__(self, *failing: str) -> None:
        self.handled: list[str] = []
        self.failing = failing

    async def __call__(self, messages: Sequence[Received]) -> Outcomes:
        self.handled += [each.id for each in messages]
        return [ValueError("no") if each.id in self.failing else None for each in messages]


def memory(_: Path) -> Seen:
    return SeenInMemory()


def sqlite(folder: Path) -> Seen:
    made = SeenInDatabase(lambda: sqlite3.connect(folder / "seen.db"))
    made.create()
    return made


@pytest.fixture(params=[memory, sqlite])
def seen(request: pytest.FixtureRequest, tmp_path: Path) -> Seen:
    make: Callable[[Path], Seen] = request.param
    return make(tmp_path)


async def test_a_repeat_is_acked_without_the_handler(seen: Seen) -> None:
    layer, handler = Idempotence(seen), Handler()
    assert await layer.handle([message("1")], handler) == [None]
    assert await layer.handle([message("1")], handler) == [None]
    assert await layer.handle([message("2")], handler) == [None]
    assert handler.handled == ["1", "2"]


async def test_what_failed_is_handled_again(seen: Seen) -> None:
    layer, handler = Idempotence(seen), Handler("1")
    (fault,) = await layer.handle([message("1")], handler)
    assert isinstance(fault, ValueError)
    handler.failing = ()
    assert await layer.handle([message("1")], handler) == [None]
    assert handler.handled == ["1", "1"]


async def test_each_group_deals_with_a_message_once(seen: Seen) -> None:
    layer, handler = Idempotence(seen), Handler()
    await layer.handle([message("1", group="billing")], handler)
    await layer.handle([message("1", group="mail")], handler)
    assert handler.handled == ["1", "1"]


async def test_by_key_another_send_of_the_same_order_is_a_repeat(seen: Seen) -> None:
    layer, handler = Idempotence(seen, by="key"), Handler()
    await layer.handle([message("1", key="order-7")], handler)
    await layer.handle([message("2", key="order-7")], handler)
    await layer.handle([message("3")], handler)
    await layer.handle([message("3")], handler)
    assert handler.handled == ["1", "3", "3"]  # without a key there is nothing to go by


async def test_by_a_function() -> None:
    layer, handler = Idempotence(by=lambda msg: msg.body.decode() or None), Handler()
    await layer.handle([message("1"), message("2")], handler)  # both bodies are x
    assert handler.handled == ["1"]


async def test_within_a_batch_repeats_share_the_outcome_of_the_first(seen: Seen) -> None:
    layer, handler = Idempotence(seen), Handler("bad")
    await layer.handle([message("old")], handler)
    handler.handled.clear()
    batch = [message("a"), message("old"), message("bad"), message("a"), message("bad")]
    outcomes = await layer.handle(batch, handler)
    assert handler.handled == ["a", "bad"]
    assert [each is None for each in outcomes] == [True, True, False, True, False]


async def test_a_repeat_that_comes_while_the_first_is_in_work_waits_for_it() -> None:
    layer, handler = Idempotence(), Handler()
    may_end = asyncio.Event()

    async def slowly(messages: Sequence[Received]) -> Outcomes:
        await may_end.wait()
        return await handler(messages)

    both = [asyncio.create_task(layer.handle([message("1", offset=number)], slowly)) for number in range(2)]
    await asyncio.sleep(0)
    may_end.set()
    assert await asyncio.gather(*both) == [[None], [None]]
    assert handler.handled == ["1"]


async def test_memory_is_bounded_by_number_and_time() -> None:
    clock = ManualClock()
    seen = SeenInMemory(most=2, keep_s=60, clock=clock)
    await seen.note(["a"])
    await seen.note(["b", "c"])
    assert await seen.known(["a", "b", "c"]) == {"b", "c"}
    await clock.advance(60)
    assert await seen.known(["a", "b", "c"]) == set()


async def test_a_database_outlives_the_process_and_forgets_on_demand(tmp_path: Path) -> None:
    clock = ManualClock()
    for _ in range(2):  # another process, or this one again
        seen = SeenInDatabase(lambda: sqlite3.connect(tmp_path / "seen.db"), clock=clock)
        seen.create()
        await seen.note([f"w{number}" for number in range(500)])
    assert len(await seen.known([f"w{number}" for number in range(600)])) == 500
    await clock.advance(10)
    await seen.note(["new"])
    seen.forget(older_than_s=5)
    assert await seen.known(["w1", "new"]) == {"new"}


async def test_a_note_that_fails_does_not_undo_the_work(caplog: pytest.LogCaptureFixture) -> None:
    class Full(SeenInMemory):
        async def note(self, words: Sequence[str]) -> None:
            raise OSError("disk full")

    assert await Idempotence(Full()).handle([message("1")], Handler()) == [None]
    assert "could not be noted" in caplog.text


def test_what_would_end_in_a_statement_is_refused() -> None:
    for wrong in ({"table": "x; DROP TABLE y"}, {"placeholder": "$1"}):
        with pytest.raises(ValueError, match=r"table|placeholder"):
            SeenInDatabase(lambda: None, **wrong)  # type: ignore[arg-type]


async def test_on_a_broker_a_message_sent_twice_is_billed_once(rmq_broker: RmqBroker) -> None:
    await rmq_broker.create_topic("orders")
    client = await rmq_broker.client(middleware=[Idempotence(by="key")])
    billed: list[bytes] = []

    async def bill(msg: Received) -> None:
        billed.append(msg.body)

    async with client.producer() as producer, client.push_consumer("orders", bill, group="billing"):
        await rmq_broker.settle()
        for body in (b"first", b"again"):
            await producer.send("orders", body, keys=["order-1"])
            await rmq_broker.settle()
    assert billed == [b"first"]
    assert rmq_broker.lag("orders", "billing") == 0
