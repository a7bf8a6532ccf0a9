"""Requests that Java's clients have written, to topics of every `message.type`: Java's broker takes them, so does ours.

The cases are those of Apache's Spring and recall suites: plain, asynchronous, one-way, by a selected queue, batches,
delays, transactions, requests, and a recall. They were recorded (tests/golden), so no Java is needed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from itertools import product
from pathlib import Path

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.batch import decode_batch
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.frame import decode_frames
from pyromq.protocol.properties import decode_properties, encode_properties
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker
from tests.protocol.recorded import recorded_frames

TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")
PLAIN, ONE_WAY, HALF, TIMED, BATCH, RECALL = 334, 348, 350, 339, 389, 464  # pairs of the recording


def recorded(pair: int) -> Command:
    (frame,) = (one for one in recorded_frames() if one.pair == pair and one.is_request)
    return decode_frames(frame.wire)[0][0]


def altered(pair: int, topic: str, **pairs: str) -> Command:
    """A recorded send to another topic, with these properties in addition."""
    command = recorded(pair)
    properties = decode_properties(command.fields["i"]) | pairs
    command.fields |= {"b": topic, "e": "0", "i": encode_properties(properties).decode()}
    return command


def spring_cases(topic: str) -> Iterator[tuple[str, Command]]:
    yield "sync, async and request", altered(PLAIN, topic, MSG_TYPE="request", TTL="3000", CORRELATION_ID="c")
    yield "sync", altered(PLAIN, topic)
    yield "one-way", altered(ONE_WAY, topic)
    yield "orderly by a selector", altered(PLAIN, topic, __SHARDINGKEY="order-1")
    yield "delay level", altered(PLAIN, topic, DELAY="3")
    yield "delay in seconds", altered(TIMED, topic, TIMER_DELAY_SEC="30")
    yield "delay in milliseconds", altered(PLAIN, topic, TIMER_DELAY_MS="30000")
    yield "delivery time", altered(PLAIN, topic, TIMER_DELIVER_MS="4000000000000")
    yield "transaction", altered(HALF, topic)
    yield "transaction with a sharding key", altered(HALF, topic, __SHARDINGKEY="k")
    yield "batch", altered(BATCH, topic)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path, recall_message_enable=True, timer_max_delay_sec=1 << 33) as running:
        for kind in TYPES:
            running.broker.topics.put(TopicConfig(topic_name=kind, attributes={"message.type": kind}))
        yield running


async def ask(broker: Running, command: Command) -> Command:
    return await broker.client.call(broker.address, command, 20)


async def test_every_way_of_sending_reaches_a_topic_of_every_type(broker: Running) -> None:
    for topic, again in product(TYPES, range(2)):  # from the second on a kernel may serve
        for name, command in spring_cases(topic):
            if command.is_oneway:
                await broker.client.send(broker.address, command)
                continue
            answer = await ask(broker, command)
            assert (answer.code, answer.remark or "") == (0, ""), (topic, name, again)
        queue = broker.broker.store.queues.get(topic, 0)
        assert queue is not None
        assert queue.next_offset == (again + 1) * (4 + len(decode_batch(recorded(BATCH).body)))  # the others wait


@pytest.mark.parametrize("topic", TYPES)
async def test_a_timed_message_is_recalled_from_a_topic_of_every_type(broker: Running, topic: str) -> None:
    sent = await ask(broker, altered(TIMED, topic, TIMER_DELAY_SEC="30"))
    recall = recorded(RECALL)
    recall.fields |= {"topic": topic, "recallHandle": sent.fields["recallHandle"]}
    answer = await ask(broker, recall)
    assert (answer.code, answer.fields["msgId"]) == (0, sent.fields["transactionId"])


async def test_where_types_are_enforced_the_same_requests_are_refused_by_type(broker: Running) -> None:
    broker.broker.live.change("enforceMessageType=true")
    taken = set()
    for topic in TYPES:
        for name, command in spring_cases(topic):
            if not command.is_oneway:
                answer = await ask(broker, command)
                assert answer.code in (0, ResponseCode.MESSAGE_ILLEGAL), (topic, name, answer.remark)
                if answer.code == 0:
                    taken.add((topic, name))
    plain = {"sync, async and request", "sync", "batch"}
    transactions = {"transaction", "transaction with a sharding key"}
    delays = {"delay level", "delay in seconds", "delay in milliseconds", "delivery time"}
    assert taken == {
        *product(("NORMAL", "FIFO"), plain),
        ("FIFO", "orderly by a selector"),
        *product(("DELAY",), delays),
        *product(("TRANSACTION",), transactions),
    }
    told = json.loads(bytes((await broker.call(RequestCode.INSPECT)).body))["mistyped"]
    assert {one["refused"] for one in told} == {True}
