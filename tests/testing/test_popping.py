"""Messages by pop with the clock in hand: expiry, kills between receive and ack, cancellations. Nothing comes twice."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.client.errors import ReceiptExpired
from pyromq.client.received import Received
from pyromq.testing import RmqBroker, RmqClient

pytestmark = pytest.mark.asyncio


async def test_what_is_not_acknowledged_comes_again_at_its_time(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    await rmq_client.send("orders", b"x")
    (msg,) = await rmq_client.receive("orders", invisible=60)
    await rmq_broker.clock.advance(59)
    assert await rmq_client.receive("orders") == []
    await rmq_broker.clock.advance(2)
    with pytest.raises(ReceiptExpired):
        await msg.ack()
    (again,) = await rmq_client.receive("orders")
    assert (again.body, again.attempt) == (b"x", 2)
    await again.ack()
    await rmq_broker.clock.advance(minutes=10)
    assert await rmq_client.receive("orders") == []


async def test_a_kill_between_receive_and_ack_loses_nothing_and_doubles_nothing(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    for number in range(6):
        await rmq_client.send("orders", b"%d" % number)
    found = {msg.body: msg for msg in await rmq_client.receive("orders", max=4, invisible=120)}
    done = [found.popitem()[1] for _ in range(2)]
    for msg in done:
        await msg.ack()
    await rmq_broker.kill()
    rest = await rmq_client.receive("orders", invisible=120)
    assert len(rest) == 2  # those that nobody had received: the other four are hidden, or done
    assert {msg.body for msg in rest}.isdisjoint({*found, *(msg.body for msg in done)})
    for msg in found.values():  # receipts outlive the kill
        await msg.ack()
    await rmq_broker.clock.advance(150)
    again = await rmq_client.receive("orders")
    assert {msg.body for msg in again} == {msg.body for msg in rest}
    assert {msg.attempt for msg in again} == {2}


async def test_a_push_consumer_by_pop_goes_on_after_a_kill(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    seen: list[bytes] = []

    async def handle(msg: Received) -> None:
        seen.append(msg.body)

    await rmq_broker.create_topic("orders")
    client = await rmq_broker.client()
    consumer = client.push_consumer("orders", handle, group="g", mode="pop", begin="first")
    await consumer.start()
    await rmq_client.send("orders", b"before")
    await rmq_broker.settle()
    await consumer.commit()
    await rmq_broker.kill()
    await rmq_client.send("orders", b"after")
    await rmq_broker.clock.advance(30)
    assert seen == [b"before", b"after"]
    await rmq_broker.clock.advance(minutes=5)
    assert seen == [b"before", b"after"]
    await consumer.stop()


async def test_a_cancelled_receive_gives_back_what_comes(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    await rmq_broker.create_topic("orders")
    client = await rmq_broker.client()
    async with client.simple_consumer("orders", group="g", begin="first", invisible_s=600) as consumer:
        waiting = asyncio.create_task(consumer.receive(wait=60))
        await rmq_broker.settle()
        waiting.cancel()
        await rmq_broker.settle()
        await rmq_client.send("orders", b"x")
        await rmq_broker.settle()
        await rmq_broker.clock.advance(1)
        (found,) = await consumer.receive(wait=0)
        assert (found.body, found.attempt) == (b"x", 1)
        await found.ack()


async def test_a_group_pulls_or_pops(rmq_client: RmqClient) -> None:
    await rmq_client.send("orders", b"x")
    await rmq_client.receive_one("orders")
    with pytest.raises(ValueError, match="cannot pop"):
        await rmq_client.receive("orders")
    await rmq_client.receive("orders", "other")
    with pytest.raises(ValueError, match="cannot pull"):
        await rmq_client.receive_one("orders", "other")
