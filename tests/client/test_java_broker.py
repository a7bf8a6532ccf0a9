"""The SDK against Apache's own name server and broker 5.5.0, and side by side with Java's clients."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

import pytest

from pyromq.client.client import Client, connect
from pyromq.client.core.retry import Reject, RetryLater
from pyromq.client.errors import NoNameServer, TimedOut, TopicNotFound
from pyromq.client.produce.batches import Batching
from pyromq.client.produce.outgoing import Packing
from pyromq.client.received import Received
from pyromq.client.subscription import tag
from pyromq.model.group import ConsumeFromWhere
from pyromq.model.message_trace import MessageTrace
from pyromq.protocol.compression import Compression
from pyromq.transport.tls import ClientTls, Verify
from tests.interop.peers import cache, java
from tests.support import require

pytestmark = pytest.mark.interop
FIRST = ConsumeFromWhere.FIRST_OFFSET
VERSION = "5.5.0"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a Java name server that knows one Java broker."""
    try:
        java.runtime()
        java.classes(VERSION)
    except cache.PeerMissing as reason:
        require(False, str(reason))
    names = java.NameServer(VERSION, tmp_path_factory.mktemp("names"))
    broker = java.Broker(
        VERSION,
        tmp_path_factory.mktemp("broker"),
        [names.address],
        {
            "timerWheelEnable": "true",
            "recallMessageEnable": "true",
            "transactionCheckInterval": "1000",
            "transactionTimeOut": "100",
        },
    )
    yield names.address
    broker.kill()
    names.kill()


@pytest.fixture
async def client(address: str) -> AsyncIterator[Client]:
    async with connect(address) as made:
        await until_registered(made)
        yield made


async def until_registered(client: Client) -> None:
    for _ in itertools.count():
        if "TBW102" in await client.session.name_servers.topics():
            return
        await asyncio.sleep(0.05)


async def until(condition: Callable[[], bool]) -> None:
    """Real programs take real time: look now and then, and leave the processor to them."""
    for _ in itertools.count():
        if condition():
            return
        await asyncio.sleep(0.02)


async def test_everything_sent_arrives(client: Client) -> None:
    got: dict[bytes, Received] = {}

    async def handle(msg: Received) -> None:
        got[msg.body] = msg

    async with client.producer(packing=Packing(compression=Compression.ZSTD)) as producer:
        sent = await producer.send("Plain", b"one", tag="a", keys=["k"], props={"region": "eu"})
        await producer.send("Plain", b"z" * 50_000, tag="a")
        await producer.send("Plain", b"not wanted", tag="b")
        await producer.send_oneway("Plain", b"one way", tag="a")
        many = await producer.send_many("Plain", [f"many {number}" for number in range(200)], tag="a")
        async with client.push_consumer("Plain", handle, group="plain", filter=tag("a"), begin=FIRST):
            await until(lambda: len(got) == 203)
    one = got[b"one"]
    assert (one.id, one.message.offset_id) == (sent.message_id, sent.offset_message_id)
    assert (one.tag, one.keys, one.properties["region"], one.attempt) == ("a", ["k"], "eu", 1)
    assert [got[f"many {number}".encode()].offset for number in range(200)] == [each.queue_offset for each in many]


async def test_retries_come_again_and_rejected_ones_are_dead_letters(client: Client) -> None:
    """Request 36 with a delay level of our choice, and with -1."""
    attempts: list[tuple[bytes, int, str]] = []
    dead: list[Received] = []

    async def handle(msg: Received) -> None:
        attempts.append((msg.body, msg.attempt, msg.topic))
        if msg.body == b"bad":
            raise Reject
        if msg.attempt < 3:
            raise RetryLater(1)

    async def bury(msg: Received) -> None:
        dead.append(msg)

    async with client.producer() as producer:
        sent = [await producer.send("Failing", body) for body in (b"later", b"bad")]
        async with client.push_consumer("Failing", handle, group="failing", begin=FIRST):
            await until(lambda: len(attempts) == 4)
        async with client.push_consumer("%DLQ%failing", bury, group="undertaker", begin=FIRST):
            await until(lambda: len(dead) == 1)
    assert sorted(attempts) == [(b"bad", 1, "Failing"), *((b"later", each, "Failing") for each in (1, 2, 3))]
    assert (dead[0].body, dead[0].topic, dead[0].id) == (b"bad", "Failing", sent[1].message_id)


