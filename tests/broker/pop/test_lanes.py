"""Where groups begin and go on, which queues come first, and what moves a group: resets, deletions, pulls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pyromq.kernel.records import Range
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.requests import RequestCode
from tests.broker.pop.popping import Popped, ack, bodies, pop, pop_answer
from tests.broker.virtual import Virtual, virtual_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Virtual]:
    async with virtual_broker(tmp_path) as running:
        yield running


async def fill(broker: Virtual, count: int, topic: str = "T", queue: int = 0) -> None:
    for number in range(count):
        answer = await broker.send(topic, b"%d" % number, queue, {"UNIQ_KEY": f"{topic}{queue}{number}"})
        assert answer.code == 0, answer.remark


def choose(broker: Virtual, chance: int) -> None:
    broker.broker.pop_parts.handler.pick = lambda _: chance


# --- where a group begins ---------------------------------------------------------------------------------------------


async def test_a_new_group_begins_with_the_first_message(broker: Virtual) -> None:
    await fill(broker, 3)
    assert bodies(await pop(broker, initMode=0)) == ["0", "1", "2"]


async def test_a_new_group_at_the_end_reads_a_young_topic_whole(broker: Virtual) -> None:
    await fill(broker, 3)
    assert bodies(await pop(broker, initMode=1)) == ["0", "1", "2"]


async def test_a_new_group_at_the_end_gets_the_last_message(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, init_pop_offset_by_check_msg_in_mem=False) as broker:
        await fill(broker, 3)
        assert bodies(await pop(broker, initMode=1)) == ["2"]
        await fill(broker, 1)
        assert bodies(await pop(broker, initMode=1)) == ["0"]


async def test_a_group_at_the_end_gets_all_that_comes_after_its_first_pop(tmp_path: Path) -> None:
    """Also of queues that no pop has reached yet, and of those that had no message then."""
    async with virtual_broker(tmp_path, init_pop_offset_by_check_msg_in_mem=False) as broker:
        await fill(broker, 3, queue=0)
        await fill(broker, 3, queue=1)
        got = await pop(broker, initMode=1, maxMsgNums=1)
        for queue in range(4):
            await fill(broker, 2, queue=queue)
        got += await pop(broker, initMode=1)
        last = [(0, "2"), (1, "2")]
        later = [(queue, body) for queue in range(4) for body in ("0", "1")]
        assert sorted((one.queue_id, one.body) for one in got) == sorted(last + later)


async def test_whether_a_topic_is_young_is_one_answer_for_all_its_queues(
    broker: Virtual, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its oldest message says so; those of other queues may have left memory meanwhile."""
    for queue in range(3):
        await fill(broker, 3, queue=queue)
    reader = broker.broker.store.reader
    first = broker.broker.store.queues.get("T", 0)
    assert first is not None
    entry, resident = first.entry_at(0), reader.read_resident
    assert entry is not None

    def only_the_first(ranges: Sequence[Range]) -> list[bytes] | None:
        return resident(ranges) if len(ranges) != 1 or ranges[0].position == entry.position else None

    with monkeypatch.context() as patch:
        patch.setattr(reader, "read_resident", only_the_first)
        assert bodies(await pop(broker, initMode=1, queueId=2)) == ["0", "1", "2"]
    assert [broker.broker.offsets.find("T", "G", queue) for queue in range(4)] == [0, 0, 0, 0]


async def test_where_a_group_begins_is_committed_at_once(broker: Virtual) -> None:
    await fill(broker, 1, queue=1)
    await pop(broker, queueId=0)
    assert broker.broker.offsets.find("T", "G", 0) == 0


async def test_an_offset_outside_of_the_queue_is_corrected(broker: Virtual) -> None:
    await fill(broker, 2)
    await pop(broker, group="Other")  # makes nothing of G's
    broker.broker.groups.ensure("G", broker.broker.live.config)
    broker.broker.offsets.commit("T", "G", 0, 99)
    assert await pop(broker) == []
    assert broker.broker.offsets.find("T", "G", 0) == 2


