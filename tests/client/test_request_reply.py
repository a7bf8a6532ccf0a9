"""Request and reply through our own broker: answers come back, late ones and mistakes are told."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.client.errors import BadMessage, Refused, TimedOut
from pyromq.client.produce.outgoing import Packing
from pyromq.client.received import Received
from pyromq.model.group import ConsumeFromWhere
from tests.client.test_push_consumer import Seen
from tests.client.world import Servers

FIRST = ConsumeFromWhere.FIRST_OFFSET


async def test_a_consumer_answers_many_askers_each_his_own(world: Servers) -> None:
    async with world.client() as service, service.producer("answers") as answers:

        async def double(number: int, msg: Received) -> None:
            await answers.reply(msg, number * 2)

        async with (
            service.push_consumer("sums", double, group="g", begin=FIRST),
            world.client(instance="one") as one,
            world.client(instance="two") as two,
            one.producer("P") as asker,
            two.producer("P") as other,
        ):
            replies = await asyncio.gather(
                *(who.request("sums", n, timeout=20) for n in range(20) for who in (asker, other))
            )
    assert [reply.decode(int) for reply in replies] == [n * 2 for n in range(20) for _ in range(2)]


async def test_a_large_compressed_answer_comes_whole(world: Servers) -> None:
    async with world.client() as client, client.producer("P", packing=Packing(compress_over_bytes=10)) as producer:

        async def answer(msg: Received) -> None:
            await producer.reply(msg, b"x" * 10_000)

        async with client.push_consumer("T", answer, group="g", begin=FIRST):
            reply = await producer.request("T", b"give me much", timeout=20)
    assert reply.body == b"x" * 10_000


async def test_a_request_may_choose_its_queue(world: Servers) -> None:
    await world.create_topic("T", 4)
    async with world.client() as client, client.producer("P") as producer:

        async def answer(msg: Received) -> None:
            await producer.reply(msg, str(msg.queue.queue_id))

        async with client.push_consumer("T", answer, group="g", begin=FIRST):
            for choose, number in ((max, 3), (min, 0)):
                reply = await producer.request("T", b"where?", queue=choose, timeout=20)
                assert reply.body == str(number).encode()


async def test_without_an_answer_the_time_runs_out_and_a_late_one_is_refused(world: Servers) -> None:
    seen = Seen()
    await world.create_topic("T", 1)
    async with world.client() as client, client.producer("P") as producer:
        await producer.send("T", b"first")  # so that the request's time is enough to store it, also at Java's broker
        with pytest.raises(TimedOut, match=r"no reply .* 'T' within 3"):
            await producer.request("T", b"anyone?", timeout=3)
        async with client.push_consumer("T", seen, group="g", begin=FIRST):
            await seen.count(2)
        with pytest.raises(Refused, match=r"nobody waits|push reply message"):
            await producer.reply(next(each for each in seen.messages if each.body == b"anyone?"), b"too late")


async def test_a_message_that_asks_nothing_cannot_be_answered(world: Servers) -> None:
    seen = Seen()
    async with world.client() as client, client.producer("P") as producer:
        await producer.send("T", b"plain")
        async with client.push_consumer("T", seen, group="g", begin=FIRST):
            await seen.count(1)
        with pytest.raises(BadMessage, match="is no request: it has no CORRELATION_ID"):
            await producer.reply(seen.messages[0], b"hm")
