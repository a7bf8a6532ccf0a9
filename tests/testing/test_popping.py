"""Messages by pop with the clock in hand: expiry, kills between receive and ack, cancellations. Nothing comes twice."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

import pyromq
from pyromq.client.errors import Closed, ReceiptExpired
from pyromq.client.received import Received
from pyromq.model.group import MessageRequestMode
from pyromq.protocol.bodies.heartbeat import SetMessageRequestModeRequestBody
from pyromq.protocol.requests import RequestCode
from pyromq.testing import RmqBroker, RmqClient

pytestmark = pytest.mark.asyncio
REVIVED_S = 6  # so much later than its time comes again what was popped more than 10 s before


async def test_what_is_not_acknowledged_comes_again_at_its_time(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    await rmq_client.send("orders", b"x")
    (msg,) = await rmq_client.receive("orders", invisible=60)
    await rmq_broker.clock.advance(59)
    assert await rmq_client.receive("orders") == []
    await rmq_broker.clock.advance(2)
    with pytest.raises(ReceiptExpired):
        await msg.ack()
    await rmq_broker.clock.advance(REVIVED_S)
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


async def test_a_slow_handler_keeps_its_message_and_what_waits_too_long_goes_to_others(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    await rmq_broker.create_topic("orders", queues=1)
    for number in range(3):
        await rmq_client.send("orders", b"%d" % number)
    seen: list[tuple[str, bytes, int]] = []

    async def slow(msg: Received) -> None:
        seen.append(("slow", msg.body, msg.attempt))
        await rmq_broker.clock.sleep(200)

    async def quick(msg: Received) -> None:
        seen.append(("quick", msg.body, msg.attempt))

    options: dict[str, Any] = {"group": "g", "mode": "pop", "begin": "first", "invisible_s": 60.0}
    one = (await rmq_broker.client()).push_consumer("orders", slow, concurrency=1, **options)
    other = (await rmq_broker.client()).push_consumer("orders", quick, **options)
    await one.start()
    await other.start()
    await rmq_broker.clock.advance(190)
    # The first is renewed while its handler works; the two that waited for a minute have gone to the other member.
    assert seen[0] == ("slow", b"0", 1)
    assert sorted(seen[1:]) == [("quick", b"1", 2), ("quick", b"2", 2)]
    await rmq_broker.clock.advance(minutes=10)
    assert len(seen) == 3
    await one.stop()
    await other.stop()


async def test_an_ack_is_repeated_while_its_broker_is_away(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    await rmq_broker.create_topic("orders")
    attempts: list[int] = []

    async def handle(msg: Received) -> None:
        attempts.append(msg.attempt)

    client = await rmq_broker.client()
    consumer = client.push_consumer("orders", handle, group="g", mode="pop", begin="first", invisible_s=60)
    await consumer.start()
    rmq_broker.faults.refuse([RequestCode.ACK_MESSAGE], times=3)
    await rmq_client.send("orders", b"x")
    await rmq_broker.settle()
    await rmq_broker.clock.advance(10)
    await rmq_broker.clock.advance(minutes=5)
    assert attempts == [1]
    await consumer.stop()


async def test_a_failed_message_waits_for_its_delay_and_dies_after_its_retries(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    await rmq_broker.create_topic("orders")
    times: list[float] = []

    async def fail(_: Received) -> None:
        times.append(rmq_broker.clock.monotonic())
        raise ValueError("no")

    client = await rmq_broker.client()
    consumer = client.push_consumer("orders", fail, group="g", mode="pop", begin="first", retry=pyromq.Retry(times=2))
    await consumer.start()
    await rmq_client.send("orders", b"x")
    await rmq_broker.settle()
    await rmq_broker.clock.advance(minutes=5)
    delays = [later - earlier for earlier, later in pairwise(times)]
    assert len(delays) == 2
    assert all(0 <= late - wanted <= REVIVED_S for late, wanted in zip(delays, (10, 30), strict=True))
    (dead,) = rmq_broker.messages("%DLQ%g")
    assert dead.body == b"x"
    await consumer.stop()


async def test_a_consumer_changes_over_when_its_brokers_want_it(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    await rmq_broker.create_topic("orders")
    seen: list[bytes] = []

    async def handle(msg: Received) -> None:
        seen.append(msg.body)

    async def set_mode(mode: MessageRequestMode) -> None:
        wanted = SetMessageRequestModeRequestBody(consumer_group="g", topic="orders", mode=mode)
        session = rmq_client.client.session
        await session.ask(rmq_broker.address, RequestCode.SET_MESSAGE_REQUEST_MODE, None, wanted)
        await rmq_broker.clock.advance(45)

    client = await rmq_broker.client()
    consumer = client.push_consumer("orders", handle, group="g", mode="server", begin="first")
    await consumer.start()
    assert len({queue for queue in consumer.assigned if queue.topic == "orders"}) == 4
    await rmq_client.send("orders", b"pulled")
    await rmq_broker.settle()
    await set_mode(MessageRequestMode.POP)
    assert consumer.assigned == {}
    await rmq_client.send("orders", b"popped")
    await rmq_broker.settle()
    assert seen == [b"pulled", b"popped"]
    await set_mode(MessageRequestMode.PULL)
    assert len({queue for queue in consumer.assigned if queue.topic == "orders"}) == 4
    await rmq_client.send("orders", b"pulled again")
    await rmq_broker.settle()
    await rmq_broker.clock.advance(minutes=3)
    assert seen == [b"pulled", b"popped", b"pulled again"]
    await consumer.stop()


async def test_a_receive_that_waits_during_the_stop_gives_back_what_it_gets(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    await rmq_broker.create_topic("orders")
    client = await rmq_broker.client()
    consumer = client.simple_consumer("orders", group="g", begin="first", invisible_s=600)
    await consumer.start()
    waiting = asyncio.create_task(consumer.receive(wait=60))
    await rmq_broker.settle()
    await consumer.stop()
    await rmq_client.send("orders", b"x")
    await rmq_broker.settle()
    with pytest.raises(Closed):
        await waiting
    await rmq_broker.clock.advance(1)
    (found,) = await rmq_client.receive("orders", "g")
    assert (found.body, found.attempt) == (b"x", 1)
    await found.ack()
