"""The SDK over gRPC (`endpoints=`): producers, simple and push consumers; at our endpoint and at Apache's proxy."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import pyromq
from pyromq.client.client import Client
from pyromq.client.errors import Error, NotSupported, Refused, TopicNotFound
from pyromq.client.pop.popped import Popped
from pyromq.client.pop.simple_consumer import SimpleConsumer
from pyromq.client.received import Received
from pyromq.client.subscription import tag
from pyromq.protocol.requests import RequestCode
from tests.client.world import ON_JAVA, Servers, World
from tests.interop.peers import java_proxy
from tests.wire import decode_messages

LIMIT_S = 90
SOON_S = 50  # less than the minute for which push consumers have a message


@pytest.fixture
async def endpoint(world: Servers, tmp_path: Path) -> AsyncIterator[str]:
    """Of our broker, whose main port speaks gRPC too; of Apache's proxy over its broker."""
    if not ON_JAVA:
        yield world.brokers["broker-a"].address
        return
    (names,) = world.name_servers
    proxy = await asyncio.to_thread(java_proxy.Proxy, tmp_path / "proxy", names)
    yield proxy.endpoint
    await asyncio.to_thread(proxy.kill)


@asynccontextmanager
async def connected(endpoint: str) -> AsyncIterator[Client]:
    async with pyromq.connect(endpoints=endpoint) as client:
        yield client


async def gathered(consumer: SimpleConsumer, count: int) -> list[Popped]:
    found: list[Popped] = []
    async with asyncio.timeout(LIMIT_S):
        while len(found) < count:
            found += await consumer.receive(max=count - len(found), wait=15)
    return found


async def test_messages_go_and_come(world: Servers, endpoint: str) -> None:
    await world.create_topic("T", attributes="+message.type=NORMAL")
    async with (
        connected(endpoint) as client,
        client.producer() as producer,
        client.simple_consumer("T", group="g", invisible_s=10) as consumer,
    ):
        assert await consumer.receive(wait=0) == []  # the group begins now
        sent = await producer.send("T", {"id": 1}, tag="a", keys=["k1", "k2"], props={"region": "eu"})
        await producer.send("T", b"two")
        found = {each.id: each for each in await gathered(consumer, 2)}
        one = found[sent.message_id]
        assert one.message_id == sent.message_id
        assert (one.decode(dict), one.tag, one.keys, one.properties["region"]) == (
            {"id": 1},
            "a",
            ["k1", "k2"],
            "eu",
        )
        assert {each.attempt for each in found.values()} == {1}
        await consumer.ack(found.values())
        assert await consumer.receive(wait=0) == []


async def test_later_dead_letters_and_what_is_given_back(world: Servers, endpoint: str) -> None:
    await world.create_topic("T", attributes="+message.type=NORMAL")
    async with connected(endpoint) as client, client.producer() as producer:
        async with client.simple_consumer("T", group="g", invisible_s=600) as consumer:
            assert await consumer.receive(wait=0) == []
            for body in (b"later", b"dead", b"open"):
                await producer.send("T", body)
            found = {each.body: each for each in await gathered(consumer, 3)}
            await found[b"dead"].dead_letter("no")
            await found[b"later"].later(1)
            (again,) = await gathered(consumer, 1)
            assert (again.body, again.attempt) == (b"later", 2)
            await again.ack()
        async with client.simple_consumer("T", group="g", invisible_s=600) as other:
            (given_back,) = await gathered(other, 1)
            assert given_back.body == b"open"
            await given_back.ack()


async def test_a_push_consumer_handles_retries_and_filters(world: Servers, endpoint: str) -> None:
    await world.create_topic("T", attributes="+message.type=NORMAL")
    seen: list[tuple[bytes, int]] = []
    done = asyncio.Event()

    async def handle(msg: Received) -> None:
        seen.append((msg.body, msg.attempt))
        if msg.attempt == 1:
            raise pyromq.RetryLater(1)
        done.set()

    async with (
        connected(endpoint) as client,
        client.producer() as producer,
        client.push_consumer("T", handle, group="g", filter=tag("a"), invisible_s=10, hold_s=5),
    ):
        await producer.send("T", b"no", tag="b")
        await producer.send("T", b"yes", tag="a")
        async with asyncio.timeout(LIMIT_S):
            await done.wait()
    assert seen == [(b"yes", 1), (b"yes", 2)]