# --- which queues -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("chance", "order"), [(99, [2, 1, 0, 3]), (20, [3, 2, 1, 0])])
async def test_queues_are_looked_through_from_one_that_chance_chooses(
    broker: Virtual, chance: int, order: list[int]
) -> None:
    for queue in range(4):
        await fill(broker, 1, queue=queue)
    choose(broker, chance)
    assert [one.queue_id for one in await pop(broker)] == order


async def expired(broker: Virtual, **settings: Any) -> list[Popped]:
    await fill(broker, 1)
    messages = await pop(broker, invisibleTime=1_000, **settings)
    await broker.advance(1.2)
    return messages


@pytest.mark.parametrize(("chance", "first"), [(19, "%RETRY%G_T"), (20, "T")])
async def test_one_pop_in_five_looks_into_the_retry_topic_first(broker: Virtual, chance: int, first: str) -> None:
    await expired(broker)
    await broker.send("T", b"new")
    choose(broker, chance)
    assert [one.topic for one in await pop(broker, maxMsgNums=1)] == [first]


async def test_retry_topics_of_the_second_form(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, enable_retry_topic_v2=True) as broker:
        choose(broker, 99)
        await expired(broker)
        choose(broker, 98)  # an even number: the first form is looked for
        assert await pop(broker) == []
        choose(broker, 99)
        answer = await pop_answer(broker)
        assert answer.fields["msgOffsetInfo"] == "2 0 0"
        assert broker.bodies("%RETRY%G+T") == ["0"]


async def test_only_the_second_form_if_the_first_is_not_wanted(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"enable_retry_topic_v2": True, "retrieve_message_from_pop_retry_topic_v1": False}
    async with virtual_broker(tmp_path, **settings) as broker:
        choose(broker, 98)
        await expired(broker)
        assert [one.topic for one in await pop(broker)] == ["%RETRY%G+T"]


async def test_a_retry_topic_may_have_the_queues_of_its_topic(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, use_separate_retry_queue=True) as broker:
        await fill(broker, 1, queue=2)
        await pop(broker, invisibleTime=1_000)
        await broker.advance(1.2)
        (again,) = await pop(broker)
        assert (again.topic, again.queue_id) == ("%RETRY%G_T", 2)


async def test_messages_of_a_retry_topic_may_keep_its_name(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, pop_response_return_actual_retry_topic=True) as broker:
        await expired(broker)
        (again,) = await pop(broker)
        assert again.message.topic == "%RETRY%G_T"
        assert "POP_CK" not in again.message.properties


async def test_urgent_messages_of_a_priority_topic_come_first(broker: Virtual) -> None:
    attributes = {"message.type": "PRIORITY"}
    topic = TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4, perm=6, attributes=attributes)
    broker.broker.topics.put(topic)
    for priority in (0, 3, 9, 1):
        answer = await broker.send("T", b"%d" % priority, 0, {"_SYS_MSG_PRIORITY_": str(priority)})
        assert answer.fields["queueId"] == str(min(priority, 3))
    choose(broker, 50)
    assert bodies(await pop(broker)) == ["3", "9", "1", "0"]


async def test_a_queue_with_too_much_in_flight_is_passed_over(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"enable_pop_message_threshold": True, "pop_inflight_message_threshold": 2}
    async with virtual_broker(tmp_path, **settings) as broker:
        await fill(broker, 5)
        assert len(await pop(broker, maxMsgNums=3)) == 3
        answer = await pop_answer(broker)
        assert (answer.code, answer.fields["restNum"]) == (210, "2")


async def test_a_big_message_comes_alone(broker: Virtual) -> None:
    for body in (b"a" * 300_000, b"b" * 300_000):
        assert (await broker.send("T", body)).code == 0
    assert [len(one.body) for one in await pop(broker)] == [300_000]
    assert [one.body[0] for one in await pop(broker)] == ["b"]


# --- what moves a group -----------------------------------------------------------------------------------------------


async def test_a_reset_drops_what_is_in_flight(broker: Virtual) -> None:
    await fill(broker, 3)
    await pop(broker, invisibleTime=2_000)
    answer = await broker.call(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, topic="T", group="G", timestamp=0, isForce=True, queueId=0, offset=1
    )
    assert answer.code == 0, answer.remark
    again = await pop(broker)
    assert bodies(again) == ["1", "2"]
    for one in again:
        await ack(broker, one)
    await broker.advance(5)
    assert await pop(broker) == []
    assert broker.broker.offsets.find("T", "G", 0) == 3


