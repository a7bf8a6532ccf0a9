"""A broker's master changes: sends fail for no longer than that, keys keep their order, consumers go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq.ambient import SystemClock
from pyromq.broker.config import BrokerConfig
from pyromq.broker.replication.settings import BrokerRole
from pyromq.client.client import Client
from pyromq.client.consume.group_calls import BrokerOffsets
from pyromq.client.errors import NoBroker, Refused
from pyromq.client.produce.producer import Producer
from pyromq.client.produce.sending import SendPolicy, SendStatus
from pyromq.client.received import Received
from pyromq.machine.budget import Budget
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.protocol.requests import RequestCode
from pyromq.store.files.real_disk import RealDisk
from pyromq.testing.in_process import InProcessBroker
from pyromq.transport.dispatch import Reply, Request
from tests.broker.running import SMALL
from tests.client.cluster import Cluster, FakeBroker, pull_fields
from tests.client.world import HOLD_MS, World, turns_until

SEND = RequestCode.SEND_MESSAGE_V2
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
NOT_MASTER = (ResponseCode.SERVICE_NOT_AVAILABLE, "this broker is a slave: its master, which serves this, is away")
TOO_FEW = (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")


@pytest.fixture
async def client(cluster: Cluster) -> Client:
    """A client that knows `a`, the only broker, with its slave `a2`."""
    cluster.broker("a", T=4)
    cluster.slaves["a"] = FakeBroker(cluster, "a2")
    client = await cluster.client()
    await client.session.route("T")
    return client


def bodies(broker: FakeBroker) -> list[bytes]:
    """In the order in which they came, those that were refused as well."""
    return [bytes(command.body) for command in broker.requests(SEND)]


def refuse(broker: FakeBroker, answer: tuple[int, str]) -> None:
    broker.script[SEND] = lambda _: Reply(*answer)


def promote(cluster: Cluster) -> FakeBroker:
    """The name server hears that `a2` is the master of `a` now."""
    cluster.replicas["a"] = {0: "a2:10911", 1: "a:10911"}
    return cluster.slaves["a"]


@pytest.mark.parametrize("answer", [NOT_MASTER, TOO_FEW])
@pytest.mark.parametrize("retries", [0, 2])
async def test_a_refusal_by_a_broker_that_is_not_the_master_costs_time_and_no_attempt(
    cluster: Cluster, client: Client, answer: tuple[int, str], retries: int
) -> None:
    refuse(cluster.brokers["a"], answer)
    async with client.producer(policy=SendPolicy(retries=retries)) as producer:
        sending = asyncio.create_task(producer.send("T", b"x"))
        await cluster.clock.advance(1.5)
        assert not sending.done()
        new = promote(cluster)
        await cluster.clock.advance(0.8)  # a question after half a second at most, an attempt after a quarter
        assert sending.done()
        assert (await sending).queue.broker_name == "a"
    assert bodies(new) == [b"x"]


@pytest.mark.parametrize("answer", [NOT_MASTER, TOO_FEW])
async def test_one_that_stays_is_raised_with_its_reason_when_the_time_is_over(
    cluster: Cluster, client: Client, answer: tuple[int, str]
) -> None:
    refuse(cluster.brokers["a"], answer)
    async with client.producer(policy=SendPolicy(timeout_s=3)) as producer:
        sending = asyncio.create_task(producer.send("T", b"x"))
        await cluster.clock.advance(2.9)
        assert not sending.done()
        await cluster.clock.advance(0.2)
        with pytest.raises(Refused) as refusal:
            await sending
    assert refusal.value.code == answer[0]
    assert answer[1] in str(refusal.value)


async def test_the_route_is_asked_for_at_once(cluster: Cluster, client: Client) -> None:
    refuse(cluster.brokers["a"], NOT_MASTER)
    promote(cluster)
    async with client.producer() as producer:
        sending = asyncio.create_task(producer.send("T", b"x"))
        await cluster.clock.settle(200)  # no time passes
        assert sending.done()
        await sending


async def test_a_master_that_dies_is_looked_for_until_another_one_is_there(cluster: Cluster, client: Client) -> None:
    async with client.producer() as producer:
        await producer.send("T", b"1")
        await cluster.brokers["a"].server.stop(0)
        cluster.replicas["a"] = {1: "a2:10911"}  # what the name server sees at once
        sending = asyncio.create_task(producer.send("T", b"2"))
        await cluster.clock.advance(1.2)
        new = promote(cluster)
        await cluster.clock.advance(0.8)
        assert sending.done()
        await sending
    assert bodies(new) == [b"2"]


async def test_what_hangs_at_a_master_that_stands_still_goes_to_the_new_one(cluster: Cluster, client: Client) -> None:
    """It answers nothing and ends no connection: the send asks by itself whether there is another master."""
    stopped: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    async def hang(_: Request) -> Reply:
        return await stopped

    cluster.brokers["a"].script[SEND] = hang
    async with client.producer(policy=SendPolicy(timeout_s=30)) as producer:
        keyed = asyncio.create_task(producer.send("T", b"x", order_key="k"))
        plain = asyncio.create_task(producer.send("T", b"y"))
        await cluster.clock.advance(2)
        new = promote(cluster)
        await cluster.clock.advance(1.5)
        assert keyed.done()
        assert plain.done()
        await asyncio.gather(keyed, plain)
    assert sorted(bodies(new)) == [b"x", b"y"]
    stopped.cancel()


async def test_keys_stay_on_their_queues_while_a_broker_is_between_two_masters(cluster: Cluster) -> None:
    cluster.broker("a", T=4)
    cluster.broker("b", T=4)
    cluster.slaves["a"] = FakeBroker(cluster, "a2")
    client = await cluster.client()
    keys = [f"k{number}" for number in range(40)]
    async with client.producer() as producer:
        before = {key: (await producer.send("T", b"0", order_key=key)).queue for key in keys}
        await cluster.brokers["a"].server.stop(0)
        cluster.replicas["a"] = {1: "a2:10911"}
        first = [asyncio.create_task(producer.send("T", b"1", order_key=key)) for key in keys]
        second = [asyncio.create_task(producer.send("T", b"2", order_key=key)) for key in keys]
        await cluster.clock.advance(1)
        is_done = {key: task.done() for key, task in zip(keys, first, strict=True)}
        assert is_done == {key: before[key].broker_name == "b" for key in keys}
        plain = await producer.send("T", b"x")
        assert plain.queue.broker_name == "b"
        promote(cluster)
        await cluster.clock.advance(2)
        results = [(await one, await two) for one, two in zip(first, second, strict=True)]
    for key, (one, two) in zip(keys, results, strict=True):
        assert one.queue == two.queue == before[key]
        assert one.queue_offset < two.queue_offset


async def test_keys_move_once_the_broker_may_not_be_written(cluster: Cluster, client: Client) -> None:
    """For an operator whose master is lost for good: without it, sends with a key fail, and say what to do."""
    cluster.broker("b", T=4)
    await cluster.brokers["a"].server.stop(0)
    cluster.replicas["a"] = {1: "a2:10911"}
    cluster.topics["T"] = {"a": 4}
    async with client.producer(policy=SendPolicy(timeout_s=1)) as producer:
        sending = asyncio.create_task(producer.send("T", b"1", order_key="k"))
        await cluster.clock.advance(1.1)
        with pytest.raises(NoBroker, match="wipeWritePerm"):
            await sending
        cluster.topics["T"] = {"b": 4}
        await client.session.read_route("T")
        assert (await producer.send("T", b"2", order_key="k")).queue.broker_name == "b"


async def test_name_servers_are_asked_ever_more_seldom_while_nothing_changes(cluster: Cluster, client: Client) -> None:
    async with client.producer(policy=SendPolicy(timeout_s=600)) as producer:
        await producer.send("T", b"0")
        await cluster.brokers["a"].server.stop(0)
        sending = asyncio.create_task(producer.send("T", b"x"))
        counts = []
        for _ in range(3):
            cluster.asked.clear()
            await cluster.clock.advance(30)
            counts.append(len(cluster.asked))
        assert counts[0] < 40
        assert counts[-1] <= 8
        promote(cluster)
        await cluster.clock.advance(30)
        await sending


async def test_only_the_broker_whose_connection_ended_has_a_heartbeat_at_once(cluster: Cluster) -> None:
    cluster.broker("a", T=1)
    cluster.broker("b", T=1)
    client = await cluster.client()
    async with client.producer("makers") as producer:
        await producer.send("T", b"x")
        await cluster.clock.settle()
        counts = [len(cluster.brokers[name].requests(RequestCode.HEART_BEAT)) for name in "ab"]
        cluster.brokers["a"].cut()
        for peer in tuple(cluster.names.peers()):
            peer.close("restarted")
        await cluster.clock.settle()
        after = [len(cluster.brokers[name].requests(RequestCode.HEART_BEAT)) for name in "ab"]
        assert after == [counts[0] + 1, counts[1]]


async def test_a_slave_that_may_not_be_read_is_not_asked_again_and_again(cluster: Cluster, client: Client) -> None:
    slave = cluster.slaves["a"]
    slave.script[RequestCode.PULL_MESSAGE] = lambda _: Reply(
        ResponseCode.PULL_RETRY_IMMEDIATELY, fields=pull_fields(0, 0)
    )
    begin = ConsumeFromWhere.FIRST_OFFSET
    got: list[bytes] = []

    async def handle(msg: Received) -> None:
        got.append(msg.body)

    cluster.brokers["a"].put("T", 0, b"1")
    async with client.push_consumer("T", handle, group="g", begin=begin):
        await cluster.clock.advance(1)
        assert got == [b"1"]
        await cluster.brokers["a"].server.stop(0)
        cluster.replicas["a"] = {1: slave.address}
        await cluster.clock.advance(60)
        pulls = [one for one in slave.requests(RequestCode.PULL_MESSAGE) if one.fields["topic"] == "T"]
        assert 0 < len(pulls) < 4 * 60  # of four queues, in a minute
        del slave.script[RequestCode.PULL_MESSAGE]
        promote(cluster)
        slave.put("T", 0, b"1", b"2")
        await cluster.clock.advance(5)
        assert got == [b"1", b"2"]


# --- real brokers -----------------------------------------------------------------------------------------------------


class Pair:
    """A synchronous master and its slave under one name. All that a client sees of an election is done by hand."""

    def __init__(self, folder: Path, name_server: str) -> None:
        self._folder = folder
        self._name_server = name_server

    async def start(self, folder: str, **settings: Any) -> InProcessBroker:
        """Start a replica on a port of its own. Its store is the folder's."""
        place = self._folder / folder
        config = BrokerConfig(
            **(SMALL | {"loop_hold_ms": HOLD_MS, "ha_listen_port": 0} | settings),
            broker_name="broker-a",
            listen_port=0,
            fast_listen_port=0,
            store_path_root_dir=place,
            namesrv_addr=(self._name_server,),
        )
        disk = RealDisk(place, create=True)
        return await InProcessBroker.start(config, clock=SystemClock(), disk=disk, budget=Budget(memory_bytes=1 << 34))