async def test_order_keys_and_delays(world: Servers, endpoint: str) -> None:
    await world.create_topic("F", attributes="+message.type=FIFO")
    await world.create_topic("D", attributes="+message.type=DELAY")
    await world.create_group("fifo", consumeMessageOrderly=True)
    async with connected(endpoint) as client, client.producer() as producer:
        async with client.simple_consumer("F", group="fifo", invisible_s=60) as consumer:
            assert await consumer.receive(wait=0) == []
            for number in range(3):
                await producer.send("F", b"%d" % number, order_key="one")
            seen: list[bytes] = []
            while len(seen) < 3:
                for msg in await gathered(consumer, 1):
                    assert msg.order_key == "one"
                    seen.append(msg.body)
                    await msg.ack()
            assert seen == [b"0", b"1", b"2"]
        async with client.simple_consumer("D", group="delays") as consumer:
            assert await consumer.receive(wait=0) == []
            sent = await producer.send("D", b"late", delay=2)
            assert sent.recall_handle
            (late,) = await gathered(consumer, 1)
            assert late.body == b"late"
            await late.ack()


async def test_transactions_and_the_question_how_one_ended(world_with: object, tmp_path: Path) -> None:
    # Apache's proxy makes itself known as a producer every 20 s, and its broker gives up after 15 questions.
    often = {"transaction_check_interval": 3000} if ON_JAVA else {"transaction_check_interval": 500}
    quick = {} if ON_JAVA else {"transaction_time_out": 1000}
    world: Servers = await world_with(**often, **quick)  # type: ignore[operator]
    await world.create_topic("X", attributes="+message.type=TRANSACTION")
    endpoint = world.brokers["broker-a"].address
    proxy = None
    if ON_JAVA:
        (names,) = world.name_servers
        proxy = await asyncio.to_thread(java_proxy.Proxy, tmp_path / "proxy", names)
        endpoint = proxy.endpoint
    try:
        async with connected(endpoint) as client, client.producer("shop") as producer:
            asked: list[bytes] = []

            @producer.transaction_check("X")
            async def check(msg: Received) -> bool:
                asked.append(msg.body)
                return True

            async with client.simple_consumer("X", group="g") as consumer:
                assert await consumer.receive(wait=0) == []
                async with producer.transaction("X", b"paid"):
                    pass
                with pytest.raises(ZeroDivisionError):
                    async with producer.transaction("X", b"dropped"):
                        raise ZeroDivisionError
                async with producer.transaction("X", b"asked") as half:
                    half.leave_open()
                seen: list[bytes] = []
                while not {b"asked", b"paid"} <= {*seen}:
                    found = await gathered(consumer, 1)
                    seen += [each.body for each in found]
                    await consumer.ack(found)
                assert b"dropped" not in seen
                assert b"asked" in asked
                if not ON_JAVA:  # Apache's asks about what was ended a moment ago, too, and commits it once more
                    assert (sorted(seen), asked) == ([b"asked", b"paid"], [b"asked"])
    finally:
        if proxy is not None:
            await asyncio.to_thread(proxy.kill)


async def test_what_the_protocol_lacks_is_refused_by_name(world: Servers, endpoint: str) -> None:
    async with connected(endpoint) as client, client.producer() as producer:
        with pytest.raises(NotSupported, match="pull consumers"):
            client.pull_consumer("g")
        with pytest.raises(Error, match="all"):
            client.push_consumer("T", lambda msg: None, group="g", broadcast=True)
        async with client.simple_consumer("Nowhere", group="g") as consumer:
            with pytest.raises(TopicNotFound):
                await consumer.receive(wait=0)
        with pytest.raises(Error):
            await producer.send("Nowhere", b"x")
    with pytest.raises(Error, match="two ways"):
        pyromq.connect("127.0.0.1:9876", endpoints=endpoint)


@pytest.mark.own_broker("texts are ours")
async def test_what_is_refused_is_told_with_what_to_do(world: Servers, endpoint: str) -> None:
    await world.create_topic("T", attributes="+message.type=NORMAL")
    await world.create_topic("D", attributes="+message.type=DELAY")
    async with connected(endpoint) as client, client.producer() as producer:
        with pytest.raises(TopicNotFound, match="Create it: pyromq topic create Nowhere --type normal") as unknown:
            await producer.send("Nowhere", b"x")
        assert "\n" not in str(unknown.value)
        with pytest.raises(Refused, match=r"expected type is NORMAL.*pyromq topic create NAME --type") as wrong:
            await producer.send("T", b"x", delay=5)
        assert "org.apache" not in str(wrong.value)
        assert wrong.value.remark.startswith("org.apache")
        with pytest.raises(Refused, match=r"max is 86400000\. The limit is in milliseconds: maxDelayTimeMills"):
            await producer.send("D", b"x", delay=2 * 86_400)
        sent = msgspec.structs.replace(await producer.send("D", b"x", delay=600), recall_handle="nonsense")
        with pytest.raises(Refused, match="recall handle is invalid") as nonsense:
            await producer.recall(sent)
        assert "org.apache" not in str(nonsense.value)


