"""Offsets: asked for, committed, reset by number and by time, cloned; over the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.bodies.body import decode_body
from pyromq.protocol.bodies.offsets import ConsumerOffsetSerializeWrapper, GetConsumerStatusBody, ResetOffsetBody
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker, turns_until
from tests.wire import decode_messages


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        yield running


def key(queue: int = 0, **extra: Any) -> dict[str, Any]:
    return {"consumerGroup": "G", "topic": "T", "queueId": queue} | extra


async def beat(broker: Running) -> None:
    data = {"groupName": "G", "subscriptionDataSet": [{"topic": "T", "subString": "*", "subVersion": 1}]}
    await broker.call(RequestCode.HEART_BEAT, json.dumps({"clientID": "c1", "consumerDataSet": [data]}).encode())


async def test_a_new_group_begins_at_0_while_everything_is_there(broker: Running) -> None:
    query = RequestCode.QUERY_CONSUMER_OFFSET
    assert (await broker.call(query, **key())).code == ResponseCode.QUERY_NOT_FOUND  # nothing was ever sent
    await broker.send()
    assert (await broker.call(query, **key())).fields == {"offset": "0"}
    assert (await broker.call(query, **key(setZeroIfNotFound=False))).code == ResponseCode.QUERY_NOT_FOUND
    broker.broker.store.queues.get("T", 0).tail.min_offset = 1  # type: ignore[union-attr]
    assert (await broker.call(query, **key())).code == ResponseCode.QUERY_NOT_FOUND


async def test_an_offset_is_committed_and_found_again(broker: Running) -> None:
    update = RequestCode.UPDATE_CONSUMER_OFFSET
    assert (await broker.call(update, **key(commitOffset=7))).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    await beat(broker)
    assert (await broker.call(update, **key(commitOffset=7))).code == ResponseCode.TOPIC_NOT_EXIST
    await broker.send()
    await broker.pull()  # before that, what a member commits is of a topic that was deleted
    assert (await broker.call(update, **key(commitOffset=-1))).code == ResponseCode.INVALID_PARAMETER
    assert (await broker.call(update, **key(commitOffset=7))).code == 0
    assert (await broker.call(RequestCode.QUERY_CONSUMER_OFFSET, **key())).fields == {"offset": "7"}
    everything = decode_body(
        ConsumerOffsetSerializeWrapper, (await broker.call(RequestCode.GET_ALL_CONSUMER_OFFSET)).body
    )
    assert everything.offset_table == {"T@G": {0: 7, 1: 0, 2: 0, 3: 0}}
    assert everything.group_topic_map == {"G": ["T"]}


async def reset(broker: Running, **extra: Any) -> Command:
    fields: dict[str, Any] = {"group": "G", "topic": "T", "timestamp": 0, "isForce": True}
    return await broker.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **(fields | extra))


async def test_a_reset_by_number_holds_until_a_member_has_gone_there(broker: Running) -> None:
    await beat(broker)
    for _ in range(5):
        await broker.send()
    await broker.pull(commitOffset=5, sysFlag=5, offset=5)
    answer = await reset(broker, queueId=0, offset=2)
    assert {queue.queue_id: at for queue, at in decode_body(ResetOffsetBody, answer.body).offset_table.items()} == {
        0: 2
    }
    ignored = await broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, **key(commitOffset=5))
    assert (ignored.code, ignored.remark) == (0, "Offset has been previously reset")
    moved = await broker.pull(offset=5)
    assert (moved.code, moved.fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "2")
    late = await broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, **key(commitOffset=5))  # as Java's, for ten seconds
    assert (late.remark, broker.broker.offsets.find("T", "G", 0)) == ("Offset has been previously reset", 2)
    assert (await broker.pull(offset=2)).code == 0
    assert (await broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, **key(commitOffset=3))).code == 0
    assert broker.broker.offsets.find("T", "G", 0) == 3


async def test_a_reset_by_time_finds_the_first_message_not_before_it(broker: Running) -> None:
    await beat(broker)
    for _ in range(5):
        await broker.send()
        await asyncio.sleep(0.003)
    times = [message.store_timestamp for message in decode_messages((await broker.pull()).body)]
    await reset(broker, timestamp=times[3])
    assert broker.broker.offsets.find("T", "G", 0) == times.index(times[3])
    await reset(broker, timestamp=times[3] + 1)
    assert broker.broker.offsets.find("T", "G", 0) == next(i for i, at in enumerate(times) if at > times[3])
    await reset(broker, timestamp=-1)
    assert broker.broker.offsets.queues("T", "G") == {0: 5, 1: 0, 2: 0, 3: 0}


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ({"topic": "Missing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"group": "Missing"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"queueId": 0, "offset": 99}, ResponseCode.SYSTEM_ERROR),
        ({"queueId": 77}, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_reset_that_cannot_be_is_refused(broker: Running, extra: dict[str, object], code: int) -> None:
    await broker.send()
    await beat(broker)
    assert (await reset(broker, **extra)).code == code
    assert broker.broker.offsets.queues("T", "G") == {}


async def test_the_old_way_tells_the_clients(tmp_path: Path) -> None:
    async with running_broker(tmp_path, use_server_side_reset_offset=False) as broker:
        await broker.send()
        unknown = await reset(broker)
        assert (unknown.code, unknown.remark) == (ResponseCode.SYSTEM_ERROR, "THe consumer group <G> not exist")
        for queue in range(4):
            broker.broker.offsets.commit("T", "G", queue, 1)
        assert (await reset(broker)).code == ResponseCode.CONSUMER_NOT_ONLINE
        await beat(broker)
        assert (await reset(broker)).code == 0
        await turns_until(lambda: RequestCode.RESET_CONSUMER_CLIENT_OFFSET in [one.code for one in broker.received])
        (told,) = [one for one in broker.received if one.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET]
        assert told.fields == {"group": "G", "topic": "T", "queueId": "-1", "timestamp": "0", "isForce": "true"}
        table = decode_body(ResetOffsetBody, told.body).offset_table
        assert {queue.queue_id: at for queue, at in table.items()} == {0: 0, 1: 0, 2: 0, 3: 0}
        assert broker.broker.offsets.find("T", "G", 0) == 1  # the client moves by itself


async def test_offsets_that_clients_hold_are_asked_for(broker: Running) -> None:
    ask: dict[str, Any] = {"group": "G", "topic": "T"}
    offline = await broker.call(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, **ask)
    assert offline.code == ResponseCode.CONSUMER_NOT_ONLINE
    await beat(broker)
    answer = await broker.call(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, **ask)
    assert (answer.code, decode_body(GetConsumerStatusBody, answer.body).consumer_table) == (0, {})
    assert [one.code for one in broker.received][-1] == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT


async def test_clone_copies_one_topic_or_all(broker: Running) -> None:
    for topic in ("T", "U"):
        await broker.send(topic)
        broker.broker.offsets.commit(topic, "G", 0, 1)
    clone = RequestCode.CLONE_GROUP_OFFSET
    assert (await broker.call(clone, srcGroup="G", destGroup="H", topic="T", offline=True)).code == 0
    assert broker.broker.offsets.topics_of("H") == ["T"]
    await broker.call(clone, srcGroup="G", destGroup="I", offline=True)
    assert broker.broker.offsets.topics_of("I") == ["T", "U"]


async def test_the_smallest_offset_of_all_groups_is_found(broker: Running) -> None:
    await broker.send()
    for group, offset in (("A", 5), ("B", 3), ("C", 9)):
        broker.broker.offsets.commit("T", group, 0, offset)

    async def ask(**extra: Any) -> bytes:
        return bytes((await broker.call(RequestCode.QUERY_CORRECTION_OFFSET, topic="T", **extra)).body)

    assert await ask(compareGroup="C") == b'{"correctionOffsets":{0:3}}'
    assert await ask(compareGroup="C", filterGroups="B") == b'{"correctionOffsets":{0:5}}'
    assert await ask(compareGroup="B", filterGroups="B") == b'{"correctionOffsets":{0:9223372036854775807}}'
