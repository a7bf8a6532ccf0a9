"""Pops that wait: woken one for each message, by their topic or its retry topic, ended in time, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.pop.walk import Walk
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Request, await_answer
from tests.broker.peers import FakePeer
from tests.broker.pop.popping import ack, bodies, pop, pop_answer, popped, request
from tests.broker.virtual import Virtual, virtual_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Virtual]:
    async with virtual_broker(tmp_path) as running:
        assert (await running.send("T", b"first")).code == 0  # the topic is there, and G has read it
        assert len(await pop(running)) == 1
        yield running


async def held(broker: Virtual, **extra: Any) -> asyncio.Task[Command]:
    task = asyncio.ensure_future(
        pop_answer(broker, **({"pollTime": 10_000, "bornTime": broker.clock.now_ms()} | extra))
    )
    await broker.clock.settle()
    assert not task.done()
    return task


def waiting(broker: Virtual) -> int:
    return len(broker.broker.pop_parts.handler.held)


async def test_a_message_wakes_one_of_those_that_wait(broker: Virtual) -> None:
    tasks = [await held(broker) for _ in range(3)]
    await broker.send("T", b"new")
    await broker.clock.settle()
    assert [task.done() for task in tasks] == [True, False, False]
    assert bodies(popped(await tasks[0])) == ["new"]
    assert waiting(broker) == 2


async def test_each_of_several_messages_wakes_one(broker: Virtual) -> None:
    tasks = [await held(broker, maxMsgNums=1) for _ in range(4)]
    await asyncio.gather(*(broker.send("T", b"%d" % number) for number in range(3)))
    await broker.clock.settle()
    assert [task.done() for task in tasks] == [True, True, True, False]
    answers = [await task for task in tasks[:3]]
    assert sorted(body for answer in answers for body in bodies(popped(answer))) == ["0", "1", "2"]


async def test_each_one_looks_once_however_many_messages_came(broker: Virtual) -> None:
    handler = broker.broker.pop_parts.handler
    tasks = [await held(broker, exp="other") for _ in range(3)]
    assert (await broker.send("T", b"one")).code == 0  # how far the queue was is known by this one
    await broker.clock.settle()
    before = handler._looks
    assert (await broker.send_batch([b"%d" % number for number in range(30)])).code == 0
    await broker.clock.settle()
    assert handler._looks == before + 3
    assert not any(task.done() for task in tasks)
    assert waiting(broker) == 3


async def test_nobody_looks_for_what_others_have_got(broker: Virtual) -> None:
    handler = broker.broker.pop_parts.handler
    tasks = [await held(broker, maxMsgNums=16) for _ in range(4)]
    before = handler._looks
    assert (await broker.send_batch([b"%d" % number for number in range(30)])).code == 0
    await broker.clock.settle()
    assert [task.done() for task in tasks] == [True, True, False, False]
    assert handler._looks <= before + 3  # and one for what the first had left


async def test_what_is_left_wakes_the_next(broker: Virtual) -> None:
    first, second = await held(broker, maxMsgNums=2), await held(broker, maxMsgNums=2)
    assert (await broker.send_batch([b"0", b"1", b"2"])).code == 0
    await broker.clock.settle()
    assert (first.done(), second.done()) == (True, True)
    assert bodies(popped(await first)) == ["0", "1"]
    assert bodies(popped(await second)) == ["2"]


async def test_groups_are_woken_apart(broker: Virtual) -> None:
    mine = await held(broker)
    await pop(broker, group="H")
    other = await held(broker, group="H")
    await broker.send("T", b"new")
    await broker.clock.settle()
    assert (mine.done(), other.done()) == (True, True)


async def test_a_pop_of_one_queue_is_not_woken_by_another_queue(broker: Virtual) -> None:
    one, other = await held(broker, queueId=0), await held(broker, queueId=1)
    await broker.send("T", b"new", 1)
    await broker.clock.settle()
    assert (one.done(), other.done()) == (False, True)


async def test_a_message_that_is_given_again_wakes_a_pop_of_its_group(broker: Virtual) -> None:
    await broker.send("T", b"again")
    assert bodies(await pop(broker, invisibleTime=2_000)) == ["again"]
    task = await held(broker, queueId=0)
    await broker.advance(2.2)
    assert task.done()
    (again,) = popped(await task)
    assert (again.body, again.topic) == ("again", "%RETRY%G_T")
    assert (await ack(broker, again)).code == 0


async def test_a_wait_ends_a_little_before_its_time(broker: Virtual) -> None:
    task = await held(broker, pollTime=1_500)
    await broker.advance(1.44)
    assert not task.done()
    await broker.advance(0.02)
    answer = await task
    assert (answer.code, answer.remark, answer.fields["msgOffsetInfo"]) == (210, "NO_MESSAGE_IN_QUEUE", "")
    assert waiting(broker) == 0


async def test_a_filter_that_does_not_match_waits_on(broker: Virtual) -> None:
    task = await held(broker, exp="TagA", expType="TAG")
    await broker.send("T", b"no", properties={"TAGS": "TagB"})
    await broker.clock.settle()
    assert not task.done()
    await broker.send("T", b"yes", properties={"TAGS": "TagA"})
    await broker.clock.settle()
    assert bodies(popped(await task)) == ["yes"]


async def test_an_expression_is_asked_of_what_arrives(broker: Virtual) -> None:
    task = await held(broker, exp="a > 3", expType="SQL92")
    await broker.send("T", b"no", properties={"a": "2"})
    await broker.clock.settle()
    assert not task.done()
    await broker.send("T", b"yes", properties={"a": "5"})
    await broker.clock.settle()
    assert bodies(popped(await task)) == ["yes"]


async def test_too_many_under_one_key_are_refused(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, pop_polling_size=1) as broker:
        await broker.send("T", b"first")
        await pop(broker)
        for _ in range(2):  # one more than the setting says, as in Java
            await held(broker)
        assert (await pop_answer(broker, pollTime=10_000)).code == 209
        assert (await pop_answer(broker, pollTime=0)).code == 210
        await held(broker, queueId=0)  # another key


async def test_too_many_in_all_are_refused(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, max_pop_polling_size=1) as broker:
        await broker.send("T", b"first")
        await pop(broker)
        await held(broker)
        assert (await pop_answer(broker, pollTime=10_000, queueId=0)).code == 209


async def test_who_is_gone_waits_no_longer(broker: Virtual) -> None:
    await held(broker)
    peer, broker.peer = broker.peer, FakePeer("127.0.0.1:9")
    broker.broker._connection_lost(peer)
    assert waiting(broker) == 0
    await broker.send("T", b"new")
    assert bodies(await pop(broker)) == ["new"]


async def test_a_topic_that_is_deleted_ends_its_waits(broker: Virtual) -> None:
    task = await held(broker)
    assert (await broker.call(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
    await broker.clock.settle()
    assert (await task).code == 17


async def test_a_group_that_is_deleted_ends_its_waits(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, auto_create_subscription_group=False) as broker:
        await broker.send("T", b"first")
        body = b'{"groupName":"G","consumeEnable":true,"retryQueueNums":1,"retryMaxTimes":16}'
        assert (await broker.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)).code == 0
        await pop(broker)
        task = await held(broker)
        await broker.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="G", cleanOffset=True)
        await broker.clock.settle()
        assert (await task).code == 26
        assert broker.broker.pop_parts.table.in_flight() == []


async def test_a_stop_answers_all_that_wait(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as broker:
        await broker.send("T", b"first")
        await pop(broker)
        task = await held(broker)
    assert (await task).code == 210


async def test_a_reset_wakes_who_waits(broker: Virtual) -> None:
    task = await held(broker)
    answer = await broker.call(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, topic="T", group="G", timestamp=0, isForce=True, queueId=0, offset=0
    )
    assert answer.code == 0, answer.remark
    await broker.clock.settle()
    assert bodies(popped(await task)) == ["first"]


async def test_who_loses_his_rights_before_his_pop_looks_at_the_medium_does_not_wait(
    broker: Virtual, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look begins a turn after the pop was judged."""

    async def nothing() -> None: ...

    monkeypatch.setattr(Walk, "go", lambda walk, ticket, source: nothing())
    texts = {name: str(value) for name, value in request(pollTime=10_000, bornTime=broker.clock.now_ms()).items()}
    command = Command(code=RequestCode.POP_MESSAGE, opaque=77, fields=texts)
    answer = broker.broker.listeners.dispatchers["main"](Request(command, broker.peer, broker.clock.monotonic()))
    broker.broker._rights_changed("somebody")
    reply = await await_answer(answer)
    assert reply is not None
    assert (reply.code, waiting(broker)) == (210, 0)
