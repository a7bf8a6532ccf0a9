"""Peek, notification and polling info: by Java's recordings, and on virtual time. None of them takes a message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from tests.broker.pop.popping import ack, bodies, pop, pop_answer
from tests.broker.pop.recorded import exchanges
from tests.broker.virtual import Virtual, virtual_broker
from tests.wire import decode_messages

RECORDED = exchanges()


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Virtual]:
    async with virtual_broker(tmp_path) as running:
        yield running


def add_topic(broker: Virtual, name: str = "T", queues: int = 1, perm: int = 6) -> None:
    broker.broker.topics.put(TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm))


async def peek(broker: Virtual, **extra: Any) -> Command:
    fields: dict[str, Any] = {"topic": "T", "queueId": -1, "maxMsgNums": 8, "consumerGroup": "G"}
    return await broker.call(RequestCode.PEEK_MESSAGE, **(fields | extra))


async def notify(broker: Virtual, **extra: Any) -> Command:
    fields: dict[str, Any] = {"topic": "T", "queueId": -1, "consumerGroup": "G", "pollTime": 0, "bornTime": 0}
    return await broker.call(RequestCode.NOTIFICATION, **(fields | extra))


async def held(broker: Virtual, **extra: Any) -> asyncio.Task[Command]:
    task = asyncio.create_task(notify(broker, pollTime=60_000, **extra))
    await broker.clock.settle()
    assert not task.done()
    return task


async def waiting_pops(broker: Virtual, queue: int = -1) -> str:
    answer = await broker.call(RequestCode.POLLING_INFO, topic="T", queueId=queue, consumerGroup="G")
    return answer.fields["pollingNum"]


def seen(answer: Command) -> list[str]:
    return [message.body.decode() for message in decode_messages(answer.body)]


# --- Java's recordings ------------------------------------------------------------------------------------------------


async def replay(broker: Virtual, pair: int) -> None:
    scenario, request, java = RECORDED[pair]
    fields = dict(request.fields) | ({"bornTime": "0"} if "bornTime" in request.fields else {})
    ours = await broker.call(request.code, b"", **fields)
    assert (ours.code, ours.fields) == (java.code, java.fields), scenario
    assert _words(ours) == _words(java), scenario
    assert len(decode_messages(ours.body)) == len(decode_messages(java.body)), scenario


def _words(answer: Command) -> str:
    return (answer.remark or "").replace("127.0.0.1:58544", "127.0.0.1:50001")


async def test_the_recorded_peeks_get_the_recorded_answers(broker: Virtual) -> None:
    add_topic(broker, "PfInit")
    add_topic(broker, "PfEmpty")
    for number in range(5):
        await broker.send("PfInit", b"m%d" % number)
    for pair in range(53, 59):
        await replay(broker, pair)


async def test_the_recorded_notifications_get_the_recorded_answers(broker: Virtual) -> None:
    add_topic(broker, "PfHeld")
    waits = asyncio.create_task(pop(broker, "PfHeld", "pf-held", pollTime=10_000))
    await broker.clock.settle()
    for pair in (43, 44):
        await replay(broker, pair)
    await broker.advance(10)
    assert await waits == []
    for pair in range(45, 53):
        task = asyncio.create_task(replay(broker, pair))
        await broker.clock.settle()
        if pair == 46:
            assert not task.done()
            await broker.send("PfHeld", b"wakes", properties={"TAGS": "TagA"})
        if pair in (45, 49):
            assert not task.done()
            await broker.advance(0.95)
        await task


# --- peek -------------------------------------------------------------------------------------------------------------


async def test_a_peek_takes_nothing_and_shows_what_the_next_pop_gets(broker: Virtual) -> None:
    add_topic(broker)
    for number in range(4):
        await broker.send("T", b"m%d" % number)
    assert seen(await peek(broker)) == ["m0", "m1", "m2", "m3"]
    assert broker.broker.offsets.find("T", "G", 0) is None
    assert bodies(await pop(broker, maxMsgNums=2)) == ["m0", "m1"]
    answer = await peek(broker, maxMsgNums=1)
    assert (seen(answer), answer.fields["restNum"]) == (["m2"], "2")


async def test_a_peek_looks_into_the_retry_topic_too(broker: Virtual) -> None:
    add_topic(broker)
    await broker.send("T", b"fails", properties={"UNIQ_KEY": "k"})
    await pop(broker, invisibleTime=1_000)
    await broker.advance(1.2)
    assert seen(await peek(broker)) == ["fails"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"perm": 2}, 16),
        ({"group": SubscriptionGroupConfig(group_name="G", consume_enable=False)}, 16),
        ({"broker": 2}, 16),
    ],
)
async def test_who_may_not_read_may_not_look(tmp_path: Path, change: dict[str, Any], code: int) -> None:
    async with virtual_broker(tmp_path, broker_permission=change.get("broker", 6)) as broker:
        add_topic(broker, perm=change.get("perm", 6))
        if "group" in change:
            broker.broker.groups.put(change["group"])
        assert [(await ask(broker)).code for ask in (peek, notify)] == [code, code]
        answer = await broker.call(RequestCode.POLLING_INFO, topic="T", queueId=0, consumerGroup="G")
        assert (answer.code, answer.fields) == (code, {"pollingNum": "0"})


# --- notification -----------------------------------------------------------------------------------------------------


async def test_a_notification_waits_for_a_message_and_takes_none(broker: Virtual) -> None:
    add_topic(broker)
    task = await held(broker)
    await broker.send("T", b"m")
    assert (await task).fields == {"hasMsg": "true", "pollingFull": "false"}
    assert bodies(await pop(broker)) == ["m"]
    assert (await notify(broker)).fields["hasMsg"] == "false"


async def test_messages_that_are_handed_out_are_no_news_and_come_again_as_such(broker: Virtual) -> None:
    add_topic(broker)
    await broker.send("T", b"m", properties={"UNIQ_KEY": "k"})
    await pop(broker, invisibleTime=5_000)
    task = await held(broker)
    await broker.advance(5.2)
    assert (await task).fields["hasMsg"] == "true"


async def test_a_queue_that_is_held_in_order_is_no_news_until_it_is_free(broker: Virtual) -> None:
    add_topic(broker)
    await broker.send("T", b"m0")
    await broker.send("T", b"m1")
    (one,) = await pop(broker, order=True, maxMsgNums=1, attemptId="a")
    assert (await notify(broker, order=True, attemptId="b")).fields["hasMsg"] == "false"
    assert (await notify(broker, order=True, attemptId="a")).fields["hasMsg"] == "true"
    task = await held(broker, order=True, attemptId="b")
    await ack(broker, one)
    assert (await task).fields["hasMsg"] == "true"


async def test_tags_are_compared_while_few_messages_wait(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, max_message_filter_num_for_notification=3) as broker:
        add_topic(broker)
        wanted: dict[str, Any] = {"exp": "B || C", "expType": "TAG"}
        for number in range(2):
            await broker.send("T", b"m%d" % number, properties={"TAGS": "A"})
        assert (await notify(broker, **wanted)).fields["hasMsg"] == "false"
        await broker.send("T", b"many", properties={"TAGS": "A"})
        assert (await notify(broker, **wanted)).fields["hasMsg"] == "true"
        assert (await notify(broker, exp="a > 1", expType="SQL92")).fields["hasMsg"] == "true"


async def test_more_than_may_wait_are_told_so(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, max_pop_polling_size=1) as broker:
        add_topic(broker)
        task = await held(broker)
        assert (await notify(broker, pollTime=1_000)).fields == {"hasMsg": "false", "pollingFull": "true"}
        await broker.advance(60)
        assert (await task).fields == {"hasMsg": "false", "pollingFull": "false"}


async def test_who_waits_on_a_topic_that_goes_is_told(broker: Virtual) -> None:
    add_topic(broker)
    task = await held(broker)
    await broker.call(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
    answer = await task
    assert (answer.code, answer.fields) == (17, {"hasMsg": "false", "pollingFull": "false"})


async def test_a_stop_answers_who_waits(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as broker:
        add_topic(broker)
        task = await held(broker)
    assert (await task).fields["hasMsg"] == "false"


async def test_polls_are_counted_by_the_number_that_they_asked_for(broker: Virtual) -> None:
    add_topic(broker)
    tasks = [asyncio.create_task(pop_answer(broker, queueId=queue, pollTime=60_000)) for queue in (-1, -1, 0)]
    await broker.clock.settle()
    assert [await waiting_pops(broker, queue) for queue in (-1, 0)] == ["2", "1"]
    await broker.advance(60)
    await asyncio.gather(*tasks)
    assert await waiting_pops(broker) == "0"
