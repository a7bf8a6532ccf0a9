"""Topics that name a kind of message (attribute message.type): each against each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.broker.intake.message_type import type_fault
from pyromq.model.codes import ResponseCode
from pyromq.protocol.bodies.topics import TopicConfig
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


async def test_enforce_message_type_false_lets_every_kind_in(broker: Running) -> None:
    broker.broker.topics.put(TopicConfig(topic_name="Typed", attributes={"message.type": "NORMAL"}))
    fifo = {"__SHARDINGKEY": "k"}
    assert (await send(broker, "Typed", "FIFO", fifo))[0] == ResponseCode.MESSAGE_ILLEGAL
    broker.broker.live.change("enforceMessageType=false")
    for kind, given in KINDS.items():
        for pairs in given:
            assert await send(broker, "Typed", kind, pairs) == (0, ""), pairs


@pytest.mark.parametrize("kind", ["PRIORITY", "LITE"])
def test_priority_and_lite_are_kinds_of_their_own(kind: str) -> None:
    own = {"PRIORITY": {"_SYS_MSG_PRIORITY_": "1"}, "LITE": {"__LITE_TOPIC": "l"}}
    for given, pairs in own.items():
        assert (type_fault("T", {"message.type": kind}, pairs) is None) == (given == kind)
    assert type_fault("T", {"message.type": kind}, {}) is not None