async def test_a_deleted_topic_takes_what_is_in_flight_along(broker: Virtual) -> None:
    await fill(broker, 3)
    (first, *_) = await pop(broker, invisibleTime=2_000)
    assert (await broker.call(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
    assert (await ack(broker, first)).code == 17
    assert broker.broker.pop_parts.table.in_flight() == []
    await fill(broker, 1)
    await broker.advance(5)
    assert bodies(await pop(broker)) == ["0"]


async def test_a_deleted_group_begins_anew(broker: Virtual) -> None:
    await fill(broker, 2)
    await pop(broker, invisibleTime=2_000)
    await broker.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="G", cleanOffset=True)
    assert broker.broker.pop_parts.table.in_flight() == []
    assert bodies(await pop(broker)) == ["0", "1"]


async def test_a_group_that_pulls_after_popping_repeats_nothing(broker: Virtual) -> None:
    await fill(broker, 4)
    (first, second) = await pop(broker, maxMsgNums=2, invisibleTime=30_000)
    await ack(broker, first)
    answer = await broker.call(RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup="G", topic="T", queueId=0)
    assert answer.fields["offset"] == "2"
    assert [one.body for one in await broker.pulled("T", offset=2, group="G")] == [b"2", b"3"]
    assert (await ack(broker, second)).code == 0  # it left memory and is acknowledged all the same
    await broker.advance(60)
    assert broker.bodies("%RETRY%G_T") == []


async def test_what_left_memory_comes_again_if_nobody_acknowledges_it(broker: Virtual) -> None:
    await fill(broker, 2)
    await pop(broker, invisibleTime=30_000)
    assert [one.body for one in await broker.pulled("T", offset=2, group="G")] == []
    await broker.advance(45)
    assert broker.bodies("%RETRY%G_T") == ["0", "1"]


async def test_a_member_that_commits_while_others_pop_is_believed(broker: Virtual) -> None:
    await fill(broker, 4)
    await pop(broker, maxMsgNums=2, invisibleTime=30_000)
    answer = await broker.call(
        RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="G", topic="T", queueId=0, commitOffset=3
    )
    assert answer.code == 0, answer.remark
    assert bodies(await pop(broker)) == ["3"]


async def test_figures_tell_what_is_in_flight(broker: Virtual) -> None:
    await fill(broker, 5)
    (first, *_) = await pop(broker, maxMsgNums=3)
    await ack(broker, first)
    table = json.loads(bytes((await broker.call(RequestCode.GET_BROKER_RUNTIME_INFO)).body))["table"]
    shown = {name: table[f"pyromqPop{name}"] for name in ("InFlight", "CheckPoints", "Waiting", "Acked", "Lost")}
    assert shown == {"InFlight": "2", "CheckPoints": "1", "Waiting": "0", "Acked": "1", "Lost": "0"}
    inspected = json.loads(bytes((await broker.call(RequestCode.INSPECT)).body))
    assert inspected["parked"] == {"popped messages, in flight": 2}


async def test_progress_shows_what_is_in_flight(broker: Virtual) -> None:
    await fill(broker, 5)
    (first, *_) = await pop(broker, maxMsgNums=3)
    await ack(broker, first)
    answer = await broker.call(RequestCode.GET_CONSUME_STATS, consumerGroup="G", topic="T")
    text = bytes(answer.body).decode()
    assert '"consumerOffset":1' in text
    assert '"pullOffset":3' in text


async def test_a_group_that_only_pops_is_known_by_what_it_asks_for(broker: Virtual) -> None:
    await fill(broker, 1)
    await pop(broker, exp="TagA || TagB", expType="TAG")

    async def told(topic: str) -> Any:
        answer = await broker.call(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, group="G", topic=topic)
        return json.loads(bytes(answer.body)).get("subscriptionData")

    assert (await told("T"))["tagsSet"] == ["TagA", "TagB"]
    assert (await told("%RETRY%G_T"))["subString"] == "*"
    assert await told("Other") is None
    await broker.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="G", cleanOffset=True)
    assert await told("T") is None
