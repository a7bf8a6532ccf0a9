"""Every kind of message from Java's client 5.5.0 to the Python SDK and back, on our broker and on Apache's.

One table says how each side sends a kind and what the other side has to see. Then the kinds that are a conversation
(request and reply, retries and dead letters), and what operators ask of a Python consumer.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import pyromq
from pyromq import Received

from . import wire
from .conftest import is_known
from .peers import java, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

FIRST = pyromq.ConsumeFromWhere.FIRST_OFFSET
VERSION = "5.5.0"
QUEUES = 4
LARGE = "Große Körper werden gepackt. " * 1000
ODD = {
    "quoted": "\"'{}[]:,\\/",
    "lines": "a\tb\r\nc",
    "beyond": "ü \u4f60\u597d \U0001f680 \x7f",
    "blank": " two  blanks ",
    "name mit ü und : =": "x=y;z",
}
SETTINGS = {
    "timerWheelEnable": "true",
    "enablePropertyFilter": "true",
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "3000",  # Java's broker also asks about what is just being ended, if it is this old
}
JAVA_SETTINGS = {"transactionOpBatchInterval": "10"}  # until an end is noted (3 s by default) it asks and commits again


class Cluster(NamedTuple):
    """A name server and a broker, ours or Java's."""

    kind: str
    servers: str
    broker: str

    def new_topic(self) -> str:
        topic = f"Kind{next(_numbers)}"
        wire.create_topic(self.broker, topic, QUEUES)
        eventually(lambda: wire.ask(self.servers, wire.GET_ROUTE, {"topic": topic}).code == 0, f"{topic} has a route")
        return topic


_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=["ours", "java"])
def cluster(request: pytest.FixtureRequest, java_peers: None, home: Callable[[str], Path]) -> Iterator[Cluster]:
    names: ours.NameServer | java.NameServer
    broker: ours.Broker | java.Broker
    if request.param == "ours":
        names = ours.NameServer(home("kinds-names"))
        broker = ours.Broker(home("kinds-broker"), [names.address], SETTINGS)
    else:
        names = java.NameServer(VERSION, home("kinds-names"))
        broker = java.Broker(VERSION, home("kinds-broker"), [names.address], SETTINGS | JAVA_SETTINGS)
    try:
        eventually(lambda: is_known(names.address, broker.name), "the broker has registered")
        yield Cluster(request.param, names.address, broker.address)
    finally:
        broker.kill()
        names.kill()


@pytest.fixture
def java_client(java_client: Callable[..., java.Client]) -> java.Client:
    return java_client(VERSION)


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[pyromq.Client]:
    async with pyromq.connect(cluster.servers) as made:
        yield made


