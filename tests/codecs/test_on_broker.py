"""Codecs through the real broker: the SDK, its options and overrides, apps, replies, transactions, dead letters."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import Int64Value

import pyromq
from pyromq.client.middleware import SendNext
from pyromq.client.produce.sending import SendResult
from pyromq.errors import ConfigError
from pyromq.testing import RmqBroker, RmqClient
from tests.codecs.shop import ORDER, ORDER_1, ORDER_2, OldOrder, Order

T = TypeVar("T")
PROTOBUF = pyromq.Protobuf()
AVRO = pyromq.Avro({Order: ORDER_2}, known=[ORDER_1])


class Reversed:
    """A codec of a user's own: three members, no base class."""

    content_type = "text/reversed"

    def __bool__(self) -> bool:
        return False  # what a codec is besides is its own matter

    def encode(self, value: Any, /) -> Any:
        return "no bytes" if value == "wrong" else value[::-1].encode()

    def decode(self, body: bytes, kind: type[T], /) -> T:
        return kind(body.decode()[::-1])  # type: ignore[call-arg]


class InWords(Reversed):
    def encode(self, value: Any, /) -> bytes:
        return f"{value.seconds} seconds".encode()


@pytest.fixture(autouse=True)
async def topics(rmq_broker: RmqBroker) -> None:
    for name in ("orders", "invoices", "copies"):
        await rmq_broker.create_topic(name, 1)


def bodies(broker: RmqBroker, topic: str) -> list[bytes]:
    return [each.body for each in broker.messages(topic)]


async def test_a_client_has_one_codec_for_all_it_makes(rmq_broker: RmqBroker) -> None:
    client = await rmq_broker.client(codec=PROTOBUF)
    got: list[Any] = []

    async def handle(order: ORDER, msg: pyromq.Received) -> None:
        got.append((order, msg.body))

    async with client.push_consumer("orders", handle, group="g"), client.producer("shop") as producer:
        await producer.send("orders", ORDER(id=1))
        await producer.send_oneway("orders", ORDER(id=2))
        await producer.send_many("orders", [ORDER(id=3), ORDER()])
        await producer.send("orders", b"\x08\x05")  # bytes are a body as they are
        async with producer.transaction("orders", ORDER(id=6)):
            pass
        await rmq_broker.settle()
    assert [order.id for order, _ in got] == [1, 2, 3, 0, 5, 6]
    assert got[0][1] == b"\x08\x01"
    assert rmq_broker.messages("%DLQ%g") == []


async def test_producers_consumers_and_single_sends_may_have_their_own(rmq_broker: RmqBroker) -> None:
    client = await rmq_broker.client()
    got: list[Any] = []

    async def old(order: OldOrder) -> None: ...

    async def new(order: Order) -> None:
        got.append(order)

    with pytest.raises(pyromq.Error, match=r"old: the Avro codec has no schema of OldOrder, only of Order\. Give it"):
        client.push_consumer("orders", old, group="g", codec=AVRO)
    async with (
        client.push_consumer("orders", new, group="g", codec=AVRO),
        client.producer(codec=pyromq.Avro({OldOrder: ORDER_1})) as producer,
    ):
        await producer.send("orders", OldOrder(1, "half"))
        await producer.send("orders", Order(2, "ann"), codec=AVRO)
        await producer.send_many("orders", [Order(3, "bob")], codec=AVRO)
        await producer.send("invoices", {"id": 4}, codec=pyromq.Json())
        await rmq_broker.settle()
        async with client.pull_consumer("puller", begin="first", codec=AVRO) as puller:
            await puller.subscribe("orders")
            pulled = [msg.decode(Order) for msg in await puller.poll()]
    assert got == pulled == [Order(1, "unknown"), Order(2, "ann"), Order(3, "bob")]
    assert bodies(rmq_broker, "invoices") == [b'{"id":4}']