@pytest.mark.own_broker("texts are ours")
async def test_an_address_that_is_no_endpoint_is_told_as_such(world: Servers) -> None:
    (names,) = world.name_servers
    quick = pyromq.SendPolicy(timeout_s=2)
    async with connected(names) as client, client.producer(policy=quick) as producer:
        with pytest.raises(Error, match="not a name server") as fault:
            await producer.send("T", b"x")
    assert not fault.value.may_be_stored
    broker = world.brokers["broker-a"].address
    async with pyromq.connect(broker) as client, client.producer() as producer:
        with pytest.raises(Refused, match=f"{broker} is no name server: a broker, or its gRPC port"):
            await producer.send("T", b"x")


async def test_replies_and_traces_are_refused_before_anything_is_sent(world: Servers, endpoint: str) -> None:
    await world.create_topic("T", attributes="+message.type=NORMAL")
    async with connected(endpoint) as client, client.producer() as producer:
        with pytest.raises(NotSupported, match="replies do not come over gRPC"):
            await producer.request("T", "x")
    with pytest.raises(NotSupported, match="traces are not written over gRPC"):
        pyromq.connect(endpoints=endpoint, trace=True)


@pytest.mark.own_broker("Apache's proxy refuses sends (40014) while its broker is away")
async def test_consumers_and_producers_go_on_after_a_restart(world: Servers, endpoint: str) -> None:
    await world.create_topic("T", attributes="+message.type=NORMAL")
    seen: list[bytes] = []
    came = asyncio.Event()

    async def handle(msg: Received) -> None:
        seen.append(msg.body)
        came.set()

    async with (
        connected(endpoint) as client,
        client.producer(policy=pyromq.SendPolicy(timeout_s=30)) as producer,
        client.push_consumer("T", handle, group="g", hold_s=5),
    ):
        for body in (b"before", b"after"):
            came.clear()
            await producer.send("T", body)
            async with asyncio.timeout(LIMIT_S):
                await came.wait()
            if body == b"before":
                await world.restart_broker()
    assert seen == [b"before", b"after"]


async def test_the_blocking_client_speaks_it_too(world: Servers, endpoint: str) -> None:
    await world.create_topic("T", attributes="+message.type=NORMAL")

    def job() -> list[bytes]:
        with (
            pyromq.sync.connect(endpoints=endpoint) as client,
            client.producer() as producer,
            client.simple_consumer("T", group="g", invisible_s=10) as consumer,
        ):
            consumer.receive(wait=0)
            producer.send("T", b"x")
            found = consumer.receive(wait=15)
            consumer.ack(found)
            return [each.body for each in found]

    assert await asyncio.to_thread(job) == [b"x"]


async def test_several_topics_are_asked_at_a_time(world: Servers, endpoint: str) -> None:
    for topic in ("T", "U", "V"):
        await world.create_topic(topic, attributes="+message.type=NORMAL")
    wanted = {topic: pyromq.Filter() for topic in ("T", "U", "V")}
    async with (
        connected(endpoint) as client,
        client.producer() as producer,
        client.simple_consumer(wanted, group="g", invisible_s=60) as consumer,
    ):
        assert await consumer.receive(wait=0) == []
        for topic in ("U", "V", "T"):
            waiting = asyncio.create_task(consumer.receive(wait=15))
            await producer.send(topic, topic)
            async with asyncio.timeout(LIMIT_S):
                found = await waiting or await gathered(consumer, 1)
            assert [each.topic for each in found] == [topic]
            await consumer.ack(found)


async def test_a_push_consumer_starts_at_once_and_receives_what_is_sent_then(world: Servers, endpoint: str) -> None:
    for topic in ("T", "Other"):
        await world.create_topic(topic)
    came = asyncio.Event()

    async def handle(_: Received) -> None:
        came.set()

    async with connected(endpoint) as client, client.producer() as producer:
        await producer.send("Other", b"-")  # the producer's stream is there, and nothing holds up its next send
        async with client.push_consumer("T", handle, group="g") as consumer, asyncio.timeout(LIMIT_S):
            assert consumer._pulls.calls._begun  # type: ignore[union-attr]  # a receive waits at the server
            await producer.send("T", b"x")
            await came.wait()


