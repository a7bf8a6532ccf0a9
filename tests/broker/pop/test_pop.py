"""Popping over a broker on virtual time: handing out, acknowledging, hiding for longer, and giving again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.broker.pop.popping import ack, ack_batch, bodies, change, pop, pop_answer
from tests.broker.virtual import Virtual, virtual_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Virtual]:
    async with virtual_broker(tmp_path) as running:
        yield running


async def fill(broker: Virtual, count: int, topic: str = "T", queue: int = 0) -> None:
    for number in range(count):
        key = f"{topic}{queue}{number}"
        assert (await broker.send(topic, b"m%d" % number, queue, {"UNIQ_KEY": key})).code == 0


def committed(broker: Virtual, topic: str = "T", group: str = "G", queue: int = 0) -> int | None:
    return broker.broker.offsets.find(topic, group, queue)


async def test_messages_are_handed_out_once_within_their_time(broker: Virtual) -> None:
    await fill(broker, 3)
    assert bodies(await pop(broker)) == ["m0", "m1", "m2"]
    assert await pop(broker) == []


async def test_what_is_not_acknowledged_comes_again_when_its_time_is_over(broker: Virtual) -> None:
    await fill(broker, 3)
    _, second, _ = await pop(broker, invisibleTime=10_000)
    assert (await ack(broker, second)).code == 0
    await broker.advance(9.9)
    assert await pop(broker) == []
    await broker.advance(0.2)
    again = await pop(broker)
    assert bodies(again) == ["m0", "m2"]
    assert [one.message.reconsume_times for one in again] == [1, 1]
    assert {one.topic for one in again} == {"%RETRY%G_T"}
    assert {one.message.topic for one in again} == {"T"}


async def test_the_committed_offset_is_the_first_that_is_open(broker: Virtual) -> None:
    await fill(broker, 3)
    first, second, third = await pop(broker)
    assert committed(broker) == 0
    await ack(broker, second)
    assert committed(broker) == 0
    await ack(broker, first)
    assert committed(broker) == 2
    await ack(broker, third)
    assert committed(broker) == 3
    assert broker.broker.offsets.pulled("T", "G", 0) == 3


async def test_a_second_ack_and_one_that_belongs_to_nothing_are_answered_with_success(broker: Virtual) -> None:
    await fill(broker, 1)
    (one,) = await pop(broker)
    assert [(await ack(broker, one)).code for _ in range(2)] == [0, 0]
    assert (await ack(broker, one._replace(extra_info="0 1 2 0 0 broker-a 0 0"))).code == 0
    assert (await ack(broker, one, consumerGroup="Other")).code == 0


async def test_several_messages_are_acknowledged_with_one_request(broker: Virtual) -> None:
    await fill(broker, 4)
    await fill(broker, 4, queue=1)
    messages = await pop(broker, invisibleTime=1_000)
    assert len(messages) == 8
    assert (await ack_batch(broker, [one for one in messages if one.body != "m2"])).code == 0
    await broker.advance(1.2)
    assert bodies(await pop(broker)) == ["m2", "m2"]


async def test_a_message_may_be_hidden_for_longer(broker: Virtual) -> None:
    await fill(broker, 2)
    first, _ = await pop(broker, invisibleTime=1_000)
    answer, later = await change(broker, first, 5_000)
    assert (answer.code, answer.fields["invisibleTime"]) == (0, "5000")
    assert (await ack(broker, first)).code == 0  # the old receipt: a no-op
    await broker.advance(1.2)
    assert bodies(await pop(broker, invisibleTime=60_000)) == ["m1"]
    await broker.advance(4)
    assert bodies(await pop(broker)) == ["m0"]
    assert (await ack(broker, later)).code == 0  # too late: it comes again all the same


async def test_a_changed_message_is_acknowledged_by_its_new_receipt(broker: Virtual) -> None:
    await fill(broker, 1)
    (one,) = await pop(broker, invisibleTime=1_000)
    _, later = await change(broker, one, 5_000)
    assert (await ack(broker, later)).code == 0
    await broker.advance(10)
    assert await pop(broker) == []
    assert committed(broker) == 1


async def test_a_used_receipt_makes_no_second_copy(broker: Virtual) -> None:
    await fill(broker, 3)
    await broker.advance(0.01)
    done, once, given = await pop(broker, invisibleTime=20_000)
    assert (await ack(broker, done)).code == 0
    refused, _ = await change(broker, done, 0)
    assert (refused.code, refused.fields["popTime"]) == (208, "0"), "acknowledged, while others of its pop are open"
    _, later = await change(broker, once, 5_000)
    repeated, newest = await change(broker, once, 6_000)
    assert repeated.code == 0, "a client that has lost the first answer"
    assert newest.extra_info != later.extra_info
    assert (await ack(broker, newest)).code == 0
    assert (await change(broker, once, 0))[0].code == 208
    await change(broker, given, 0)
    await broker.advance(0.2)
    assert (await change(broker, given, 0))[0].code == 208, "given again"
    await broker.advance(30)
    assert bodies(await pop(broker)) == ["m2"]


async def test_a_change_after_the_ack_of_the_last_message_of_a_pop(broker: Virtual) -> None:
    """Nothing of its check point is in the table then."""
    await fill(broker, 1)
    await broker.advance(0.01)
    (one,) = await pop(broker, invisibleTime=20_000)
    assert (await ack(broker, one)).code == 0
    assert (await change(broker, one, 1_000))[0].code == 208
    await broker.advance(5)
    assert await pop(broker) == []


async def test_a_suspended_message_keeps_its_count(broker: Virtual) -> None:
    await fill(broker, 1)
    (one,) = await pop(broker)
    await change(broker, one, 0, suspend=True)
    await broker.advance(0.2)
    (again,) = await pop(broker)
    assert again.message.reconsume_times == 0
    await change(broker, again, 0)
    await broker.advance(0.2)
    (third,) = await pop(broker)
    assert third.message.reconsume_times == 1
    await change(broker, third, 0)
    await broker.advance(0.2)
    (fourth,) = await pop(broker)
    assert fourth.message.reconsume_times == 2
    assert fourth.message.properties["1ST_POP_TIME"] == third.message.properties["1ST_POP_TIME"]


async def test_the_answer_names_what_was_found_and_what_is_left(broker: Virtual) -> None:
    await fill(broker, 3)
    answer = await pop_answer(broker, maxMsgNums=2, queueId=0)
    assert answer.remark == "FOUND"
    assert answer.fields["startOffsetInfo"] == "0 0 0"
    assert answer.fields["msgOffsetInfo"] == "0 0 0,1"
    assert answer.fields["restNum"] == "1"
    assert "orderCountInfo" not in answer.fields