async def test_transactions_end_by_themselves_or_by_a_check(client: Client) -> None:
    got: list[str] = []

    async def handle(text: str) -> None:
        got.append(text)

    async with client.producer("tx") as producer:
        producer.transaction_check("Deals", lambda msg: msg.body == b"asked")
        async with producer.transaction("Deals", "good"):
            pass
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction("Deals", "bad"):
                raise ZeroDivisionError
        for text in ("asked", "refused"):
            async with producer.transaction("Deals", text) as transaction:
                transaction.leave_open()
        async with client.push_consumer("Deals", handle, group="deals", begin=FIRST):
            await until(lambda: len(got) == 2)
            await producer.send("Deals", "last")
            await until(lambda: "last" in got)
    assert sorted(got) == ["asked", "good", "last"]


async def test_a_request_gets_its_reply(client: Client) -> None:
    async with client.producer("asking") as producer:

        async def double(number: int, msg: Received) -> None:
            await producer.reply(msg, number * 2)

        await producer.send("Sums", 0)
        async with client.push_consumer("Sums", double, group="sums"):
            for _ in itertools.count():  # a new group begins at the end, once it has its queues
                try:
                    reply = await producer.request("Sums", 21, timeout=2)
                    break
                except TimedOut:
                    continue
    assert reply.decode(int) == 42


async def test_what_is_recalled_does_not_come(client: Client) -> None:
    got: list[bytes] = []

    async def handle(msg: Received) -> None:
        got.append(msg.body)

    async with client.producer() as producer:
        wrong = await producer.send("Later", b"wrong", delay=4)
        await producer.send("Later", b"right", delay=5)
        await producer.recall(wrong)
        async with client.push_consumer("Later", handle, group="later", begin=FIRST):
            await until(lambda: b"right" in got)
    assert got == [b"right"]


async def test_traces_are_kept_and_found(client: Client, address: str) -> None:
    """Apache's broker makes the trace topic with the first send and tells the name server a little later."""
    async with connect(address, trace=True) as traced, traced.producer("PG") as producer:
        sent = await producer.send("Traced", b"hello", keys=["traced-key"])
    found: list[MessageTrace] = []
    while not found:
        with suppress(TopicNotFound):
            found = await client.traces("traced-key")
        await asyncio.sleep(0.05)
    assert [one.message_id for one in found] == [sent.message_id]
    (publication,) = found[0].sent
    assert (publication.group, publication.offset_id) == ("PG", sent.offset_message_id)


async def test_order_is_kept(client: Client) -> None:
    seen: dict[str, list[int]] = {}
    failed: list[int] = []

    async def handle(text: str, msg: Received) -> None:
        if int(text) == 10 and not failed:
            failed.append(10)
            raise ValueError("once")
        seen.setdefault(msg.order_key or "", []).append(int(text))

    async with client.producer() as producer:
        await asyncio.gather(*(producer.send("Steps", str(each), order_key=f"k{each % 3}") for each in range(30)))
        async with client.push_consumer("Steps", handle, group="steps", orderly=True, begin=FIRST):
            await until(lambda: sum(map(len, seen.values())) == 30)
    assert seen == {f"k{key}": list(range(key, 30, 3)) for key in range(3)}


async def test_pull_seek_and_commit(client: Client) -> None:
    async with client.producer() as producer:
        await producer.send_many("Readings", [str(each) for each in range(40)], order_key="one")
    async with client.pull_consumer("job", begin=FIRST) as consumer:
        queues = await consumer.queues("Readings")
        await consumer.assign(queues)
        found: list[Received] = []
        while len(found) < 40:
            found += await consumer.poll(5)
        assert [int(each.body) for each in found] == list(range(40))
        await consumer.seek(found[0].queue, 38)
        assert [int(each.body) for each in await consumer.poll(5)] == [38, 39]
    async with client.pull_consumer("job") as consumer:
        await consumer.assign(queues)
        assert sum([await consumer.committed(queue) or 0 for queue in queues]) == 40


async def test_a_delayed_message_comes_later(client: Client) -> None:
    got: list[Received] = []

    async def handle(msg: Received) -> None:
        got.append(msg)

    async with client.producer() as producer:
        await producer.send("Later", b"first")
        await producer.send("Later", b"x", delay=2)
        async with client.push_consumer("Later", handle, group="later", begin=FIRST):
            await until(lambda: len(got) == 2)
    assert got[1].body == b"x"
    assert got[1].stored_ms - got[1].born_ms >= 1500