async def until(condition: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(eventually, condition, what, 30.0)


class Kept:
    """A handler that remembers. Handlers run on the loop, `until` looks from a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: list[Received] = []

    async def __call__(self, msg: Received) -> None:
        with self._lock:
            self._messages.append(msg)

    def messages(self) -> list[Received]:
        with self._lock:
            return list(self._messages)

    def bodies(self) -> list[str]:
        return [each.body.decode() for each in self.messages()]


def numbered(what: str, count: int = 5) -> list[str]:
    return [f"{what}{number}" for number in range(count)]


def in_order(bodies: Sequence[str]) -> bool:
    """Of each key `key:number`, and no two of one key the wrong way round."""
    keys = {body.split(":")[0] for body in bodies}
    by_key = {key: [int(body.split(":")[1]) for body in bodies if body.startswith(f"{key}:")] for key in keys}
    return len(keys) == 3 and all(numbers == sorted(numbers) for numbers in by_key.values())


SHARDED = [f"{key}:{number}" for number in range(8) for key in ("anna", "bert", "ünal")]

# --- from Java to Python ----------------------------------------------------------------------------------------------


class FromJava(NamedTuple):
    """`send` returns the bodies that have to arrive, and no others."""

    send: Callable[[java.Client, str, str], list[str]]
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    check: Callable[[list[Received]], bool] = lambda messages: True


def java_sends(how: str, bodies: list[str], **more: str) -> Callable[[java.Client, str, str], list[str]]:
    def send(client: java.Client, servers: str, topic: str) -> list[str]:
        client.send_by(how, servers, topic, bodies, **more)
        return bodies

    return send


def java_sends_tags(client: java.Client, servers: str, topic: str) -> list[str]:
    for tag in ("TagA", "BB", "Aa"):  # the last two have one hash code
        client.send_by("sync", servers, topic, numbered(tag), tag=tag)
    return numbered("Aa")


def java_sends_sharded(client: java.Client, servers: str, topic: str) -> list[str]:
    client.do("send by sharding key", servers=servers, topic=topic, bodies=SHARDED)
    return SHARDED


def java_sends_timed(**how: Any) -> Callable[[java.Client, str, str], list[str]]:
    def send(client: java.Client, servers: str, topic: str) -> list[str]:
        client.do("send timed", servers=servers, topic=topic, bodies=numbered("timed"), **how)
        return numbered("timed")

    return send


def java_transacts(client: java.Client, servers: str, topic: str) -> list[str]:
    producer = client.transacting(servers, topic, f"PG_{topic}")
    producer.send("commit 1", "rollback 2", "unknown commit 3", "unknown rollback 4", **ODD)
    eventually(lambda: len(producer.checks()) >= 2, "the broker has asked about both")
    return ["commit 1", "unknown commit 3"]


def is_later(messages: list[Received]) -> bool:
    return all(each.stored_ms - each.born_ms >= 900 for each in messages)


FROM_JAVA: dict[str, FromJava] = {
    "normal": FromJava(java_sends("sync", numbered("normal")), check=lambda all: all[0].attempt == 1),
    "one-way": FromJava(java_sends("oneway", numbered("oneway"))),
    "tagged": FromJava(java_sends_tags, {"filter": pyromq.tag("Aa")}, lambda all: {each.tag for each in all} == {"Aa"}),
    "keyed": FromJava(java_sends("sync", numbered("k")), check=lambda all: all[0].keys == [all[0].body.decode()]),
    "batch": FromJava(java_sends("batch", numbered("batch", 20))),
    "compressed": FromJava(java_sends("sync", [LARGE])),
    "ordered": FromJava(
        java_sends_sharded, {"orderly": True}, lambda all: in_order([each.body.decode() for each in all])
    ),
    "delay level": FromJava(java_sends_timed(level=1), check=is_later),
    "timed": FromJava(java_sends_timed(set="setDelayTimeMs", value=1500), check=is_later),
    "delivery time": FromJava(java_sends_timed(set="setDeliverTimeMs", value=1500), check=is_later),
    "transactional, odd properties": FromJava(
        java_transacts, check=lambda all: all[0].properties.items() >= ODD.items()
    ),
    "sql": FromJava(java_sends_tags, {"filter": pyromq.sql("TAGS = 'Aa' AND colour IN ('blau ünd grün', 'x')")}),
}


@pytest.mark.parametrize("kind", FROM_JAVA)
async def test_from_java_to_python(
    kind: str, cluster: Cluster, client: pyromq.Client, java_client: java.Client
) -> None:
    row = FROM_JAVA[kind]
    topic = cluster.new_topic()
    expected = await asyncio.to_thread(row.send, java_client, cluster.servers, topic)
    kept = Kept()
    async with client.push_consumer(topic, kept, group=f"GID_{topic}", begin=FIRST, **row.options):
        await until(lambda: len(kept.bodies()) >= len(expected), f"{expected[:3]} arrived")
    assert sorted(kept.bodies()) == sorted(expected)
    assert row.check(kept.messages())
    assert {each.topic for each in kept.messages()} == {topic}


async def test_from_java_to_python_broadcast(
    cluster: Cluster, client: pyromq.Client, java_client: java.Client, tmp_path: Path
) -> None:
    topic = cluster.new_topic()
    await asyncio.to_thread(java_client.send_by, "sync", cluster.servers, topic, numbered("all"))
    one, two = Kept(), Kept()
    options: dict[str, Any] = {"group": "everybody", "begin": FIRST, "broadcast": True, "offsets_folder": tmp_path}
    async with (
        pyromq.connect(cluster.servers, instance="two") as other,
        client.push_consumer(topic, one, **options),
        other.push_consumer(topic, two, **options),
    ):
        await until(lambda: len(one.bodies()) >= 5 and len(two.bodies()) >= 5, "both have all")
    assert sorted(one.bodies()) == sorted(two.bodies()) == numbered("all")


# --- from Python to Java ----------------------------------------------------------------------------------------------


class FromPython(NamedTuple):
    """`send` returns the bodies that have to arrive, and no others."""

    send: Callable[[pyromq.Producer, str], Awaitable[list[str]]]
    consumer: str = "push"
    tags: str = "*"
    check: Callable[[list[dict[str, Any]]], bool] = lambda messages: True


def python_sends(bodies: list[str], **more: Any) -> Callable[[pyromq.Producer, str], Awaitable[list[str]]]:
    async def send(producer: pyromq.Producer, topic: str) -> list[str]:
        for body in bodies:
            await producer.send(topic, body, **more)
        return bodies

    return send


async def python_sends_one_way(producer: pyromq.Producer, topic: str) -> list[str]:
    for body in numbered("oneway"):
        await producer.send_oneway(topic, body)
    return numbered("oneway")


async def python_sends_tags(producer: pyromq.Producer, topic: str) -> list[str]:
    for tag in ("TagA", "BB", "Aa"):
        for number, body in enumerate(numbered(tag)):
            await producer.send(topic, body, tag=tag, keys=[body], props={"total": str(number * 10), "colour": "ü"})
    return numbered("Aa")


async def python_sends_by_sql(producer: pyromq.Producer, topic: str) -> list[str]:
    return (await python_sends_tags(producer, topic))[2:]


async def python_sends_many(producer: pyromq.Producer, topic: str) -> list[str]:
    await producer.send_many(topic, numbered("many", 200), tag="TagA", props={"colour": "ü"})
    return numbered("many", 200)


async def python_sends_in_order(producer: pyromq.Producer, topic: str) -> list[str]:
    await asyncio.gather(*(producer.send(topic, body, order_key=body.split(":")[0]) for body in SHARDED))
    return SHARDED


async def python_transacts(producer: pyromq.Producer, topic: str) -> list[str]:
    asked: list[str] = []

    @producer.transaction_check(topic)
    async def check(text: str) -> bool:
        asked.append(text)
        return text == "asked"

    async with producer.transaction(topic, "committed", props=ODD):
        pass
    async with producer.transaction(topic, "rolled back") as transaction:
        transaction.rollback()
    for text in ("asked", "refused"):
        async with producer.transaction(topic, text) as transaction:
            transaction.leave_open()
    await until(lambda: set(asked) >= {"asked", "refused"}, "the broker has asked about both")
    return ["committed", "asked"]


FROM_PYTHON: dict[str, FromPython] = {
    "normal": FromPython(python_sends(numbered("normal"))),
    "one-way": FromPython(python_sends_one_way),
    "tagged": FromPython(python_sends_tags, tags="Aa", check=lambda all: {each["tag"] for each in all} == {"Aa"}),
    "keyed": FromPython(python_sends_tags, tags="Aa", check=lambda all: all[0]["key"] == all[0]["body"]),
    "batch": FromPython(
        python_sends_many, check=lambda all: {(each["tag"], each["colour"]) for each in all} == {("TagA", "ü")}
    ),
    "compressed": FromPython(python_sends([LARGE])),
    "ordered": FromPython(python_sends_in_order, "orderly", check=lambda all: in_order([each["body"] for each in all])),
    "timed": FromPython(python_sends(numbered("timed"), delay=1.5)),
    "transactional": FromPython(python_transacts),
    "sql": FromPython(python_sends_by_sql, tags="SQL92:TAGS = 'Aa' AND total > 10 AND colour = 'ü'"),
}


@pytest.mark.parametrize("kind", FROM_PYTHON)
async def test_from_python_to_java(
    kind: str, cluster: Cluster, client: pyromq.Client, java_client: java.Client
) -> None:
    row = FROM_PYTHON[kind]
    topic = cluster.new_topic()
    consume = partial(java_client.consuming, row.consumer, cluster.servers, topic, f"GID_{topic}", tags=row.tags)
    async with client.producer(f"PG_{topic}") as producer:
        expected = await row.send(producer, topic)
        consuming = await asyncio.to_thread(consume)
        try:
            await until(lambda: len(consuming.bodies()) >= len(expected), f"{expected[:3]} arrived")
        finally:
            await asyncio.to_thread(consuming.stop)
    assert sorted(consuming.bodies()) == sorted(expected)
    assert row.check(consuming.received())


@pytest.mark.parametrize("compression", list(pyromq.Compression))
async def test_every_compression_is_read_by_java(
    compression: pyromq.Compression, cluster: Cluster, client: pyromq.Client, java_client: java.Client
) -> None:
    topic = cluster.new_topic()
    async with client.producer(packing=pyromq.Packing(compression=compression)) as producer:
        await producer.send(topic, LARGE)
    assert await asyncio.to_thread(java_client.consume, cluster.servers, topic, f"GID_{topic}", 1) == [LARGE]


async def test_odd_properties_reach_java(cluster: Cluster, client: pyromq.Client, java_client: java.Client) -> None:
    topic = cluster.new_topic()
    async with client.producer() as producer:
        await producer.send(topic, "odd", props=ODD, tag="täg", keys=["schlüssel", "k2"])
    (seen,) = await deliveries(java_client, cluster, topic, 1, fails=0)
    assert seen["properties"].items() >= (ODD | {"TAGS": "täg", "KEYS": "schlüssel k2"}).items()


async def test_from_python_to_java_broadcast(cluster: Cluster, client: pyromq.Client, java_client: java.Client) -> None:
    topic = cluster.new_topic()
    async with client.producer() as producer:
        await producer.send_many(topic, numbered("all"))
    consume = partial(java_client.consuming, "broadcast", cluster.servers, topic, f"GID_{topic}")
    both = [await asyncio.to_thread(consume) for _ in range(2)]
    try:
        await until(lambda: all(len(each.bodies()) >= 5 for each in both), "both have all")
    finally:
        for each in both:
            await asyncio.to_thread(each.stop)
    assert [sorted(each.bodies()) for each in both] == [numbered("all")] * 2


# --- conversations ----------------------------------------------------------------------------------------------------


async def test_java_asks_and_python_answers(cluster: Cluster, client: pyromq.Client, java_client: java.Client) -> None:
    topic = cluster.new_topic()
    async with client.producer("answers") as producer:

        async def answer(text: str, msg: Received) -> None:
            await producer.reply(msg, f"re: {text}")

        async with client.push_consumer(topic, answer, group=f"GID_{topic}", begin=FIRST):
            asked = ["wie geht's?", LARGE]
            replies = await asyncio.to_thread(java_client.request, cluster.servers, topic, asked)
    assert replies == [f"re: {each}" for each in asked]


async def test_python_asks_and_java_answers(cluster: Cluster, client: pyromq.Client, java_client: java.Client) -> None:
    topic = cluster.new_topic()
    answering = await asyncio.to_thread(java_client.answering, cluster.servers, topic, f"GID_{topic}")
    try:
        async with client.producer("asks") as producer:
            replies = [await producer.request(topic, each, timeout=15) for each in ("wie geht's?", LARGE)]
    finally:
        await asyncio.to_thread(answering.__exit__, None, None, None)
    assert [each.decode(str) for each in replies] == ["re: wie geht's?", f"re: {LARGE}"]


async def deliveries(client: java.Client, cluster: Cluster, topic: str, count: int, **how: int) -> list[dict[str, Any]]:
    """What a Java consumer that fails as told has seen, once it has seen so many."""
    name = f"retrying{next(_numbers)}"
    wanted = {"servers": cluster.servers, "topic": topic, "group": f"GID_{topic}", "kind": "push", **how}
    await asyncio.to_thread(client.do, "retry", name=name, **wanted)
    try:
        await until(lambda: len(client.do("retried", name=name)) >= count, f"{count} deliveries")
    finally:
        seen: list[dict[str, Any]] = await asyncio.to_thread(client.do, "stop retrying", name=name)
    return seen


async def test_what_java_fails_comes_again_and_its_dead_letters_are_read_by_python(
    cluster: Cluster, client: pyromq.Client, java_client: java.Client
) -> None:
    topic = cluster.new_topic()
    async with client.producer() as producer:
        sent = await producer.send(topic, "bad", props=ODD)
    seen = await deliveries(java_client, cluster, topic, 2, fails=9, level=1, max=1)
    assert [each["times"] for each in seen] == [0, 1]
    kept = Kept()
    async with client.push_consumer(f"%DLQ%GID_{topic}", kept, group="undertaker", begin=FIRST):
        await until(lambda: bool(kept.messages()), "the dead letter is there")
    dead, *again = kept.messages()
    assert {each.id for each in again} <= {dead.id}  # a member that is stopped in the midst may give it back twice
    assert len({(each.queue, each.offset) for each in kept.messages()}) == len(kept.messages())
    assert (dead.body, dead.id, dead.topic) == (b"bad", sent.message_id, topic)
    assert dead.properties.items() >= ODD.items()


async def test_what_python_fails_comes_again_and_its_dead_letters_are_read_by_java(
    cluster: Cluster, client: pyromq.Client, java_client: java.Client
) -> None:
    topic = cluster.new_topic()
    await asyncio.to_thread(java_client.send_by, "sync", cluster.servers, topic, ["bad", "good"])
    attempts: list[tuple[str, int]] = []

    async def handle(text: str, msg: Received) -> None:
        attempts.append((text, msg.attempt))
        if text == "bad":
            raise pyromq.RetryLater(1)

    retry = pyromq.Retry(times=1)
    async with client.push_consumer(topic, handle, group=f"GID_{topic}", begin=FIRST, retry=retry):
        dead = f"%DLQ%GID_{topic}"
        await until(lambda: len(attempts) >= 3, "it came again")
        await until(lambda: wire.ask(cluster.servers, wire.GET_ROUTE, {"topic": dead}).code == 0, "dead letters")
        bodies = await asyncio.to_thread(java_client.consume, cluster.servers, dead, "undertaker_java", 1)
    assert sorted(attempts) == [("bad", 1), ("bad", 2), ("good", 1)]
    assert bodies == ["bad"]


# --- operators --------------------------------------------------------------------------------------------------------


async def test_javas_mqadmin_reads_what_a_python_consumer_says_of_itself(
    cluster: Cluster, client: pyromq.Client, admin: java.Admin
) -> None:
    topic = cluster.new_topic()
    group = f"GID_{topic}"
    kept = Kept()
    async with client.producer() as producer, client.push_consumer(topic, kept, group=group, begin=FIRST):
        await producer.send_many(topic, numbered("x", 8))
        await until(lambda: len(kept.bodies()) >= 8, "all are handled")
        words = ("consumerStatus", "-n", cluster.servers, "-g", group)
        printed = await asyncio.to_thread(admin.run, *words)
        assert client.client_id in printed, printed
        printed = await asyncio.to_thread(admin.run, *words, "-i", client.client_id)
    assert "#Consumer Subscription#" in printed, printed
    assert sum(line.startswith(topic) for line in printed.splitlines()) >= QUEUES, printed