async def test_lists_of_values_are_decoded_by_it(rmq_broker: RmqBroker) -> None:
    client = await rmq_broker.client(codec=PROTOBUF)
    got: list[int] = []

    async def wrong(numbers: list[int]) -> None: ...

    async def handle(stamps: list[Timestamp]) -> None:
        got.extend(each.seconds for each in stamps)

    with pytest.raises(pyromq.Error, match="wrong: int is no class of protobuf messages"):
        client.push_consumer("orders", wrong, group="g", max_batch=10)
    async with (
        client.push_consumer("orders", handle, group="g", max_batch=10),
        client.producer(batching=pyromq.Batching()) as producer,
    ):
        sends = asyncio.gather(*(producer.send("orders", Timestamp(seconds=n)) for n in range(3)))
        await rmq_broker.clock.advance(1)
        await sends
        await rmq_broker.settle()
    assert got == [0, 1, 2]


@pytest.mark.parametrize(
    ("codec", "kind", "said"),
    [
        (PROTOBUF, ORDER, "the body cannot be decoded: .*the body is no Order"),
        (AVRO, Order, "the body cannot be decoded: .*the body is no Avro object"),
    ],
)
async def test_a_body_that_cannot_be_decoded_is_a_dead_letter_with_its_cause(
    rmq_broker: RmqBroker, rmq_client: RmqClient, codec: pyromq.Codec, kind: Any, said: str
) -> None:
    async def handle(order: Any) -> None:
        raise AssertionError("it has no value")

    handle.__annotations__["order"] = kind
    async with rmq_client.client.push_consumer("orders", handle, group="g", codec=codec):
        await rmq_client.send("orders", {"id": 1})
        await rmq_broker.settle()
    (dead,) = rmq_broker.messages("%DLQ%g")
    assert dead.body == b'{"id":1}'
    assert re.match(said, dead.properties["PYRO_REASON"])