@pytest.fixture(scope="module")
def java_client(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[java.Client]:
    running = java.Client(VERSION, tmp_path_factory.mktemp("client"))
    yield running
    running.kill()


async def test_java_to_python_and_back(client: Client, address: str, java_client: java.Client) -> None:
    got: list[str] = []

    async def handle(text: str) -> None:
        got.append(text)

    async with client.producer() as producer:
        await producer.send("Both", "from python")
        await asyncio.to_thread(java_client.send, address, "Both", 5, "java")
        async with client.push_consumer("Both", handle, group="python", begin=FIRST):
            await until(lambda: len(got) == 6)
    bodies = await asyncio.to_thread(java_client.consume, address, "Both", "java", 6)
    assert sorted(bodies) == sorted(got)


async def test_java_and_python_share_the_queues_of_one_group(
    client: Client, address: str, java_client: java.Client
) -> None:
    async with client.producer() as producer:
        await producer.send("Shared", b"x")
    consuming = await asyncio.to_thread(java_client.consuming, "push", address, "Shared", "mixed")
    try:
        async with client.push_consumer("Shared", _ignore, group="mixed", begin=FIRST) as consumer:
            queues = {queue.queue_id for queue in (await client.session.route("Shared")).readable}

            def ours() -> set[int]:
                return {queue.queue_id for queue in consumer.assigned if queue.topic == "Shared"}

            await until(lambda: len(ours()) == len(queues) // 2)
            theirs: set[str] = set()
            while len(theirs) != len(queues) - len(ours()):
                theirs = await asyncio.to_thread(consuming.owned)
            assert not {f"{each}" for each in ours()} & {each.rpartition(":")[2] for each in theirs}
    finally:
        await asyncio.to_thread(consuming.stop)


async def _ignore(msg: Received) -> None:
    """Who gets what is not the question here."""


async def test_gathered_sends_and_a_batch_handler(client: Client) -> None:
    got: list[bytes] = []
    sizes: list[int] = []

    async def handle(messages: list[Received]) -> list[Received]:
        sizes.append(len(messages))
        failed = [each for each in messages if each.body == b"7" and each.attempt == 1]
        got.extend(each.body for each in messages if each not in failed)
        return failed

    async with client.producer(batching=Batching(linger_s=0.01)) as producer:
        results = await asyncio.gather(*(producer.send("Gathered", b"%d" % number) for number in range(50)))
        assert len({(each.queue, each.queue_offset) for each in results}) == 50
        async with client.push_consumer("Gathered", handle, group="batching", begin=FIRST, max_batch=16):
            await until(lambda: len(got) == 50)  # the failed one came again after 10 s
    assert sorted(got) == sorted(b"%d" % number for number in range(50))
    assert max(sizes) > 1


async def test_a_namespace_of_ones_own(client: Client, address: str) -> None:
    async with connect(address, namespace="shop") as shop, shop.producer("p") as producer:
        sent = await producer.send("Spaced", b"mine")
        assert sent.queue.topic == "shop%Spaced"
        async with shop.pull_consumer("reader", begin=FIRST) as consumer:
            await consumer.subscribe("Spaced")
            async for msg in consumer:
                assert (msg.topic, msg.body) == ("Spaced", b"mine")
                break
    with pytest.raises(TopicNotFound):
        await client.session.route("Spaced")


async def test_over_tls(client: Client, address: str) -> None:
    """Apache's servers take it beside plain connections, with a certificate that they make for themselves."""
    async with connect(address, tls=ClientTls(verify=Verify.NONE)) as secret, secret.producer() as producer:
        sent = await producer.send("Secret", b"z" * 50_000, timeout=60)
        async with secret.pull_consumer("secret", begin=FIRST) as consumer:
            await consumer.assign(await consumer.queues("Secret"))
            (found,) = await consumer.poll(timeout=60)
    assert (found.id, found.body) == (sent.message_id, b"z" * 50_000)
    async with connect(address, tls=ClientTls()) as stranger:
        with pytest.raises(NoNameServer, match="certificate"):
            await stranger.session.route("Secret")
