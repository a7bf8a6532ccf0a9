"""Delay levels of a broker with a table of its own, on a clock that the test moves."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest

from pyromq.client.connect.broker_delays import DelaysOfBrokers
from pyromq.client.core.retry import RetryLater
from pyromq.client.errors import TimedOut
from pyromq.client.received import Received
from pyromq.model.group import ConsumeFromWhere
from pyromq.testing.broker import RmqBroker
from pyromq.testing.client import RmqClient

DAY_S = 86_400


@pytest.mark.rmq(message_delay_level="7s 10m")
async def test_a_send_names_an_entry_of_the_brokers_table(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    await rmq_client.send("T", "soon", delay_level=1)
    await rmq_client.send("T", "far", delay_level=2)
    await rmq_broker.clock.advance(6.5)
    await rmq_client.expect_nothing("T")
    await rmq_broker.clock.advance(1)
    found = await rmq_client.receive_one("T")
    assert (found.body, found.delay_level) == (b"soon", 1)
    await rmq_broker.clock.advance(600)
    assert (await rmq_client.receive_one("T")).delay_level == 2
    await rmq_client.send("T", "at once")
    assert (await rmq_client.receive_one("T")).delay_level == 0


async def test_a_broker_that_does_not_answer_is_asked_again_and_keeps_its_table(rmq_broker: RmqBroker) -> None:
    """Another table, taken for a minute, would let a message wait for days."""
    client = await rmq_broker.client()
    answers: list[str | Exception] = ["messageDelayLevel=1s 2d", TimedOut("no answer"), "messageDelayLevel=1s 3d"]
    asked: list[str] = []

    async def ask(address: str, code: int) -> SimpleNamespace:
        asked.append(address)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(body=answer.encode())

    delays = DelaysOfBrokers(SimpleNamespace(clock=client.session.clock, ask=ask))  # type: ignore[arg-type]
    assert [tuple((await delays.of("b")).levels) for _ in range(2)] == [(1, 2 * DAY_S)] * 2
    assert len(asked) == 1
    await rmq_broker.clock.advance(61)
    assert [tuple((await delays.of("b")).levels) for _ in range(2)] == [(1, 2 * DAY_S), (1, 3 * DAY_S)]
    assert len(asked) == 3


async def delays_of_retries(broker: RmqBroker, *wishes_s: float) -> list[float]:
    """Return after how many seconds a message came again each time, of a handler with these wishes."""
    times: list[int] = []

    async def handle(msg: Received) -> None:
        times.append(broker.clock.now_ms())
        assert msg.attempt == len(times)
        if len(times) <= len(wishes_s):
            raise RetryLater(wishes_s[len(times) - 1])

    client = await broker.client()
    await broker.create_topic("T")
    async with client.producer() as producer:
        await producer.send("T", "x")
    await client.push_consumer("T", handle, group="g", begin=ConsumeFromWhere.FIRST_OFFSET).start()
    await broker.clock.advance(sum(wishes_s) + 100)
    return [(after - before) / 1000 for before, after in pairwise(times)]


@pytest.mark.rmq(message_delay_level="1s 2d")
async def test_a_handlers_wish_is_kept_under_a_table_of_ones_own(rmq_broker: RmqBroker) -> None:
    first, second, third = await delays_of_retries(rmq_broker, 30, 1, 45)
    assert 30 <= first <= 32
    assert 1 <= second <= 2
    assert 45 <= third <= 47


@pytest.mark.rmq(message_delay_level="1s 2h 40s", timer_wheel_enable=False)
async def test_without_timers_it_is_the_next_longer_level_of_the_brokers_own(rmq_broker: RmqBroker) -> None:
    (delay,) = await delays_of_retries(rmq_broker, 30)
    assert 40 <= delay <= 41