async def test_values_of_the_wrong_type_are_refused_and_nothing_is_sent(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    refusals = ((PROTOBUF, "the value is a dict"), (AVRO, "the dict does not fit"), (Reversed(), "a dict cannot be"))
    for codec, said in refusals:
        with pytest.raises(pyromq.BadMessage, match=said):
            await rmq_client.send("orders", {"nothing": 1}, codec=codec)
    with pytest.raises(pyromq.BadMessage, match="made a str of a str, and not bytes"):
        await rmq_client.send("orders", "wrong", codec=Reversed())
    assert bodies(rmq_broker, "orders") == []


async def test_any_object_with_the_three_members_is_a_codec(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    await rmq_client.send("orders", "abc", codec=Reversed())
    client = await rmq_broker.client(codec=Reversed())
    seen: list[str] = []

    async def handle(text: str) -> None:
        seen.append(text)

    async with client.push_consumer("orders", handle, group="g", begin="first", codec=Reversed()):
        await rmq_broker.settle()
    assert seen == ["abc"]
    msg = await rmq_client.receive_one("orders")
    assert (msg.body, msg.decode(str, Reversed()), msg.decode(str), msg.decode(bytes)) == (b"cba", "abc", "cba", b"cba")


@pytest.mark.parametrize("wrong", ["protobuf", pyromq.Json, 3])
async def test_what_is_no_codec_is_refused_where_it_is_given(rmq_client: RmqClient, wrong: Any) -> None:
    async def handle(msg: pyromq.Received) -> None: ...

    client, app = rmq_client.client, pyromq.App()
    said = "codec is .*, and not a pyromq.Codec. Write codec=pyromq.Json"

    def calls() -> Iterator[Any]:
        yield lambda: pyromq.connect(codec=wrong)
        yield lambda: client.producer(codec=wrong)
        yield lambda: client.push_consumer("orders", handle, group="g", codec=wrong)
        yield lambda: client.pull_consumer("g", codec=wrong)
        yield lambda: app.publisher("orders", codec=wrong)

    for call in calls():
        with pytest.raises(pyromq.Error, match=said):
            call()
    with pytest.raises(pyromq.Error, match=said):
        await rmq_client.send("orders", "x", codec=wrong)
    app.subscriber("orders", group="g", codec=wrong)(handle)
    with pytest.raises(ConfigError, match=f"subscriber of group 'g': {said}"):
        app.check()


async def test_an_app_handles_and_publishes_by_its_codec_or_the_functions_own(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    app = pyromq.App(codec=PROTOBUF)

    @app.subscriber("orders", group="billing")
    @app.publisher("invoices")
    @app.publisher("copies", codec=InWords())
    async def stamp(number: Int64Value) -> Timestamp | None:
        return Timestamp(seconds=number.value) if number.value else None

    app.check()
    async with app.on(await rmq_broker.client()):
        for number in (0, 7):
            await rmq_client.send("orders", Int64Value(value=number), codec=PROTOBUF)
        await rmq_broker.settle()
        await app.publish("orders", Int64Value(value=9))
        await rmq_broker.settle()
    found = [Timestamp.FromString(body).seconds for body in bodies(rmq_broker, "invoices")]
    assert (found, bodies(rmq_broker, "copies")) == ([7, 9], [b"7 seconds", b"9 seconds"])
    assert rmq_broker.messages("%DLQ%billing") == []


async def test_a_subscribers_codec_is_that_of_its_replies(rmq_broker: RmqBroker) -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="adder", replies=True, codec=PROTOBUF)
    def add(number: Int64Value) -> Int64Value:
        return Int64Value(value=number.value + 1)

    client = await rmq_broker.client()
    async with app.on(await rmq_broker.client()), client.producer() as producer:
        reply = await producer.request("orders", Int64Value(value=41), codec=PROTOBUF)
    assert reply.decode(Int64Value).value == 42


def test_types_that_the_codecs_of_an_app_lack_are_found_before_it_runs() -> None:
    async def takes(order: dict[str, int]) -> None: ...

    async def returns(stamp: Timestamp) -> dict[str, int] | None: ...

    async def takes_bytes(body: bytes) -> None: ...

    for function, declares, said in (
        (takes, None, "dict is no class of protobuf messages"),
        (returns, "publisher", "what <function .*returns.* returns: dict is no class of protobuf messages"),
        (returns, "replies", "what <function .*returns.* returns: dict is no class of protobuf messages"),
        (returns, None, None),
        (takes_bytes, None, None),
    ):
        app = pyromq.App(codec=PROTOBUF)
        app.subscriber("orders", group="g", replies=declares == "replies")(function)
        if declares == "publisher":
            app.publisher("invoices")(function)
        if said is None:
            app.check()
        else:
            with pytest.raises(ConfigError, match=f"subscriber of group 'g': .*{said}"):
                app.check()


async def test_a_draft_in_the_place_of_another_has_the_codec_of_its_app(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    class Twice(pyromq.Middleware):
        async def send(self, drafts: list[pyromq.Draft], call_next: SendNext) -> list[SendResult]:
            return await call_next([replace(each, value=Int64Value(value=2 * each.value.value)) for each in drafts])

    with pytest.raises(TypeError, match="codec"):
        pyromq.Draft("orders", 1, {})  # type: ignore[call-arg]
    await rmq_broker.create_topic("orders")
    app = pyromq.App(codec=PROTOBUF, middleware=[Twice()])
    async with app.on(rmq_client.client):
        await app.publish("orders", Int64Value(value=21))
    assert PROTOBUF.decode(rmq_broker.messages("orders")[0].body, Int64Value).value == 42


async def test_middleware_sees_the_codec_and_may_choose_another(rmq_broker: RmqBroker) -> None:
    class AsJson(pyromq.Middleware):
        async def send(self, drafts: list[pyromq.Draft], call_next: SendNext) -> list[SendResult]:
            for draft in drafts:
                assert draft.codec is PROTOBUF
                draft.value, draft.codec = {"seconds": draft.value.seconds}, pyromq.Json()
            return await call_next(drafts)

    client = await rmq_broker.client(middleware=[AsJson()], codec=PROTOBUF)
    async with client.producer() as producer:
        await producer.send("orders", Timestamp(seconds=3))
        await producer.send_many("orders", [Timestamp(seconds=4)])
    assert bodies(rmq_broker, "orders") == [b'{"seconds":3}', b'{"seconds":4}']
