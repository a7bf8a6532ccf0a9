"""Pull consumers that share queues with their group, loops over messages, and reading from a slave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pyromq import sync
from pyromq.client.client import Client
from pyromq.client.consume.pull_consumer import PullConsumer
from pyromq.client.errors import Error
from pyromq.client.received import Received
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply, Request
from tests.client.cluster import Cluster, FakeBroker, pull_fields
from tests.client.world import Servers

FIRST = ConsumeFromWhere.FIRST_OFFSET


async def poll_until(consumers: list[PullConsumer], enough: Callable[[], bool], got: list[bytes]) -> None:
    async def read(consumer: PullConsumer) -> None:
        while not enough():
            got.extend(each.body for each in await consumer.poll(timeout=0.05))

    await asyncio.gather(*(read(each) for each in consumers))


async def test_two_members_share_the_queues_and_who_stays_takes_over(world: Servers) -> None:
    await world.create_topic("T", 4)
    got: list[bytes] = []
    async with (
        world.client(instance="one") as one,
        world.client(instance="two") as two,
        one.producer() as producer,
        one.pull_consumer("g", begin=FIRST) as first,
    ):
        await first.subscribe("T")
        # At once, unless a broker of many tests counts a member of an earlier one: Java's hears late that it is gone.
        await poll_until([first], lambda: len(first._queues) == 4, got)
        async with two.pull_consumer("g", begin=FIRST) as second:
            await second.subscribe("T")
            await poll_until([first], lambda: len(first._queues) == 2, got)
            assert not first._queues.keys() & second._queues.keys()
            for number in range(40):
                await producer.send("T", b"%d" % number)
            await poll_until([first, second], lambda: len(got) >= 40, got)
        await poll_until([first], lambda: len(first._queues) == 4, got)
        await producer.send("T", b"last")
        await poll_until([first], lambda: b"last" in got, got)
    assert sorted(got) == sorted([*(b"%d" % number for number in range(40)), b"last"])


async def test_pushing_and_pulling_members_may_be_in_one_group(world: Servers) -> None:
    await world.create_topic("T", 4)
    got: list[bytes] = []

    async def handle(msg: Received) -> None:
        got.append(msg.body)

    async with (
        world.client(instance="one") as one,
        world.client(instance="two") as two,
        one.producer() as producer,
        one.pull_consumer("g", begin=FIRST) as pulling,
        two.push_consumer("T", handle, group="g", begin=FIRST) as pushing,
    ):
        await pulling.subscribe("T")
        await poll_until([pulling], lambda: len(pulling._queues) == 2 and pushed(pushing) == 2, got)
        for number in range(20):
            await producer.send("T", b"%d" % number)
        await poll_until([pulling], lambda: len(got) >= 20, got)
    assert sorted(got) == sorted(b"%d" % number for number in range(20))


def pushed(consumer: Any) -> int:
    return sum(queue.topic == "T" for queue in consumer.assigned)


async def test_a_loop_acks_what_it_has_left_behind_and_no_more(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    broker.put("T", 0, *(b"%d" % number for number in range(6)))
    client = await cluster.client()
    seen: list[bytes] = []
    async with client.pull_consumer("g", begin=FIRST) as consumer:
        await consumer.subscribe("T")
        async for msg in consumer:
            seen.append(msg.body)
            if len(seen) == 3:
                break
        assert [each.body for each in await consumer.poll()] == [b"3", b"4", b"5"]  # the rest of the batch
        await consumer.seek(msg.queue, 3)
    assert broker.offsets["T", 0] == 3

    async def fail_at_4() -> None:
        async with client.pull_consumer("g", begin=FIRST) as consumer:
            await consumer.subscribe("T")
            async for msg in consumer:
                seen.append(msg.body)
                if msg.body == b"4":
                    raise KeyError("boom")

    with pytest.raises(KeyError, match="boom"):
        await fail_at_4()
    assert broker.offsets["T", 0] == 4  # 3 is done, 4 comes again
    assert seen == [b"0", b"1", b"2", b"3", b"4"]


async def test_leaving_the_loop_leaves_the_rest_of_the_batch_to_the_next(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    broker.put("T", 0, *(b"%d" % number for number in range(6)))
    client = await cluster.client()
    async with client.pull_consumer("g", begin=FIRST) as consumer:
        await consumer.subscribe("T")
        async for msg in consumer:
            if msg.body == b"2":
                break
    assert broker.offsets["T", 0] == 3


async def test_one_or_the_other(cluster: Cluster) -> None:
    cluster.broker("a", T=1)
    client = await cluster.client()
    async with client.pull_consumer("g") as consumer:
        with pytest.raises(Error, match="takes topics"):
            await consumer.subscribe()
        await consumer.subscribe("T")
        with pytest.raises(Error, match="shared out"):
            await consumer.assign(await consumer.queues("T"))


async def test_the_blocking_loop(world: Servers) -> None:
    await world.create_topic("T", 2)
    (address,) = world.name_servers

    def work() -> list[bytes]:
        found: list[bytes] = []
        with sync.connect(address) as client, client.producer() as producer:
            producer.send_many("T", [b"a", b"b", b"c"])
            with client.pull_consumer("g", begin=FIRST) as consumer:
                consumer.subscribe("T")
                for msg in consumer:
                    found.append(msg.body)
                    if len(found) == 3:
                        break
        return found

    assert sorted(await asyncio.to_thread(work)) == [b"a", b"b", b"c"]


# --- slaves ---------------------------------------------------------------------------------------------------------


def with_slave(cluster: Cluster) -> tuple[FakeBroker, FakeBroker]:
    """A master with queue T, and its slave with the same messages."""
    master = cluster.broker("a", T=1)
    slave = FakeBroker(cluster, "slave")
    cluster.slaves["a"] = slave
    cluster.brokers["slave"] = slave  # stopped with the others
    cluster.topics["%RETRY%g"] = {"a": 1}
    for each in (master, slave):
        each.put("T", 0, *(b"%d" % number for number in range(3)))
    return master, slave


async def consume(cluster: Cluster, got: list[bytes]) -> Client:
    client = await cluster.client()

    async def handle(msg: Received) -> None:
        got.append(msg.body)

    consumer = client.push_consumer("T", handle, group="g", begin=FIRST)
    await consumer.start()
    await cluster.clock.settle(100)
    return client


async def test_a_slave_is_read_while_the_master_is_away_and_the_master_again_when_it_is_back(cluster: Cluster) -> None:
    master, slave = with_slave(cluster)
    got: list[bytes] = []
    await consume(cluster, got)
    assert got == [b"0", b"1", b"2"]
    assert slave.requests(RequestCode.HEART_BEAT) != []  # consumers tell slaves of themselves too
    cluster.network.unlisten(master.address)
    master.cut()
    slave.put("T", 0, b"3")  # as if it had been replicated a moment before
    await cluster.clock.advance(5)
    assert got == [b"0", b"1", b"2", b"3"]
    before = len(master.seen)
    cluster.network.listen(master.address, master.server.attach)
    master.put("T", 0, b"3", b"4")
    await cluster.clock.advance(60)
    assert got == [b"0", b"1", b"2", b"3", b"4"]
    assert len(master.seen) > before


async def test_producers_use_masters_only(cluster: Cluster) -> None:
    master, slave = with_slave(cluster)
    client = await cluster.client()
    async with client.producer() as producer:
        await producer.send("T", b"x")
        cluster.network.unlisten(master.address)
        master.cut()
        sending = asyncio.create_task(producer.send("T", b"y"))
        await cluster.clock.advance(5)
        with pytest.raises(Error, match=r"the connection to .* ended"):
            await sending
    assert [each.code for each in slave.seen] == []


async def test_the_suggested_replica_is_asked_next(cluster: Cluster) -> None:
    master, slave = with_slave(cluster)
    master.script[RequestCode.PULL_MESSAGE] = lambda request: Reply(
        ResponseCode.PULL_NOT_FOUND,
        fields=pull_fields(int(request.command.fields["queueOffset"]), 3) | {"suggestWhichBrokerId": "1"},
    )
    got: list[bytes] = []
    await consume(cluster, got)
    assert got == [b"0", b"1", b"2"]
    assert slave.requests(RequestCode.PULL_MESSAGE) != []


def refuse(slave: FakeBroker, way: str) -> None:
    """Let nobody read: as a slave of 4.9 does, as one of 5.x, as ours."""

    def answer(request: Request) -> Reply:
        if way == "4.9":
            offset = int(request.command.fields["queueOffset"])
            return Reply(ResponseCode.PULL_RETRY_IMMEDIATELY, fields=pull_fields(offset, 3))
        words = {
            "5.x": "[REJECTREQUEST]system busy, start flow control for a while",
            "ours": "[REJECTREQUEST] the broker[a] is a slave and is not read from",
        }
        return Reply(ResponseCode.SYSTEM_BUSY, remark=words[way])

    slave.script[RequestCode.PULL_MESSAGE] = answer


@pytest.mark.parametrize("way", ["4.9", "5.x", "ours"])
async def test_a_slave_that_may_not_be_read_is_not_asked_without_pause(
    cluster: Cluster, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    master, slave = with_slave(cluster)
    refuse(slave, way)
    await consume(cluster, [])
    cluster.network.unlisten(master.address)
    master.cut()
    await cluster.clock.advance(30)
    assert 0 < len(slave.requests(RequestCode.PULL_MESSAGE)) < 30
    assert "Set slaveReadEnable=true on master and slave" in caplog.text
    assert "send less, or add brokers" not in caplog.text


async def test_a_suggested_slave_that_may_not_be_read_sends_its_readers_back_to_the_master(cluster: Cluster) -> None:
    master, slave = with_slave(cluster)
    refuse(slave, "ours")

    def suggest_once(request: Request) -> Reply:
        del master.script[RequestCode.PULL_MESSAGE]
        fields = pull_fields(int(request.command.fields["queueOffset"]), 3) | {"suggestWhichBrokerId": "1"}
        return Reply(ResponseCode.PULL_NOT_FOUND, fields=fields)

    master.script[RequestCode.PULL_MESSAGE] = suggest_once
    got: list[bytes] = []
    await consume(cluster, got)
    assert slave.requests(RequestCode.PULL_MESSAGE) != []
    assert got == [b"0", b"1", b"2"]