@pytest.mark.own_broker("Apache's proxy waits for a while of its own")
async def test_what_a_killed_push_consumer_had_comes_again_as_soon_as_its_server_misses_it(world_with: object) -> None:
    world: Servers = await world_with(grpc_client_grace_mills=100)  # type: ignore[operator]
    await world.create_topic("T")
    endpoint = world.brokers["broker-a"].address
    seen: list[int] = []
    came = asyncio.Event()

    async def handle(msg: Received) -> None:
        seen.append(msg.attempt)
        came.set()

    async with connected(endpoint) as client, client.producer() as producer, asyncio.timeout(SOON_S):
        killed = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLDS_A_MESSAGE, endpoint, stdout=asyncio.subprocess.PIPE
        )
        assert killed.stdout is not None
        assert await killed.stdout.readline() == b"started\n"
        await producer.send("T", b"x")
        assert await killed.stdout.readline() == b"handled\n"
        killed.kill()
        await killed.wait()
        async with client.push_consumer("T", handle, group="g"):
            await came.wait()
    assert seen == [2]  # and not after the minute for which it was hidden


HOLDS_A_MESSAGE = """
import asyncio, sys, pyromq

async def handle(msg):
    print("handled", flush=True)
    await asyncio.sleep(3600)

async def main():
    async with pyromq.connect(endpoints=sys.argv[1]) as client:
        async with client.push_consumer("T", handle, group="g"):
            print("started", flush=True)
            await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.own_broker("its figures of a member are asked for by remoting")
async def test_operators_see_what_a_push_consumer_does_and_try_messages_on_it(world: Servers, endpoint: str) -> None:
    await world.create_topic("T")
    bodies: list[bytes] = []
    came, release = asyncio.Event(), asyncio.Event()

    async def waits_for_release(msg: Received) -> None:
        bodies.append(msg.body)
        came.set()
        if len(bodies) == 1:
            await release.wait()
        elif len(bodies) == 3:
            raise ValueError("not this one")

    async with connected(endpoint) as client, client.producer() as producer:
        consumer = client.push_consumer("T", waits_for_release, group="g")
        async with consumer, asyncio.timeout(LIMIT_S):
            sent = await producer.send("T", b"x")
            await came.wait()
            about = {"consumerGroup": "g", "clientId": consumer._session.client_id}
            code = RequestCode.GET_CONSUMER_RUNNING_INFO
            info = await world.ask(endpoint, code, b"", **about, jstackEnable="true")
            assert info.code == 0, info.remark
            assert "in waits_for_release" in json.loads(bytes(info.body))["jstack"]
            offset_id = await stored_id(world, endpoint, sent.message_id)
            trial = {**about, "msgId": offset_id, "topic": "T", "brokerName": "broker-a"}
            outcomes = []
            for _ in range(2):
                answer = await world.ask(endpoint, RequestCode.CONSUME_MESSAGE_DIRECTLY, b"", **trial)
                assert answer.code == 0, answer.remark
                outcomes.append(json.loads(bytes(answer.body))["consumeResult"])
            assert outcomes == ["CR_SUCCESS", "CR_LATER"]
            release.set()
    assert bodies == [b"x"] * 3


async def stored_id(world: Servers, endpoint: str, unique_id: str) -> str:
    """Return the id of a message by its place in the log."""
    fields = {"topic": "T", "key": unique_id, "maxNum": "1", "beginTimestamp": "0", "endTimestamp": str(1 << 62)}
    while True:
        answer = await world.ask(endpoint, RequestCode.QUERY_MESSAGE, b"", **fields, _UNIQUE_KEY_QUERY="true")
        if answer.code == 0:
            (message,) = decode_messages(answer.body)
            return message.offset_id


@pytest.mark.skipif(ON_JAVA, reason="reaches into our broker")
async def test_a_server_that_has_forgotten_the_consumer_is_told_again(world: World) -> None:
    await world.create_topic("T", attributes="+message.type=NORMAL")
    running = world.brokers["broker-a"]
    async with (
        connected(running.address) as client,
        client.producer() as producer,
        client.simple_consumer("T", group="g") as consumer,
    ):
        assert await consumer.receive(wait=0) == []
        clients = running.broker.grpc.services.clients
        for each in clients:
            await clients.terminate(each)
        await producer.send("T", b"for a stranger")
        (found,) = await gathered(consumer, 1)
        await found.ack()
