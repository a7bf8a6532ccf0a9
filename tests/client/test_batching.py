"""Sends that share a request: gathered for a moment, bounded by size, split on error, each with a result of its own."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyromq.client.errors import Error, Refused
from pyromq.client.produce.batches import Batching
from pyromq.client.produce.outgoing import Packing
from pyromq.client.produce.producer import Producer
from pyromq.client.produce.sending import SendPolicy
from pyromq.model.codes import ResponseCode
from pyromq.protocol.batch import BatchEntry, decode_batch, encode_batch
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply, Request
from tests.client.cluster import Cluster, FakeBroker
from tests.client.conftest import NewWorld
from tests.client.world import Servers

BATCH = RequestCode.SEND_BATCH_MESSAGE
SINGLE = RequestCode.SEND_MESSAGE_V2


class Batches:
    """A broker that takes batches: their bodies, one list per request. `limit` bytes are too many."""

    def __init__(self, broker: FakeBroker, limit: int = 1 << 30) -> None:
        self.taken: list[list[bytes]] = []
        self.limit = limit
        self.poison: bytes | None = None
        self._next = 0
        broker.script[BATCH] = self.take
        broker.script[SINGLE] = self.take

    def take(self, request: Request) -> Reply:
        is_batch = request.command.code == BATCH
        bodies = [each.body for each in decode_batch(request.body)] if is_batch else [bytes(request.body)]
        if len(request.body) > self.limit or self.poison in bodies:
            return Reply(ResponseCode.MESSAGE_ILLEGAL, "the message is too large")
        self.taken.append(bodies)
        first, self._next = self._next, self._next + len(bodies)
        ids = ",".join(f"AT{first + number}" for number in range(len(bodies)))
        return Reply(fields={"msgId": ids, "queueId": request.command.fields["e"], "queueOffset": str(first)})


async def producer_of(cluster: Cluster, **settings: Any) -> Producer:
    client = await cluster.client()
    given: dict[str, Any] = {"batching": Batching(linger_s=0.01), "policy": SendPolicy(retries=0)} | settings
    producer = client.producer(**given)
    await producer.start()
    return producer


async def test_sends_at_about_the_same_time_share_a_request_and_each_has_its_result(cluster: Cluster) -> None:
    broker = Batches(cluster.broker("a", T=1))
    producer = await producer_of(cluster)
    sends = [asyncio.create_task(producer.send("T", b"%d" % number, tag=f"t{number}")) for number in range(3)]
    await cluster.clock.advance(0.009)
    assert broker.taken == []
    await cluster.clock.advance(0.001)
    assert broker.taken == [[b"0", b"1", b"2"]]
    results = [await each for each in sends]
    assert [each.queue_offset for each in results] == [0, 1, 2]
    assert len({each.message_id for each in results}) == 3


async def test_a_batch_fits_into_a_frame_whatever_the_producer_allows(cluster: Cluster) -> None:
    broker = Batches(cluster.broker("a", T=1))
    packing = Packing(max_message_bytes=30_000_000, compression=None)
    producer = await producer_of(cluster, packing=packing, batching=Batching(max_bytes=30_000_000))
    part = bytes(9_000_000)
    gathered = [asyncio.create_task(producer.send("T", part)) for _ in range(2)]
    await cluster.clock.advance(0.01)
    await asyncio.gather(*gathered)
    await producer.send_many("T", [part, part], max_batch_bytes=30_000_000)
    assert broker.taken == [[part]] * 4


async def test_one_alone_is_a_message_like_any_other(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    batches = Batches(broker)
    producer = await producer_of(cluster)
    send = asyncio.create_task(producer.send("T", b"alone", tag="x"))
    await cluster.clock.advance(0.01)
    result = await send
    (request,) = broker.requests(SINGLE)
    properties = decode_properties(request.fields["i"])
    assert (properties["TAGS"], properties["UNIQ_KEY"]) == ("x", result.message_id)
    assert batches.taken == [[b"alone"]]


async def test_a_full_batch_does_not_wait_and_none_is_larger_than_allowed(cluster: Cluster) -> None:
    broker = Batches(cluster.broker("a", T=1))
    producer = await producer_of(cluster, batching=Batching(linger_s=60, max_messages=2))
    await asyncio.gather(*(producer.send("T", b"%d" % number) for number in range(4)))
    assert broker.taken == [[b"0", b"1"], [b"2", b"3"]]
    small = await producer_of(
        cluster, batching=Batching(linger_s=0.01), packing=Packing(max_message_bytes=500, compression=None)
    )
    sends = [asyncio.create_task(small.send("T", b"%d" % number * 200)) for number in range(4)]
    await cluster.clock.advance(0.01)
    await asyncio.gather(*sends)
    assert [len(each) for each in broker.taken[2:]] == [1, 1, 1, 1]


async def test_a_batch_that_is_refused_is_split_until_each_sender_has_an_answer(cluster: Cluster) -> None:
    broker = Batches(cluster.broker("a", T=1))
    broker.poison = b"bad"
    producer = await producer_of(cluster)
    bodies = [b"0", b"1", b"bad", b"3", b"4"]
    sends = [asyncio.create_task(producer.send("T", body)) for body in bodies]
    await cluster.clock.advance(0.01)
    results = await asyncio.gather(*sends, return_exceptions=True)
    assert [isinstance(each, Refused) for each in results] == [False, False, True, False, False]
    assert sorted(body for taken in broker.taken for body in taken) == [b"0", b"1", b"3", b"4"]


async def test_one_order_key_stays_in_order_and_its_batches_follow_one_another(cluster: Cluster) -> None:
    fake = cluster.broker("a", T=4)
    broker = Batches(fake)
    at_once = most = 0

    async def slowly(request: Request) -> Reply:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await cluster.clock.sleep(0.05)
        at_once -= 1
        return broker.take(request)

    fake.script[BATCH] = fake.script[SINGLE] = slowly
    producer = await producer_of(cluster, batching=Batching(linger_s=0.01, max_messages=3))
    sends = [asyncio.create_task(producer.send("T", b"%d" % number, order_key="k")) for number in range(8)]
    await cluster.clock.advance(1)
    results = await asyncio.gather(*sends)
    assert most == 1
    assert broker.taken == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6", b"7"]]
    assert len({each.queue for each in results}) == 1


async def test_what_needs_more_than_a_batch_can_say_goes_alone(cluster: Cluster) -> None:
    fake = cluster.broker("a", T=1)
    broker = Batches(fake)
    producer = await producer_of(cluster)
    await producer.send("T", b"later", delay=5)
    await producer.send("T", b"big" * 5000)
    await producer.send("T", b"mine", queue=lambda queues: queues[0])
    await producer.send("T", b"soon", timeout=1)
    assert [len(each) for each in broker.taken] == [1, 1, 1, 1]
    assert cluster.clock.monotonic() == 0


async def test_a_stop_sends_what_was_gathered(cluster: Cluster) -> None:
    broker = Batches(cluster.broker("a", T=1))
    producer = await producer_of(cluster, batching=Batching(linger_s=3600))
    send = asyncio.create_task(producer.send("T", b"last"))
    await cluster.clock.settle()
    await producer.stop()
    assert (await send).queue_offset == 0
    assert broker.taken == [[b"last"]]


async def test_a_failure_is_the_failure_of_each(cluster: Cluster) -> None:
    fake = cluster.broker("a", T=1)
    fake.script[BATCH] = lambda _: Reply(ResponseCode.NO_PERMISSION, "no")
    producer = await producer_of(cluster)
    sends = [asyncio.create_task(producer.send("T", b"x")) for _ in range(3)]
    await cluster.clock.advance(0.01)
    results = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(each) for each in results] == [Refused] * 3


async def test_values_that_come_one_by_one_are_gathered_for_the_linger(cluster: Cluster) -> None:
    broker = Batches(cluster.broker("a", T=1))
    producer = await producer_of(cluster, batching=None)

    async def values() -> AsyncIterator[bytes]:
        for number in range(5):
            yield b"%d" % number
            await cluster.clock.sleep(0.03)
        yield b"end"

    sending = asyncio.create_task(producer.send_many("T", values(), linger=0.1))
    while not sending.done():
        await cluster.clock.advance(0.01)
    results = await sending
    assert broker.taken == [[b"0", b"1", b"2", b"3"], [b"4", b"end"]]
    assert [each.queue_offset for each in results] == list(range(6))


def test_nonsense_is_refused() -> None:
    for wrong in ({"linger_s": -1}, {"linger_s": "x"}, {"linger_s": math.inf}, {"max_bytes": 0}, {"max_messages": "9"}):
        ((name, value),) = wrong.items()
        with pytest.raises(Error, match=f"^{name}={value!r} is no .* Write {name}="):
            Batching(**wrong)


async def test_on_a_real_broker_every_message_is_itself(world: Servers) -> None:
    await world.create_topic("gathered", 2)
    async with world.client() as client, client.producer(batching=Batching(linger_s=0.001)) as producer:
        results = await asyncio.gather(
            *(producer.send("gathered", b"%d" % number, keys=[f"k{number}"]) for number in range(200))
        )
        assert len({(each.queue, each.queue_offset) for each in results}) == 200
        found: dict[bytes, str] = {}
        async with client.pull_consumer("reader") as consumer:
            await consumer.assign(await consumer.queues("gathered"))
            for queue in await consumer.queues("gathered"):
                await consumer.seek_to_begin(queue)
            while len(found) < 200:
                found |= {each.body: each.id for each in await consumer.poll(timeout=5)}
        assert [found[b"%d" % number] for number in range(200)] == [each.message_id for each in results]


@pytest.mark.parametrize("properties", ["UNIQ_KEY\x01u\x02", "WAIT\x01true\x02"])
async def test_the_answer_to_a_batch_of_40_000_messages_can_be_read(world_with: NewWorld, properties: str) -> None:
    """As a Java broker writes it: an id for each, 1.3 MB of header. With a unique id the native kernel answers."""
    world = await world_with(commit_log_file_bytes=8 << 20, max_messages_in_batch=50_000)
    async with world.client() as client, client.producer() as producer:
        await producer.send("T", "first")
        queue = (await client.session.route("T")).writable[0]
        fields = {"a": "p", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0", "j": "0"}
        fields |= {"i": properties, "m": "true"}
        body = encode_batch([BatchEntry(b"x")] * 40_000)
        answer = await client.session.call(await client.session.master(queue), BATCH, fields, body, timeout_s=30)
    assert len(set(answer.fields["msgId"].split(","))) == 40_000


def test_more_messages_than_a_broker_takes_in_a_batch_are_refused_as_a_setting() -> None:
    with pytest.raises(Error, match="max_messages=1000000 is no whole number of 1 to 32767"):
        Batching(max_messages=1_000_000)
