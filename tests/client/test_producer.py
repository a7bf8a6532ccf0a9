"""Sends: on virtual time against a scripted broker, and on real sockets against ours, restarts included."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from pyromq.client.client import Client
from pyromq.client.errors import BadMessage, Closed, NoBroker, Refused, TimedOut, TopicNotFound
from pyromq.client.produce.batches import BATCH_MESSAGES
from pyromq.client.produce.outgoing import Packing
from pyromq.client.produce.sending import SendPolicy, SendResult, SendStatus
from pyromq.client.values import decode_value
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.model.ids import parse_unique_id
from pyromq.model.message import StoredMessage
from pyromq.protocol.batch import decode_batch
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.protocol.compression import Compression
from pyromq.protocol.headers.pull import PullMessage
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Answer, Handler, Reply, Request
from tests.client.cluster import Cluster, FakeBroker
from tests.client.conftest import NewWorld
from tests.client.world import ON_JAVA, Servers, World
from tests.wire import decode_messages

SEND = RequestCode.SEND_MESSAGE_V2


@dataclass
class Order:
    id: int
    total: float


PATIENCE_S = 60 if ON_JAVA else 20  # for a broker that starts


async def everything(world: Servers, topic: str, broker: str = "broker-a") -> list[StoredMessage]:
    """All messages of a topic on one broker, queue by queue."""
    found: list[StoredMessage] = []
    async with world.client() as client:
        for queue_id in range(8):
            offset = 0
            while pulled := await _pull(client, world.brokers[broker].address, topic, queue_id, offset):
                found += pulled
                offset = pulled[-1].queue_offset + 1
    return found


async def _pull(client: Client, address: str, topic: str, queue_id: int, offset: int) -> list[StoredMessage]:
    header = PullMessage(
        consumer_group="look",
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    answer = await client.session.call(address, RequestCode.PULL_MESSAGE, header, expected=(0, 19, 20, 21, 29))
    return decode_messages(answer.body)


# --- against our own broker ------------------------------------------------------------------------------------------


async def test_a_send_arrives_with_everything_it_was_given(world: Servers) -> None:
    async with world.client() as client, client.producer() as producer:
        result = await producer.send("orders", Order(1, 9.5), tag="created", keys=["k1", "k2"], props={"region": "eu"})
    (message,) = await everything(world, "orders")
    assert decode_value(message.body, Order) == Order(1, 9.5)
    assert (message.tags, message.keys, message.properties["region"]) == ("created", ["k1", "k2"], "eu")
    assert result.message_id == message.unique_id
    assert result.offset_message_id == message.offset_id
    assert (result.queue.queue_id, result.queue_offset) == (message.queue_id, message.queue_offset)
    assert result.status is SendStatus.OK
    assert parse_unique_id(result.message_id).ip == "127.0.0.1"


@pytest.mark.parametrize("kind", [Compression.ZLIB, Compression.LZ4, Compression.ZSTD, None])
async def test_large_bodies_are_compressed(world: Servers, kind: Compression | None) -> None:
    body = b"a" * 100_000
    async with world.client() as client, client.producer(packing=Packing(compression=kind)) as producer:
        await producer.send("T", body)
        await producer.send("T", b"small")
    large, small = sorted(await everything(world, "T"), key=lambda message: -len(message.body))
    assert (large.body, small.body) == (body, b"small")
    assert small.sys_flag & 1 == 0
    if kind is None:
        assert large.store_size > 100_000
    else:
        assert (large.sys_flag & 1, large.sys_flag >> 8 & 7) == (1, kind)
        assert large.store_size < 2_000


async def test_send_many_packs_batches_and_keeps_the_order_of_results(world: Servers) -> None:
    values = [f"{number:05d}" for number in range(3000)]
    async with world.client() as client, client.producer() as producer:
        await producer.send("T", b"first")  # makes the topic
        results = await producer.send_many("T", values, tag="many", max_batch_bytes=40_000)
    while len(found := await everything(world, "T")) <= len(values):
        pass  # Java's broker shows messages a moment after it acked them
    stored = {message.unique_id: message for message in found}
    assert [stored[result.message_id].body.decode() for result in results] == values
    assert all(stored[result.message_id].queue_offset == result.queue_offset for result in results)
    assert all(stored[result.message_id].offset_id == result.offset_message_id for result in results)
    assert len({result.queue for result in results}) > 1


async def test_send_many_with_an_order_key_is_one_queue_in_order(world: Servers) -> None:
    async with world.client() as client, client.producer() as producer:
        results = await producer.send_many("T", map(str, range(BATCH_MESSAGES + 50)), order_key="k")
    assert {result.queue for result in results} == {results[0].queue}
    assert [result.queue_offset for result in results] == list(range(BATCH_MESSAGES + 50))


async def test_oneway_arrives(world: Servers) -> None:
    async with world.client() as client, client.producer() as producer:
        await producer.send("T", b"first", queue=lambda queues: queues[0])
        await producer.send_oneway("T", b"second", queue=lambda queues: queues[0])
        await producer.send("T", b"third", queue=lambda queues: queues[0])  # Java's may store it before the second
        bodies: list[bytes] = []
        async with client.pull_consumer("g", begin=ConsumeFromWhere.FIRST_OFFSET) as consumer:
            await consumer.assign(await consumer.queues("T"))
            while len(bodies) < 3:
                bodies += [msg.body for msg in await consumer.poll()]
    assert sorted(bodies) == [b"first", b"second", b"third"]


@pytest.mark.fresh_broker
async def test_a_restart_of_the_broker_is_bridged(world: Servers) -> None:
    async with world.client() as client, client.producer() as producer:
        await producer.send("T", b"0")
        address = world.brokers["broker-a"].address
        await world.stop_broker()
        sending = asyncio.gather(*(producer.send("T", str(number), timeout=PATIENCE_S) for number in range(1, 20)))
        await asyncio.sleep(0)
        await world.start_broker("broker-a", int(address.rpartition(":")[2]))
        await sending
    assert sorted(int(message.body) for message in await everything(world, "T")) == list(range(20))


@pytest.mark.fresh_broker
async def test_a_broker_that_moved_is_found(world: Servers) -> None:
    async with world.client() as client, client.producer() as producer:
        await producer.send("T", b"0")
        await world.stop_broker()
        await world.start_broker()
        await producer.send("T", b"1", timeout=PATIENCE_S)
    assert len(await everything(world, "T")) == 2


async def test_killing_one_of_two_brokers_fails_no_send_without_key(world: Servers) -> None:
    await world.start_broker("broker-b")
    await world.create_topic("T")
    async with world.client() as client, client.producer() as producer:
        before = [await producer.send("T", b"x") for _ in range(8)]
        assert {result.queue.broker_name for result in before} == {"broker-a", "broker-b"}
        await world.stop_broker("broker-b")
        after = await asyncio.gather(*(producer.send("T", b"x") for _ in range(40)))
    assert {result.queue.broker_name for result in after} == {"broker-a"}


BY_ITSELF = Packing(compression=None, max_message_bytes=8 << 20)


async def test_what_the_broker_refuses_is_an_error_with_its_words(world: Servers) -> None:
    async with world.client() as client, client.producer(packing=BY_ITSELF) as producer:
        with pytest.raises(Refused, match="MESSAGE_ILLEGAL") as refusal:
            await producer.send("T", b"x" * (5 << 20))  # brokers take 4 MiB
    assert refusal.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert refusal.value.address == world.brokers["broker-a"].address


@pytest.mark.parametrize("key", [None, "k"], ids=["", "order key"])
async def test_a_topic_with_fewer_queues_by_now_fails_no_send(world: Servers, key: str | None) -> None:
    """The known route is up to 30 s old."""
    await world.create_topic("T", 8)
    async with world.client() as client, client.producer() as producer:
        await producer.send("T", b"0", order_key=key)
        await world.create_topic("T", 1)
        sent = [await producer.send("T", b"1", order_key=key) for _ in range(8)]
        assert {one.queue.queue_id for one in sent} == {0}
        gone = MessageQueue(broker_name="broker-a", queue_id=5, topic="T")
        with pytest.raises(Refused, match=r"request queueId\[5\] is illegal"):
            await producer.send("T", b"2", queue=lambda queues: gone)


async def test_a_name_server_without_brokers_is_waited_for_and_named(empty_world: Servers) -> None:
    """It was started just now: to say that the topic does not exist would send people to make it."""
    await empty_world.start_name_server()
    async with empty_world.client() as client, client.producer() as producer:
        with pytest.raises(NoBroker, match="knows no topic: no broker is registered there now"):
            await producer.send("T", b"0", timeout=0.5)


async def test_a_topic_that_nobody_may_make_is_not_found(world_with: NewWorld) -> None:
    world = await world_with(auto_create_topic_enable=False)
    async with world.client() as client, client.producer() as producer:
        with pytest.raises(TopicNotFound):
            await producer.send("T", b"x")


# --- on virtual time -------------------------------------------------------------------------------------------------


def refusing(code: int, times: int, broker: FakeBroker) -> None:
    """The next sends are answered so, then as usual."""
    left = [times]

    def answer(request: Request) -> Answer:
        if left[0] == 0:
            return broker._on_310(request)
        left[0] -= 1
        return Reply(code, "not now")

    broker.script[SEND] = answer


async def finish(cluster: Cluster, sending: asyncio.Task[SendResult], seconds: float = 10) -> SendResult:
    await cluster.clock.settle(200)  # several attempts, with connections to make, before any time passes
    if not sending.done():
        await cluster.clock.advance(seconds)
    return sending.result()


async def test_a_refusal_that_may_pass_is_tried_on_the_other_broker(cluster: Cluster) -> None:
    for name in "ab":
        refusing(ResponseCode.SYSTEM_ERROR, 1, cluster.broker(name, T=2))
    client = await cluster.client()
    async with client.producer() as producer:
        await finish(cluster, asyncio.create_task(producer.send("T", b"x")))
    tried = [(name, request) for name in "ab" for request in cluster.brokers[name].requests(SEND)]
    assert [name for name, _ in tried].count("a") in (1, 2)
    assert len(tried) == 3
    unique = {decode_properties(request.fields["i"])["UNIQ_KEY"] for _, request in tried}
    assert len(unique) == 1


async def test_a_oneway_send_is_tried_once_and_what_became_of_it_is_not_told(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    refusing(ResponseCode.SYSTEM_ERROR, 9, broker)
    client = await cluster.client()
    async with client.producer() as producer:
        await producer.send_oneway("T", b"x")
        await cluster.clock.advance(10)
    assert len(broker.requests(SEND)) == 1


async def test_a_refusal_that_cannot_pass_is_raised_at_once(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    refusing(ResponseCode.MESSAGE_ILLEGAL, 9, broker)
    client = await cluster.client()
    async with client.producer() as producer:
        with pytest.raises(Refused) as refusal:
            await producer.send("T", b"x")
    assert refusal.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert len(broker.requests(SEND)) == 1


async def test_retries_end_and_the_error_says_how_often(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    refusing(ResponseCode.NO_PERMISSION, 9, broker)
    client = await cluster.client()
    async with client.producer(policy=SendPolicy(retries=1)) as producer:
        with pytest.raises(Refused, match="failed 2 times") as refusal:
            await producer.send("T", b"x")
    assert refusal.value.code == ResponseCode.NO_PERMISSION


async def test_busy_is_answered_by_holding_back(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    refusing(ResponseCode.SYSTEM_BUSY, 2, broker)
    client = await cluster.client()
    async with client.producer() as producer:
        sending = asyncio.create_task(producer.send("T", b"x"))
        await cluster.clock.settle()
        assert len(broker.requests(SEND)) == 1
        await finish(cluster, sending, 1)
    assert len(broker.requests(SEND)) == 3


async def test_a_send_says_how_long_its_attempt_waits_for_the_answer(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    client = await cluster.client()
    async with client.producer(policy=SendPolicy(timeout_s=4.5)) as producer:
        await finish(cluster, asyncio.create_task(producer.send("T", b"x")))
        await producer.send_oneway("T", b"x")  # nobody waits
        await cluster.clock.settle()
    assert [one.fields.get("timeoutMs") for one in broker.requests(SEND)] == ["4500", None]


def never(request: Request) -> Answer:
    return None


async def test_a_hung_broker_leaves_time_for_the_other(cluster: Cluster) -> None:
    hung, well = cluster.broker("a", T=1), cluster.broker("b", T=1)
    hung.script[SEND] = never
    client = await cluster.client()
    async with client.producer() as producer:
        for _ in range(6):
            await finish(cluster, asyncio.create_task(producer.send("T", b"x")), 3)
        assert len(well.requests(SEND)) == 6
        assert len(hung.requests(SEND)) < 3  # avoided after the first failure


async def test_a_hung_broker_alone_is_a_time_out(cluster: Cluster) -> None:
    cluster.broker("a", T=1).script[SEND] = never
    client = await cluster.client()
    async with client.producer() as producer:
        sending = asyncio.create_task(producer.send("T", b"x"))
        await cluster.clock.advance(3.4)
        assert not sending.done()
        await cluster.clock.advance(0.2)
        with pytest.raises(TimedOut):
            await sending


async def test_what_a_sync_master_says_after_three_seconds_is_heard(cluster: Cluster) -> None:
    """Its slaves are late: FLUSH_SLAVE_TIMEOUT comes after slaveTimeout, and the message is stored."""
    broker = cluster.broker("a", T=1)
    slaves = asyncio.Event()

    async def late(request: Request) -> Reply:
        await slaves.wait()
        return Reply(ResponseCode.FLUSH_SLAVE_TIMEOUT, fields={"msgId": "0", "queueId": "0", "queueOffset": "0"})

    broker.script[SEND] = late
    client = await cluster.client()
    async with client.producer() as producer:
        sending = asyncio.create_task(producer.send("T", b"x"))
        await cluster.clock.advance(3.1)
        slaves.set()
        assert (await finish(cluster, sending)).status is SendStatus.FLUSH_SLAVE_TIMEOUT


async def test_no_broker_within_the_time_is_an_error_of_its_own(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    cluster.network.unlisten(broker.address)
    client = await cluster.client()
    async with client.producer() as producer:
        sending = asyncio.create_task(producer.send("T", b"x"))
        await cluster.clock.advance(4)
        with pytest.raises(NoBroker, match="can be reached"):
            await sending


async def test_statuses_other_than_ok_are_results_unless_asked_otherwise(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    fields = {"msgId": "AT0", "queueId": "0", "queueOffset": "0"}
    broker.script[SEND] = lambda request: Reply(ResponseCode.SLAVE_NOT_AVAILABLE, fields=fields)
    client = await cluster.client()
    async with client.producer() as producer:
        assert (await producer.send("T", b"x")).status is SendStatus.SLAVE_NOT_AVAILABLE
    async with client.producer(policy=SendPolicy(retry_not_ok=True)) as strict:
        with pytest.raises(Refused) as refusal:
            await strict.send("T", b"x")
    assert refusal.value.code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert len(broker.requests(SEND)) == 4


async def test_the_wait_for_earlier_sends_of_an_order_key_counts_to_the_timeout(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    answers: list[asyncio.Future[Reply]] = []

    async def late(request: Request) -> Reply:
        answers.append(asyncio.get_running_loop().create_future())
        return await answers[-1]

    broker.script[SEND] = late
    client = await cluster.client()
    async with client.producer(policy=SendPolicy(timeout_s=60)) as producer:
        first = asyncio.create_task(producer.send("T", "0", order_key="k"))
        await cluster.clock.settle()
        second = asyncio.create_task(producer.send("T", "1", order_key="k", timeout=5))
        third = asyncio.create_task(producer.send("T", "2", order_key="k", timeout=20))
        await cluster.clock.advance(6)
        with pytest.raises(TimedOut, match=r"earlier sends of order key 'k' to 'T' took longer than 5 s") as fault:
            await second
        assert not fault.value.may_be_stored
        answers[0].set_result(Reply(fields={"msgId": "7F", "queueId": "0", "queueOffset": "0"}))
        await first
        await cluster.clock.advance(13.5)  # the third has its turn, and half a second is left to it
        assert not third.done()
        await cluster.clock.advance(1)
        with pytest.raises(TimedOut):
            await third
        assert len(answers) == 2


async def test_one_order_key_leaves_one_after_another_under_busy_and_cuts(cluster: Cluster) -> None:
    """Retries are never overtaken by a later send of the key; other keys are not slowed."""
    broker = cluster.broker("a", T=4)
    count = [0]

    def answer(request: Request) -> Answer:
        body = request.body.decode()
        count[0] += 1
        if body.startswith("slow") and count[0] % 3:
            if count[0] % 2:
                broker.cut()
                return None
            return Reply(ResponseCode.SYSTEM_BUSY, "busy")
        return broker._on_310(request)

    broker.script[SEND] = answer
    client = await cluster.client()
    policy = SendPolicy(retries=20, timeout_s=600)
    async with client.producer(policy=policy) as producer:
        slow = [asyncio.create_task(producer.send("T", f"slow{n}", order_key="s")) for n in range(20)]
        other = asyncio.create_task(producer.send("T", "other", order_key="o"))
        await cluster.clock.advance(0.05)
        assert other.done()
        assert not slow[-1].done()
        await cluster.clock.advance(600)
        queues = {(await task).queue for task in slow}
    assert len(queues) == 1
    stored = broker.queues["T", queues.pop().queue_id]
    order = [message.body.decode() for message in stored if message.body.startswith(b"slow")]
    assert order == [f"slow{n}" for n in range(20)]


async def test_on_an_order_topic_a_key_stays_on_its_queue_though_its_broker_is_away(cluster: Cluster) -> None:
    cluster.broker("a", T=1)
    cluster.order_topics["T"] = "a:1;gone:1"
    client = await cluster.client()
    async with client.producer() as producer:
        assert (await producer.send("T", b"x", order_key="b")).queue.broker_name == "a"
        sending = asyncio.create_task(producer.send("T", b"x", order_key="a"))
        await cluster.clock.advance(4)
        with pytest.raises(NoBroker, match="gone"):
            await sending


async def test_a_batch_that_is_too_large_for_the_broker_is_halved(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)
    sizes: list[int] = []

    def answer(request: Request) -> Answer:
        sizes.append(len(decode_batch(request.body)))
        if sizes[-1] > 3:
            return Reply(ResponseCode.MESSAGE_ILLEGAL, "too large")
        return Reply(fields={"msgId": "A,B,C", "queueId": "0", "queueOffset": "0"})

    broker.script[RequestCode.SEND_BATCH_MESSAGE] = answer
    client = await cluster.client()
    async with client.producer() as producer:
        assert len(await producer.send_many("T", list("abcdefghij"))) == 10
    assert sum(size for size in sizes if size <= 3) == 10


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"value": b""}, "empty body"),
        ({"value": b"x" * 101}, "has 101 bytes, at most 100"),
        ({"value": object()}, "cannot be a message body"),
        ({"topic": "bad topic"}, "may hold only"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "the broker's own"),
        ({"keys": ["a b"]}, "key 'a b'"),
        ({"props": {"TAGS": "x"}}, "RocketMQ's own"),
        ({"props": {"a": "b\x01c"}}, "0x01"),
        ({"delay": 1, "deliver_at_ms": 5}, "2 ways"),
        ({"order_key": ""}, "order_key is empty"),
        ({"order_key": "a", "queue": lambda queues: queues[0]}, "chooses the queue"),
    ],
)
async def test_a_bad_message_is_refused_before_it_is_sent(
    cluster: Cluster, arguments: dict[str, object], complaint: str
) -> None:
    broker = cluster.broker("a", T=1)
    client = await cluster.client()
    async with client.producer(packing=Packing(max_message_bytes=100)) as producer:
        given: dict[str, object] = {"topic": "T", "value": b"x"} | arguments
        with pytest.raises(BadMessage, match=complaint):
            await producer.send(**given)  # type: ignore[arg-type]
    assert broker.requests(SEND) == []


@pytest.mark.parametrize("way", ["send", "send_oneway", "send_many"])
async def test_a_message_larger_than_a_frame_is_refused_and_the_connection_stays(cluster: Cluster, way: str) -> None:
    broker = cluster.broker("a", T=1)
    client = await cluster.client()
    async with client.producer(packing=Packing(max_message_bytes=20_000_000, compression=None)) as producer:
        await producer.send("T", b"before")
        large = bytes(17_000_000)
        with pytest.raises(BadMessage, match=r"it is a frame of 17000[0-9]{3} bytes .* 16777216") as refusal:
            await getattr(producer, way)("T", [large] if way == "send_many" else large)
        assert "com.rocketmq.remoting.frameMaxLength" in refusal.value.hint
        assert refusal.value.address == broker.address
        await producer.send("T", b"behind")
    assert [request.body for request in broker.requests(SEND)] == [b"before", b"behind"]


async def test_stop_waits_for_sends_in_flight_and_refuses_new_ones(cluster: Cluster) -> None:
    broker = cluster.broker("a", T=1)

    async def slowly(request: Request) -> Reply:
        await cluster.clock.sleep(1)
        return broker._on_310(request)

    broker.script[SEND] = slowly
    client = await cluster.client()
    producer = client.producer()
    await producer.start()
    sending = asyncio.create_task(producer.send("T", b"x"))
    await cluster.clock.settle()
    stopping = asyncio.create_task(producer.stop())
    await cluster.clock.settle()
    assert not stopping.done()
    with pytest.raises(Closed):
        await producer.send("T", b"y")
    await cluster.clock.advance(1)
    await stopping
    assert (await sending).queue_offset == 0


async def test_the_queue_may_be_chosen_by_a_function(cluster: Cluster) -> None:
    cluster.broker("a", T=4)
    client = await cluster.client()

    def last(queues: Sequence[MessageQueue]) -> MessageQueue:
        return queues[-1]

    async with client.producer() as producer:
        assert {(await producer.send("T", b"x", queue=last)).queue.queue_id for _ in range(3)} == {3}
        spread = [(await producer.send("T", b"x")).queue.queue_id for _ in range(4)]
    assert sorted(spread) == [0, 1, 2, 3]


async def test_a_send_that_may_be_stored_is_repeated_there_and_nowhere_else(cluster: Cluster) -> None:
    brokers = [cluster.broker("a", T=2), cluster.broker("b", T=2)]
    asked: list[str] = []

    def cut_once(request: Request) -> Answer:
        asked.append(request.command.fields["n"])
        if len(asked) == 1:
            brokers[0].cut()
            brokers[1].cut()
            return None
        return Reply(fields={"msgId": "AT0", "queueId": request.command.fields["e"], "queueOffset": "0"})

    for broker in brokers:
        broker.script[SEND] = cut_once
    client = await cluster.client()
    async with client.producer(policy=SendPolicy(once=True)) as producer:
        sending = asyncio.ensure_future(producer.send("T", b"x"))
        await cluster.clock.advance(2)
        await sending
    assert len(asked) == 2
    assert asked[0] == asked[1]
    names = [decode_properties(each.fields["i"])["__SEND_ID"] for broker in brokers for each in broker.requests(SEND)]
    assert len(set(names)) == 1


@pytest.mark.own_broker("Apache's broker has no duplicate window, and answers are lost inside the broker here")
async def test_with_the_duplicate_window_a_lost_answer_costs_no_second_message(world_with: NewWorld) -> None:
    world = await world_with(duplicate_window_enable=True)
    assert isinstance(world, World)
    running = world.brokers["broker-a"]
    lost = 0

    def lose_answers(serve: Handler) -> Handler:
        def served(request: Request) -> Answer:
            nonlocal lost
            answer = serve(request)
            if request.command.code in (SEND, RequestCode.SEND_BATCH_MESSAGE) and lost % 2 == 0:
                request.peer.close("the answer gets lost")
            lost += request.command.code in (SEND, RequestCode.SEND_BATCH_MESSAGE)
            return answer

        return served

    for server in running.broker.servers:
        server.service._dispatch = lose_answers(server.service._dispatch)
    async with world.client() as client, client.producer(policy=SendPolicy(once=True, timeout_s=20)) as producer:
        for number in range(5):
            await producer.send("T", str(number))
        await producer.send_many("T", [f"m{number}" for number in range(5)])
    assert lost >= 10
    bodies = sorted(message.body.decode() for message in await everything(world, "T"))
    assert bodies == ["0", "1", "2", "3", "4", "m0", "m1", "m2", "m3", "m4"]
