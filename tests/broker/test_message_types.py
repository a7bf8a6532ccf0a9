"""Topics that name a kind of message (attribute message.type): each against each."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.broker.intake.message_type import wrong_type
from pyromq.model.codes import ResponseCode
from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker

KINDS: dict[str, tuple[dict[str, str], ...]] = {
    "NORMAL": ({}, {"KEYS": "k"}, {"DELAY": "0"}),
    "FIFO": ({"__SHARDINGKEY": "k"},),
    "DELAY": (
        {"DELAY": "3"},
        {"TIMER_DELAY_SEC": "60"},
        {"TIMER_DELAY_MS": "60000"},
        {"TIMER_DELIVER_MS": "99"},
        {"DELAY": "3", "__SHARDINGKEY": "k"},
    ),
    "TRANSACTION": ({"TRAN_MSG": "true", "PGROUP": "P"}, {"TRAN_MSG": "true", "PGROUP": "P", "__SHARDINGKEY": "k"}),
}
# Remoting clients keep order by choosing the queue, mostly without a sharding key.
TAKES = {(kind, kind) for kind in KINDS} | {("FIFO", "NORMAL")}
CASES = [(topic, kind, pairs) for topic in KINDS for kind, given in KINDS.items() for pairs in given]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path, enforce_message_type=True) as running:
        yield running


@pytest.fixture
async def lax(tmp_path: Path) -> AsyncIterator[Running]:
    """As it is by default, and as Java's broker is."""
    async with running_broker(tmp_path) as running:
        yield running


async def send(broker: Running, topic: str, kind: str, pairs: dict[str, str]) -> tuple[int, str]:
    answer = await broker.send(topic, properties=pairs, sysFlag=4 if kind == "TRANSACTION" else 0)
    return answer.code, answer.remark or ""


async def test_each_kind_against_each(broker: Running) -> None:
    for topic in KINDS:
        broker.broker.topics.put(TopicConfig(topic_name=topic, attributes={"message.type": topic}))
    for topic, kind, pairs in CASES:
        code, remark = await send(broker, topic, kind, pairs)
        if (topic, kind) in TAKES:
            assert code == 0, (topic, pairs, remark)
        else:
            assert code == ResponseCode.MESSAGE_ILLEGAL, (topic, pairs)
            assert f"topic {topic} takes {topic} messages only (attribute message.type), this one is {kind}" in remark


@pytest.mark.parametrize("attributes", [{}, {"message.type": "UNSPECIFIED"}, {"message.type": "MIXED"}])
async def test_a_topic_that_names_no_kind_takes_all(broker: Running, attributes: dict[str, str]) -> None:
    broker.broker.topics.put(TopicConfig(topic_name="Any", attributes=attributes))
    for kind, given in KINDS.items():
        for pairs in given:
            assert await send(broker, "Any", kind, pairs) == (0, ""), pairs


async def inspected(broker: Running) -> list[tuple[str, str, str, int, bool]]:
    lines = json.loads(bytes((await broker.call(RequestCode.INSPECT)).body))["mistyped"]
    return [(one["topic"], one["takes"], one["given"], one["messages"], one["refused"]) for one in lines]


async def test_every_kind_is_stored_by_default_and_wrong_ones_are_counted(lax: Running) -> None:
    for topic in KINDS:
        lax.broker.topics.put(TopicConfig(topic_name=topic, attributes={"message.type": topic}))
    for topic, kind, pairs in CASES:
        assert await send(lax, topic, kind, pairs) == (0, ""), (topic, pairs)
    wrong = [(topic, kind) for topic, kind, _ in CASES if (topic, kind) not in TAKES]
    expected = {(topic, topic, kind, wrong.count((topic, kind)), False) for topic, kind in wrong}
    assert set(await inspected(lax)) == expected
    answer = await lax.call(RequestCode.GET_BROKER_RUNTIME_INFO)
    assert json.loads(bytes(answer.body))["table"]["pyromqMistypedMessages"] == str(len(wrong))


async def test_what_is_refused_is_counted_until_the_topic_takes_it_or_is_gone(broker: Running) -> None:
    for topic in ("Typed", "Gone"):
        broker.broker.topics.put(TopicConfig(topic_name=topic, attributes={"message.type": "NORMAL"}))
        assert (await send(broker, topic, "FIFO", {"__SHARDINGKEY": "k"}))[0] == ResponseCode.MESSAGE_ILLEGAL
    assert ("Typed", "NORMAL", "FIFO", 1, True) in await inspected(broker)
    await broker.call(RequestCode.DELETE_TOPIC_IN_BROKER, topic="Gone")
    broker.broker.topics.put(TopicConfig(topic_name="Typed", attributes={"message.type": "MIXED"}))
    assert await inspected(broker) == []


async def send_batch(broker: Running, topic: str, *pairs: dict[str, str]) -> tuple[int, str]:
    body = encode_batch(BatchEntry(b"x", 0, encode_properties({"KEYS": "k"} | one)) for one in pairs)
    fields = {"a": "P", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "m": True}
    answer = await broker.call(RequestCode.SEND_BATCH_MESSAGE, body, **fields, i="UNIQ_KEY\x01U\x02")
    return answer.code, answer.remark or ""


@pytest.mark.parametrize("attributes", [{}, {"queue.type": "BatchCQ"}])
async def test_a_batch_does_not_go_round_the_check(broker: Running, attributes: dict[str, str]) -> None:
    for topic in KINDS:
        broker.broker.topics.put(TopicConfig(topic_name=topic, attributes={"message.type": topic} | attributes))
    for topic in KINDS:  # a kernel takes the second, where it may
        for _ in range(2):
            code, remark = await send_batch(broker, topic, {}, {})
            assert code == (0 if (topic, "NORMAL") in TAKES else ResponseCode.MESSAGE_ILLEGAL), (topic, remark)
    code, remark = await send_batch(broker, "NORMAL", {}, {"__SHARDINGKEY": "k"}, {})
    assert (code, "this one is FIFO" in remark) == (ResponseCode.MESSAGE_ILLEGAL, True)
    assert await send_batch(broker, "FIFO", {}, {"__SHARDINGKEY": "k"}) == (0, "")


async def test_batches_are_stored_by_default_and_their_wrong_messages_are_counted(lax: Running) -> None:
    lax.broker.topics.put(TopicConfig(topic_name="Typed", attributes={"message.type": "NORMAL"}))
    for _ in range(2):
        assert await send_batch(lax, "Typed", {}, {"__SHARDINGKEY": "k"}, {"__SHARDINGKEY": "k"}) == (0, "")
    assert await send_batch(lax, "Typed", {}, {}) == (0, "")
    assert await inspected(lax) == [("Typed", "NORMAL", "FIFO", 4, False)]


@pytest.mark.parametrize("kind", ["PRIORITY", "LITE"])
def test_priority_and_lite_are_kinds_of_their_own(kind: str) -> None:
    own = {"PRIORITY": {"_SYS_MSG_PRIORITY_": "1"}, "LITE": {"__LITE_TOPIC": "l"}}
    for given, pairs in own.items():
        assert wrong_type({"message.type": kind}, pairs) == (None if given == kind else given)
    assert wrong_type({"message.type": kind}, {}) == "NORMAL"
