"""Administration of topics over the wire: made, changed, refused, listed, deleted with all that hangs on it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        yield running


async def create(broker: Running, topic: str = "T", **extra: object) -> Command:
    fields: dict[str, Any] = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": 4,
        "writeQueueNums": 4,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "order": False,
    }
    return await broker.call(RequestCode.UPDATE_AND_CREATE_TOPIC, **(fields | extra))


async def test_a_topic_is_on_disk_when_it_is_answered(broker: Running) -> None:
    assert (await create(broker, readQueueNums=3, attributes="+message.type=FIFO")).code == 0
    file = broker.broker.live.config.store_path_root_dir / "config" / "topics.json"
    kept = json.loads(file.read_text())["topicConfigTable"]["T"]
    assert (kept["readQueueNums"], kept["attributes"]) == (3, {"message.type": "FIFO"})


async def test_a_topic_that_cannot_be_written_is_no_internal_error(broker: Running, tmp_path: Path) -> None:
    aside = tmp_path / "config" / "topics.json.tmp"
    await broker.broker.tables.topic_save.saved()
    aside.mkdir()
    answer = await create(broker)
    assert (answer.code, "not on disk yet" in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True), answer
    assert str(aside) in (answer.remark or "")
    aside.rmdir()
    assert (await create(broker)).code == ResponseCode.SUCCESS


async def test_a_change_keeps_what_it_does_not_name(broker: Running) -> None:
    await create(broker, attributes="+message.type=FIFO")
    await create(broker, perm=4, attributes="")
    topic = broker.broker.topics.find("T")
    assert topic is not None
    assert (topic.perm, topic.attributes) == (4, {"message.type": "FIFO"})


@pytest.mark.parametrize(
    ("extra", "code", "remark"),
    [
        ({"topic": "bad topic"}, ResponseCode.INVALID_PARAMETER, "may hold only"),
        ({"topic": "TBW102"}, ResponseCode.INVALID_PARAMETER, "conflict with system topic"),
        ({"topic": "broker-a"}, ResponseCode.INVALID_PARAMETER, "conflict with system topic"),
        ({"perm": 99}, ResponseCode.INVALID_PARAMETER, "perm 99"),
        ({"readQueueNums": -1}, ResponseCode.INVALID_PARAMETER, "readQueueNums -1"),
        ({"writeQueueNums": 1 << 20}, ResponseCode.INVALID_PARAMETER, "from 0 to 65536"),
        ({"topicFilterType": "NONE"}, ResponseCode.SYSTEM_ERROR, "SINGLE_TAG, MULTI_TAG"),
        ({"attributes": "+nonsense=1"}, ResponseCode.SYSTEM_ERROR, "unsupported key: nonsense"),
        ({"attributes": "+message.type=MIXED"}, ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported"),
    ],
)
async def test_what_may_not_be_is_refused_and_changes_nothing(
    broker: Running, extra: dict[str, Any], code: int, remark: str
) -> None:
    before = broker.broker.topics.version
    answer = await create(broker, **({"topic": "T"} | extra))
    assert (answer.code, remark in (answer.remark or "")) == (code, True), answer.remark
    assert broker.broker.topics.version == before


async def test_the_queues_of_an_ordered_topic_change_when_all_is_consumed_or_by_force(broker: Running) -> None:
    """Of a key that moves, a message in the old queue may be overtaken by the next one in the new queue."""
    await create(broker, order=True)
    assert (await create(broker, order=True, writeQueueNums=5)).code == 0, "nothing is there yet"
    assert (await broker.send("T", queue=1)).code == 0
    refused = await create(broker, order=True, writeQueueNums=8)
    assert refused.code == ResponseCode.INVALID_PARAMETER
    assert "1 messages are not consumed" in (refused.remark or "")
    assert "pyromq topic update T --queues 8 --move-keys" in (refused.remark or "")
    assert (await create(broker, order=True, writeQueueNums=5, perm=4)).code == 0
    offsets = broker.broker.offsets
    offsets.commit("T", "fast", 1, 1)
    assert (await create(broker, order=True, writeQueueNums=8)).code == 0, "consumed"
    offsets.commit("T", "slow", 0, 0)
    assert (await create(broker, order=True, writeQueueNums=9)).code == ResponseCode.INVALID_PARAMETER
    assert (await create(broker, order=True, writeQueueNums=9, force=True)).code == 0


async def test_many_are_made_together_or_not_at_all(broker: Running) -> None:
    def body(*names: str) -> bytes:
        return json.dumps({"topicConfigList": [{"topicName": name, "readQueueNums": 2} for name in names]}).encode()

    refused = await broker.call(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body("A", "not good"))
    assert refused.code == ResponseCode.INVALID_PARAMETER
    assert "A" not in broker.broker.topics
    assert (await broker.call(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body("A", "B"))).code == 0
    assert "B" in broker.broker.topics


async def test_the_table_is_told_whole_or_in_pages(broker: Running) -> None:
    whole = await broker.call(RequestCode.GET_ALL_TOPIC_CONFIG)
    content = json.loads(bytes(whole.body))
    assert set(content["topicConfigTable"]) == set(broker.broker.topics.all())
    assert whole.fields["totalTopicNum"] == str(len(broker.broker.topics))
    version = json.dumps(content["dataVersion"])
    seen: list[str] = []
    while len(seen) < len(broker.broker.topics):
        page = await broker.call(
            RequestCode.GET_ALL_TOPIC_CONFIG, topicSeq=len(seen), maxTopicNum=5, dataVersion=version
        )
        seen += json.loads(bytes(page.body))["topicConfigTable"]
    assert seen == sorted(broker.broker.topics.all())
    outdated = await broker.call(
        RequestCode.GET_ALL_TOPIC_CONFIG, topicSeq=10, maxTopicNum=2, dataVersion='{"counter":7}'
    )
    assert list(json.loads(bytes(outdated.body))["topicConfigTable"]) == seen[:2]


async def test_one_topic_and_the_system_s_own(broker: Running) -> None:
    await create(broker)
    one = json.loads(bytes((await broker.call(RequestCode.GET_TOPIC_CONFIG, topic="T")).body))
    assert (one["topicName"], one["writeQueueNums"]) == ("T", 4)
    assert (await broker.call(RequestCode.GET_TOPIC_CONFIG, topic="U")).code == ResponseCode.TOPIC_NOT_EXIST
    system = json.loads(bytes((await broker.call(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).body))
    assert {"TBW102", "broker-a", "DefaultCluster"} <= set(system["topicList"])


async def test_a_deleted_topic_leaves_nothing_and_comes_back_empty(broker: Running) -> None:
    await broker.send("T")
    await broker.pull("T", commitOffset=1, sysFlag=5)
    broker.broker.topics.put(TopicConfig(topic_name="%RETRY%G_T"))
    assert (await broker.call(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
    assert "T" not in broker.broker.topics
    assert "%RETRY%G_T" not in broker.broker.topics
    assert broker.broker.offsets.find("T", "G", 0) is None
    assert not (broker.broker.live.config.store_path_root_dir / "consumequeue" / "T").exists()
    assert (await broker.pull("T")).code == ResponseCode.TOPIC_NOT_EXIST
    assert (await broker.send("T", b"again")).fields["queueOffset"] == "0"


async def test_system_topics_are_not_deleted(broker: Running) -> None:
    answer = await broker.call(RequestCode.DELETE_TOPIC_IN_BROKER, topic="TBW102")
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "TBW102" in broker.broker.topics


async def test_queues_without_a_topic_are_cleaned_up(broker: Running) -> None:
    await broker.send("T")
    broker.broker.topics.delete("T")
    assert (await broker.call(RequestCode.CLEAN_UNUSED_TOPIC)).code == 0
    assert broker.broker.store.queues.topics() == []
    assert (await broker.call(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)).code == 0
