"""A queue that appears while a group exists belongs to the group from its first message; what asks for it gets that."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker

NOT_FOUND = ResponseCode.QUERY_NOT_FOUND
LAST, FIRST = "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        yield running


async def topic(broker: Running, queues: int, read: int | None = None, name: str = "T") -> None:
    fields: dict[str, Any] = {"topic": name, "defaultTopic": "TBW102", "perm": 6, "topicFilterType": "SINGLE_TAG"}
    fields |= {"readQueueNums": queues if read is None else read, "writeQueueNums": queues, "order": False}
    assert (await broker.call(RequestCode.UPDATE_AND_CREATE_TOPIC, **fields)).code == 0


async def beat(broker: Running, topic: str = "T", **more: Any) -> None:
    """As a Java push consumer of group G says it, unless `more` does."""
    data = {
        "groupName": "G",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": LAST,
        "subscriptionDataSet": [{"topic": topic, "subString": "*", "subVersion": 1}],
    } | more
    await broker.call(RequestCode.HEART_BEAT, json.dumps({"clientID": "c1", "consumerDataSet": [data]}).encode())


async def offsets(broker: Running, queues: int = 4, name: str = "T", **more: Any) -> list[str | None]:
    """What a client is answered for each queue; None: not found."""
    found = []
    for queue_id in range(queues):
        fields: dict[str, Any] = {"consumerGroup": "G", "topic": name, "queueId": queue_id} | more
        found.append((await broker.call(RequestCode.QUERY_CONSUMER_OFFSET, **fields)).fields.get("offset"))
    return found


async def stored(broker: Running) -> list[str | None]:
    """What the group has on the broker; answers to SDKs that decide by themselves show just that."""
    return await offsets(broker, setZeroIfNotFound=False)


async def commit(broker: Running, queue_id: int, offset: int, group: str = "G") -> None:
    fields: dict[str, Any] = {"consumerGroup": group, "topic": "T", "queueId": queue_id, "commitOffset": offset}
    assert (await broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, **fields)).code == 0


async def test_a_group_with_an_offset_gets_one_of_each_new_queue(broker: Running) -> None:
    await topic(broker, 2)
    await beat(broker, "Other")  # the group is known; nobody consumes this topic now
    await commit(broker, 0, 5)
    await topic(broker, 4)
    assert await stored(broker) == ["5", None, "0", "0"]


async def test_a_group_with_a_consumer_gets_them_without_having_committed(broker: Running) -> None:
    await topic(broker, 2)
    await beat(broker)
    await topic(broker, 4)
    assert await stored(broker) == [None, None, "0", "0"]


async def test_a_topic_that_is_made_while_a_consumer_waits_for_it(broker: Running) -> None:
    await beat(broker)
    await broker.send()  # makes it
    assert await stored(broker) == ["0"] * 4


async def test_it_is_so_after_a_restart_and_files_give_nobody_an_offset(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await topic(broker, 2)
        await beat(broker)
        await topic(broker, 4)
    async with running_broker(tmp_path) as broker:
        assert await stored(broker) == [None, None, "0", "0"]
        await beat(broker)
        await topic(broker, 4, read=5)
        assert await offsets(broker, 5, setZeroIfNotFound=False) == [None, None, "0", "0", "0"]


async def test_queues_that_are_written_before_they_can_be_read(broker: Running) -> None:
    await topic(broker, 2)
    await topic(broker, 4, read=2)
    await beat(broker)
    await broker.send(queue=3)
    await topic(broker, 4)
    assert await stored(broker) == [None, None, "0", "0"]


async def test_a_smaller_topic_that_grows_again_keeps_offsets_and_begins_at_the_first_that_is_left(
    broker: Running,
) -> None:
    await topic(broker, 4)
    await beat(broker)
    for _ in range(3):
        await broker.send(queue=2)
        await broker.send(queue=3)
    await commit(broker, 3, 2)
    broker.broker.store.queues.get("T", 2).tail.min_offset = 1  # type: ignore[union-attr]
    await topic(broker, 2)
    await topic(broker, 4)
    assert await stored(broker) == [None, None, "1", "2"]


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restart"])
async def test_members_of_a_topic_that_was_deleted_are_sent_to_the_first_message_of_the_new_one(
    tmp_path: Path, restarts: bool
) -> None:
    """Java's members keep their offsets, pull with them and commit them."""
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(running_broker(tmp_path))
        await topic(broker, 1)
        await beat(broker)
        await commit(broker, 0, 2)
        assert (await broker.call(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
        assert (await broker.pull(offset=2)).code == ResponseCode.TOPIC_NOT_EXIST
        if restarts:
            await stack.pop_all().aclose()
            broker = await stack.enter_async_context(running_broker(tmp_path))
            await beat(broker)
        await topic(broker, 1)
        for _ in range(5):
            await broker.send()
        await commit(broker, 0, 2)
        moved = await broker.pull(offset=2, commitOffset=2, sysFlag=5)
        assert (moved.code, moved.fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")
        await commit(broker, 0, 2)  # until it begins anew
        assert await stored(broker) == ["0", None, None, None]
        assert (await broker.pull()).code == ResponseCode.SUCCESS
        await commit(broker, 0, 5)
        assert await stored(broker) == ["5", None, None, None]


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restart"])
async def test_a_group_that_is_offline_while_its_topic_is_made_again_reads_the_new_one(
    tmp_path: Path, restarts: bool
) -> None:
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(running_broker(tmp_path))
        await topic(broker, 1)
        await beat(broker, "Other")
        await commit(broker, 0, 2)
        for _ in range(2):  # a topic that nobody consumed in between changes nothing
            assert (await broker.call(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
            if restarts:
                await stack.pop_all().aclose()
                broker = await stack.enter_async_context(running_broker(tmp_path))
            assert await stored(broker) == [None] * 4
            await topic(broker, 2)
            assert await stored(broker) == ["0", "0", None, None]


async def test_a_group_that_is_deleted_meanwhile_is_forgotten(broker: Running) -> None:
    await topic(broker, 1)
    await beat(broker, "Other")
    await commit(broker, 0, 2)
    assert (await broker.call(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
    deleted = await broker.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="G", cleanOffset=True)
    assert deleted.code == 0
    await topic(broker, 1)
    assert await stored(broker) == [None] * 4


async def test_members_that_may_seek_are_left_where_they_are(broker: Running) -> None:
    await beat(broker, consumeType="CONSUME_ACTIVELY")
    for _ in range(5):
        await broker.send()
    assert (await broker.pull(offset=3)).code == ResponseCode.SUCCESS


async def test_broadcast_groups_retry_topics_and_strangers_get_none(broker: Running) -> None:
    await beat(broker, messageModel="BROADCASTING")
    await topic(broker, 2)
    await topic(broker, 4)
    assert await stored(broker) == [None] * 4
    assert not broker.broker.offsets.all()


# --- a client that asks while nothing is there ------------------------------------------------------------------------


async def test_the_end_of_a_java_push_consumer_is_where_it_asked(broker: Running) -> None:
    """It would ask for the queue's end in a second request, and miss what is stored between the two."""
    await topic(broker, 1)
    for _ in range(3):
        await broker.send()
    broker.broker.store.queues.get("T", 0).tail.min_offset = 1  # type: ignore[union-attr]
    assert await offsets(broker, 1) == [None]  # nobody knows what the asker wants
    await beat(broker)
    assert await offsets(broker, 1, setZeroIfNotFound=False) == [None]
    assert await offsets(broker, 1) == ["3"]
    await broker.send()
    assert await offsets(broker, 1) == ["3"]  # another member, or this one after a crash


async def test_an_empty_queue_begins_at_0_for_every_consumer(broker: Running) -> None:
    await topic(broker, 1)
    assert await offsets(broker, 1) == [None]
    for more in ({"consumeFromWhere": FIRST}, {"consumeType": "CONSUME_ACTIVELY"}, {}):
        await beat(broker, **more)
        assert await offsets(broker, 1) == ["0"]
        assert bool(broker.broker.offsets.all()) == (not more)  # remembered for the push consumer alone


@pytest.mark.parametrize(
    "more",
    [{"consumeFromWhere": FIRST}, {"consumeType": "CONSUME_ACTIVELY"}, {"consumeFromWhere": "CONSUME_FROM_TIMESTAMP"}],
    ids=["first", "pull", "time"],
)
async def test_others_decide_by_themselves_where_an_old_queue_begins(broker: Running, more: dict[str, str]) -> None:
    await topic(broker, 1)
    await broker.send()
    broker.broker.store.queues.get("T", 0).tail.min_offset = 1  # type: ignore[union-attr]
    await beat(broker, **more)
    assert await offsets(broker, 1) == [None]
    assert not broker.broker.offsets.all()


async def test_retries_are_read_from_the_first_and_unknown_queues_have_no_end(broker: Running) -> None:
    await beat(broker)
    assert await offsets(broker, 1, "%RETRY%G") == ["0"]
    assert await offsets(broker, 1, "Nowhere") == [None]
    await topic(broker, 1)
    assert await offsets(broker, 2) == ["0", None]
    await broker.send("%RETRY%G")
    broker.broker.store.queues.get("%RETRY%G", 0).tail.min_offset = 1  # type: ignore[union-attr]
    assert await offsets(broker, 1, "%RETRY%G") == [None]
