"""Simple consumers over real sockets: receive, acknowledge, later, dead letters, order; on our broker and on Java's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pyromq.client.client import Client
from pyromq.client.errors import Closed, Error, ReceiptExpired, Refused, TopicNotFound
from pyromq.client.pop.popped import Popped
from pyromq.client.pop.simple_consumer import SimpleConsumer
from pyromq.client.subscription import sql, tag
from pyromq.model import names
from pyromq.protocol.requests import RequestCode
from tests.client.world import Servers

SOON_S = 20.0  # Java revives 3 to 6 s late


@asynccontextmanager
async def simple(
    client: Client, topic: str = "T", group: str = "g", **options: object
) -> AsyncIterator[SimpleConsumer]:
    async with client.simple_consumer(topic, group=group, begin="first", **options) as consumer:  # type: ignore[arg-type]
        yield consumer


async def send(client: Client, *bodies: bytes, topic: str = "T", **other: str) -> None:
    async with client.producer() as producer:
        for body in bodies:
            await producer.send(topic, body, **other)  # type: ignore[arg-type]


async def gathered(consumer: SimpleConsumer, count: int, wait: float = SOON_S) -> list[Popped]:
    found: list[Popped] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += await consumer.receive(max=count - len(found), wait=wait)
    return found


async def test_messages_come_once_and_what_is_acknowledged_never_again(world: Servers) -> None:
    await world.create_topic("T")
    async with world.client() as client, simple(client, invisible_s=2) as consumer:
        await send(client, *(b"%d" % number for number in range(20)))
        found = await gathered(consumer, 20)
        assert sorted(int(each.body) for each in found) == list(range(20))
        assert {each.attempt for each in found} == {1}
        assert all(0 < each.left_s <= 2 for each in found)
        await consumer.ack(found)
        assert consumer.open == []
        await send(client, b"more")
        (more,) = await gathered(consumer, 1)
        assert more.body == b"more"
        await more.ack()
        assert await consumer.receive(wait=0) == []


async def test_what_nobody_acknowledges_comes_again(world: Servers) -> None:
    await world.create_topic("T")
    async with world.client() as client, simple(client, invisible_s=1) as consumer:
        await send(client, b"x")
        (first,) = await gathered(consumer, 1)
        (again,) = await gathered(consumer, 1)
        assert (again.body, again.id, again.attempt) == (b"x", first.id, 2)
        assert first.is_expired
        with pytest.raises(ReceiptExpired, match="comes again"):
            await first.ack()
        await again.ack()


async def test_later_hides_it_longer_and_the_new_receipt_counts(world: Servers) -> None:
    await world.create_topic("T")
    async with world.client() as client, simple(client, invisible_s=1) as consumer:
        await send(client, b"renewed", b"soon")
        found = {each.body: each for each in await gathered(consumer, 2)}
        await found[b"renewed"].later(60)
        assert found[b"renewed"].left_s > 50
        await found[b"soon"].later(0, counts=False)
        (again,) = await gathered(consumer, 1)
        assert (again.body, again.attempt) == (b"soon", 1)
        await asyncio.gather(again.ack(), found[b"renewed"].ack())
        with pytest.raises(Error, match="is done"):
            await found[b"renewed"].later(3)


async def test_a_dead_letter_is_among_the_dead_letters_with_its_reason(world: Servers) -> None:
    await world.create_topic("T")
    async with world.client() as client, simple(client, invisible_s=30) as consumer:
        await send(client, b"bad")
        (bad,) = await gathered(consumer, 1)
        await bad.dead_letter("no such customer")
        assert await consumer.receive(wait=0) == []
        async with client.pull_consumer("inspection", begin="first") as dead:
            topic = names.dlq_topic("g")
            async with asyncio.timeout(30):
                while True:
                    try:
                        await dead.assign(await dead.queues(topic))
                        break
                    except TopicNotFound:
                        await client.session.read_route("T")
                while not (found := await dead.poll(timeout=1)):
                    pass
        assert [each.body for each in found] == [b"bad"]


async def test_two_members_share_messages_and_none_comes_to_both(world: Servers) -> None:
    await world.create_topic("T", queues=1)
    async with world.client() as one, world.client() as other, simple(one) as mine, simple(other) as yours:
        await send(one, *(b"%d" % number for number in range(40)))
        seen: list[bytes] = []
        while len(seen) < 40:
            for consumer in (mine, yours):
                found = await consumer.receive(max=4, wait=0)
                seen += [each.body for each in found]
                await consumer.ack(found)
        assert sorted(seen, key=int) == [b"%d" % number for number in range(40)]


async def test_several_topics_and_a_message_that_comes_while_one_waits(world: Servers) -> None:
    await world.create_topic("T")
    await world.create_topic("U")
    both = {"T": tag("a"), "U": tag("b")}
    async with world.client() as client, client.simple_consumer(both, group="g", begin="first") as consumer:
        waiting = asyncio.create_task(consumer.receive(wait=SOON_S))
        assert await asyncio.wait_for(asyncio.shield(consumer.receive(wait=0)), 10) == []
        await send(client, b"no", topic="T", tag="c")
        await send(client, b"yes", topic="U", tag="b")
        (found,) = await waiting
        assert (found.topic, found.body) == ("U", b"yes")
        await found.ack()
        await send(client, b"both", topic="T", tag="a")
        await send(client, b"both", topic="U", tag="b")
        assert {each.topic for each in await gathered(consumer, 2)} == {"T", "U"}


async def test_sql_is_evaluated_by_the_broker(world_with: object) -> None:
    world: Servers = await world_with(enable_property_filter=True)  # type: ignore[operator]
    await world.create_topic("T")
    async with world.client() as client:
        async with client.producer() as producer:
            for total in ("5", "15"):
                await producer.send("T", total, props={"total": total})
        async with client.simple_consumer("T", group="g", filter=sql("total > 10"), begin="first") as consumer:
            (found,) = await gathered(consumer, 1)
            assert found.body == b"15"
            await found.ack()
        with pytest.raises(Refused, match=r"SQL|sql|parse|expression"):
            await client.simple_consumer("T", group="h", filter=sql("total >")).start()


async def test_a_stop_gives_back_what_is_open(world: Servers) -> None:
    await world.create_topic("T")
    async with world.client() as client:
        async with simple(client, invisible_s=600) as consumer:
            await send(client, b"done", b"open")
            found = {each.body: each for each in await gathered(consumer, 2)}
            found[b"done"].ack()  # not awaited: the stop waits for it
        with pytest.raises(Closed):
            await consumer.receive()
        async with simple(client) as other:
            (again,) = await gathered(other, 1)
            assert (again.body, again.attempt) == (b"open", 2)
            await again.ack()
            assert await other.receive(wait=0) == []


async def test_a_receive_that_is_cancelled_gives_back_what_it_would_have_brought(world: Servers) -> None:
    await world.create_topic("T")
    async with world.client() as client, simple(client, invisible_s=600) as consumer:
        waiting = asyncio.create_task(consumer.receive(wait=SOON_S))
        assert await consumer.receive(wait=0) == []  # the other is held at the broker by now
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await send(client, b"x")
        (found,) = await gathered(consumer, 1)
        assert (found.body, found.attempt) == (b"x", 1)
        await found.ack()


async def test_iteration_yields_one_after_another_and_gives_back_the_rest(world: Servers) -> None:
    await world.create_topic("T", queues=1)
    async with world.client() as client:
        async with simple(client, invisible_s=600) as consumer:
            await send(client, *(b"%d" % number for number in range(6)))
            seen = []
            async for msg in consumer:
                seen.append(msg.body)
                msg.ack()
                if len(seen) == 2:
                    break
            await consumer.flush()
        async with simple(client, invisible_s=600) as other:
            rest = await gathered(other, 4)
            assert sorted([*seen, *(each.body for each in rest)]) == [b"%d" % number for number in range(6)]


async def test_an_ordered_group_gets_what_is_behind_only_when_the_first_is_done(world: Servers) -> None:
    await world.create_topic("T", queues=1)
    await world.create_group("g", consumeMessageOrderly=True)
    async with world.client() as client, simple(client, invisible_s=60) as consumer:
        await send(client, b"0", b"1", b"2")
        first = await gathered(consumer, 2)
        assert [each.body for each in first] == [b"0", b"1"]
        assert await consumer.receive(wait=0) == []  # the queue is blocked
        await first[0].ack()
        await first[1].later(0)
        again = await gathered(consumer, 2)
        assert [(each.body, each.attempt) for each in again] == [(b"1", 2), (b"2", 1)]
        await consumer.ack(again)


async def test_acknowledgements_of_one_moment_are_one_request(world: Servers) -> None:
    await world.create_topic("T", queues=2)
    async with world.client() as client, simple(client) as consumer:
        await send(client, *(b"%d" % number for number in range(8)))
        found = await gathered(consumer, 8)
        codes: list[int] = []
        call = client.session.transport.call

        async def counted(address: str, request: object, timeout_s: float) -> object:
            codes.append(request.code)  # type: ignore[attr-defined]
            return await call(address, request, timeout_s)  # type: ignore[arg-type]

        client.session.transport.call = counted  # type: ignore[method-assign, assignment]
        for each in found:
            each.ack()
        await consumer.flush()
        assert codes == [RequestCode.BATCH_ACK_MESSAGE]


async def test_failures_of_acknowledgements_reach_the_caller(world: Servers) -> None:
    await world.create_topic("T")
    async with world.client(call_timeout_s=2) as client, simple(client) as consumer:
        await send(client, b"a", b"b")
        awaited, unheard = await gathered(consumer, 2)
        calls: Any = consumer._calls

        async def refuse(*_: object) -> None:
            raise Refused("no", code=1)

        calls.ack = refuse
        acking = awaited.ack()
        with pytest.raises(Refused):
            await acking
        unheard.ack()
        with pytest.raises(Refused):
            await consumer.flush()
        await consumer.flush()  # said once
        del calls.ack
        await consumer.ack([awaited, unheard])  # they may be acknowledged again


async def test_what_cannot_be_is_refused_with_a_word_of_advice(world: Servers) -> None:
    async with world.client() as client:
        with pytest.raises(Error, match="not at a time"):
            client.simple_consumer("T", group="g", begin="-1h")
        with pytest.raises(Error, match="invisible_s=0"):
            client.simple_consumer("T", group="g", invisible_s=0)
        with pytest.raises(Error, match="no topic"):
            client.simple_consumer({}, group="g")
        async with client.simple_consumer("Nowhere", group="g") as consumer:
            with pytest.raises(TopicNotFound):
                await consumer.receive(wait=0)
            with pytest.raises(Error, match="max=0"):
                await consumer.receive(max=0)