async def test_a_slave_that_is_started_as_master_elsewhere_serves_on(tmp_path: Path) -> None:
    """No send fails, keys keep their order, what was acknowledged is consumed, also what came after the switch."""
    world = World(tmp_path)
    name_server = await world.start_name_server()
    table = world.name_servers[name_server].table
    pair = Pair(tmp_path, name_server)
    sync = {"broker_role": BrokerRole.SYNC_MASTER, "in_sync_replicas": 2, "min_in_sync_replicas": 1}
    master = await pair.start("one", **sync)
    slave = await pair.start("two", broker_role=BrokerRole.SLAVE, broker_id=1)
    running = [master, slave]
    try:
        await turns_until(lambda: len(table.members("broker-a")) == 2)
        got: list[tuple[str, int]] = []

        async def handle(value: list[Any], msg: Received) -> None:
            got.append((value[0], value[1]))

        policy = SendPolicy(timeout_s=60)  # the slave is started again, which takes its time on a busy machine
        begin = ConsumeFromWhere.FIRST_OFFSET
        async with (
            world.client() as client,
            world.client() as other,
            client.producer(policy=policy) as producer,
            other.push_consumer("T", handle, group="g", begin=begin, orderly=True),
        ):
            await until_in_sync(producer)
            sending = [asyncio.create_task(send_in_order(producer, key, 60)) for key in "abcd"]
            await turns_until(lambda: len(got) >= 40)
            await master.kill()
            running.remove(master)
            await slave.stop()
            running.remove(slave)
            running.append(await pair.start("two", broker_role=BrokerRole.ASYNC_MASTER))
            await asyncio.gather(*sending)
            wanted = {(key, number) for key in "abcd" for number in range(60)}
            await turns_until(lambda: set(got) >= wanted)
        for key in "abcd":
            first_seen = list(dict.fromkeys(number for found, number in got if found == key))
            assert first_seen == sorted(first_seen)
    finally:
        for one in running:
            await one.stop()
        await world.close()


async def until_in_sync(producer: Producer) -> None:
    """Send until the slave takes part."""
    while (await producer.send("T", ["first", 0])).status is not SendStatus.OK:
        continue


async def send_in_order(producer: Producer, key: str, count: int) -> None:
    for number in range(count):
        await producer.send("T", [key, number], order_key=key)


async def test_offsets_that_a_slave_was_told_are_told_to_the_next_master_too(cluster: Cluster, client: Client) -> None:
    """A follower of an elected set keeps none of its own: the next master would not hear of them."""
    queue = MessageQueue(broker_name="a", queue_id=1, topic="T")
    cluster.replicas["a"] = {1: "a2:10911"}
    await client.session.read_route("T")
    offsets = BrokerOffsets(client.session, "G")
    slave = cluster.slaves["a"]
    assert await offsets.save({queue: 7}) == {}
    assert len(slave.requests(RequestCode.UPDATE_CONSUMER_OFFSET)) == 1
    promote(cluster)
    await cluster.clock.advance(1)
    assert await offsets.save({queue: 7}) == {queue: 7}  # the route was read again for that
    assert len(slave.requests(RequestCode.UPDATE_CONSUMER_OFFSET)) == 2
