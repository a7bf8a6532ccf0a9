"""Sends that fail though a broker may have the message: the error says so, whatever later attempts met."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from pyromq.client.client import Client
from pyromq.client.errors import (
    BadAnswer,
    BadMessage,
    Closed,
    Error,
    NoBroker,
    NoNameServer,
    Refused,
    TimedOut,
    Unreachable,
)
from pyromq.client.produce.batches import Batching
from pyromq.client.produce.producer import Producer
from pyromq.client.produce.sending import SendPolicy
from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Answer, Reply, Request
from tests.client.cluster import NAMES, Cluster, FakeBroker

SEND = RequestCode.SEND_MESSAGE_V2
BATCH = RequestCode.SEND_BATCH_MESSAGE
STORED = {"msgId": "7F0000010000A0C8000000000000000A", "queueId": "0", "queueOffset": "0"}


def dies_with_the_message(cluster: Cluster, broker: FakeBroker, code: int = SEND) -> None:
    """Let the broker end once a message is stored, before its answer: afterwards nothing listens at its address."""

    def answer(request: Request) -> Answer:
        cluster.network.unlisten(broker.address)
        broker.cut()
        return None

    broker.script[code] = answer


async def fails(cluster: Cluster, sending: Any) -> Error:
    task = asyncio.ensure_future(sending)
    await cluster.clock.settle(200)
    await cluster.clock.advance(10)
    with pytest.raises(Error) as fault:
        await task
    return fault.value


@pytest.fixture
async def client(cluster: Cluster) -> Client:
    cluster.broker("a", T=1)
    return await cluster.client()


async def test_a_broker_that_dies_with_the_message_is_no_missing_broker(cluster: Cluster, client: Client) -> None:
    dies_with_the_message(cluster, cluster.brokers["a"])
    async with client.producer() as producer:
        fault = await fails(cluster, producer.send("T", b"x"))
    assert type(fault) is Unreachable
    assert fault.may_be_stored
    assert fault.address == cluster.brokers["a"].address
    assert "may be stored: the connection to" in str(fault)
    assert "At last: cannot connect to" in str(fault) or "not reached" in str(fault)


async def test_where_no_connection_was_made_nothing_is_stored(cluster: Cluster, client: Client) -> None:
    cluster.network.unlisten(cluster.brokers["a"].address)
    async with client.producer() as producer:
        fault = await fails(cluster, producer.send("T", b"x"))
        oneway = await fails(cluster, producer.send_oneway("T", b"x"))
    assert (type(fault), fault.may_be_stored) == (NoBroker, False)
    assert (type(oneway), oneway.may_be_stored) == (Unreachable, False)


async def test_a_time_out_is_a_doubt_and_a_refusal_after_it_does_not_end_that(cluster: Cluster) -> None:
    hung, strict = cluster.broker("a", T=1), cluster.broker("b", T=1)
    hung.script[SEND] = lambda request: None
    strict.script[SEND] = lambda request: Reply(ResponseCode.MESSAGE_ILLEGAL, "not here")
    client = await cluster.client()
    kinds = set()
    for _ in range(8):  # whichever broker is the first
        async with client.producer() as producer:
            fault = await fails(cluster, producer.send("T", b"x"))
            kinds.add((type(fault), fault.may_be_stored, "not here" in str(fault)))
    assert kinds == {(Refused, False, True), (TimedOut, True, True)}


async def test_a_client_that_is_closed_meanwhile_does_not_end_the_doubt(cluster: Cluster, client: Client) -> None:
    dies_with_the_message(cluster, cluster.brokers["a"])
    producer = client.producer()
    await producer.start()
    sending = asyncio.ensure_future(producer.send("T", b"x"))
    await cluster.clock.settle(200)
    await client.session.stop()
    await cluster.clock.advance(10)
    with pytest.raises(Unreachable, match="this client is closed") as fault:
        await sending
    assert fault.value.may_be_stored
    with pytest.raises(Closed) as closed:
        await producer.send("T", b"x")
    assert not closed.value.may_be_stored


@pytest.mark.parametrize(
    ("reply", "policy", "kind", "may_be"),
    [
        (Reply(ResponseCode.MESSAGE_ILLEGAL, "no"), SendPolicy(), Refused, False),
        (Reply(ResponseCode.SYSTEM_BUSY, "no"), SendPolicy(retries=0), Refused, False),
        (Reply(ResponseCode.FLUSH_DISK_TIMEOUT, fields=STORED), SendPolicy(retry_not_ok=True), Refused, True),
        (Reply(fields={"queueOffset": "many"}), SendPolicy(), BadAnswer, True),
    ],
)
async def test_an_answer_says_whether_the_message_may_be_stored(
    cluster: Cluster, client: Client, reply: Reply, policy: SendPolicy, kind: type[Error], may_be: bool
) -> None:
    cluster.brokers["a"].script[SEND] = lambda request: reply
    async with client.producer(policy=policy) as producer:
        fault = await fails(cluster, producer.send("T", b"x"))
    assert (type(fault), fault.may_be_stored) == (kind, may_be)


async def test_a_request_without_a_reply_may_be_stored(cluster: Cluster, client: Client) -> None:
    async with client.producer() as producer:
        fault = await fails(cluster, producer.request("T", b"x"))
    assert (type(fault), fault.may_be_stored) == (TimedOut, True)


async def test_each_send_of_a_shared_request_has_the_doubt(cluster: Cluster, client: Client) -> None:
    dies_with_the_message(cluster, cluster.brokers["a"], BATCH)
    async with client.producer(batching=Batching()) as producer:
        sends = [asyncio.ensure_future(producer.send("T", b"x")) for _ in range(3)]
        faults = [await fails(cluster, each) for each in sends]
    assert [(type(each), each.may_be_stored) for each in faults] == [(Unreachable, True)] * 3


async def one_by_one(values: Iterable[bytes]) -> AsyncIterator[bytes]:
    for each in values:
        yield each


@pytest.mark.parametrize("given", ["a list", "an async iterable", "a list with an order key"])
async def test_an_error_of_send_many_says_if_a_part_is_stored(cluster: Cluster, client: Client, given: str) -> None:
    """The second value is no message: where the first was sent by then, who sends both again has it twice."""
    broker, size = cluster.brokers["a"], 5 << 20
    broker.script[SEND] = broker.script[BATCH] = lambda request: Reply(fields=STORED)
    async with client.producer() as producer:
        fault = await fails(cluster, producer.send_many("T", [b"x" * size, b"first"]))
        assert (type(fault), fault.may_be_stored) == (BadMessage, False)
        values, key = [b"1" * (1 << 20), b"2", b"x" * size], "k" if "key" in given else None
        several = one_by_one([b"1"] * 1024 + [b"x" * size]) if "async" in given else values
        fault = await fails(cluster, producer.send_many("T", several, order_key=key))
    assert (type(fault), fault.may_be_stored) == (BadMessage, True)


async def test_a_commit_that_gets_lost_leaves_a_stored_message(cluster: Cluster, client: Client) -> None:
    broker = cluster.brokers["a"]
    broker.script[SEND] = lambda request: Reply(fields=dict(STORED))
    dies_with_the_message(cluster, broker, RequestCode.END_TRANSACTION)

    async def transaction(producer: Producer) -> None:
        async with producer.transaction("T", b"x"):
            pass

    async with client.producer("shop") as producer:
        fault = await fails(cluster, transaction(producer))
    assert (type(fault), fault.may_be_stored) == (Unreachable, True)


# --- no name server ---------------------------------------------------------------------------------------------------


async def test_a_first_send_waits_for_a_name_server_that_is_away(cluster: Cluster, client: Client) -> None:
    cluster.network.unlisten(NAMES)
    async with client.producer() as producer:
        sending = asyncio.ensure_future(producer.send("T", b"x", timeout=30))
        await cluster.clock.advance(20)
        assert not sending.done()
        cluster.network.listen(NAMES, cluster.names.attach)
        await cluster.clock.advance(9)
        assert (await sending).queue_offset == 0


async def test_if_none_comes_back_in_time_the_error_names_them(cluster: Cluster, client: Client) -> None:
    cluster.network.unlisten(NAMES)
    async with client.producer(policy=SendPolicy(timeout_s=5)) as producer:
        sending = asyncio.ensure_future(producer.send("T", b"x"))
        await cluster.clock.advance(4)
        assert not sending.done()
        fault = await fails(cluster, sending)
    assert type(fault) is NoNameServer
    assert (fault.address, fault.may_be_stored) == (NAMES, False)
    assert "pyromq up" in fault.hint
