"""A store that the Java broker wrote, served by ours: the same questions get the answers that Java's broker gave."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.ambient import SystemClock
from pyromq.model.codes import ResponseCode
from pyromq.model.ids import offset_message_id
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker
from tests.support import golden_store
from tests.wire import decode_records

CAPTURED_MS = 1_794_769_300_000  # a little after the last record; what was pending then is not due yet
BOUNDARIES: dict[str, dict[str, Any]] = {
    "default": {},
    "LOWER": {"boundaryType": "LOWER"},
    "UPPER": {"boundaryType": "UPPER"},
}
GOLDEN = Path(__file__).parents[1] / "golden"


class AtTheCapture(SystemClock):
    """The wall clock stands still where the recording ended."""

    def now_ms(self) -> int:
        return CAPTURED_MS


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    with gzip.open(GOLDEN / "store-clean.json.gz") as file:
        manifest: dict[str, Any] = json.load(file)
    recorded: dict[str, Any] = manifest["answers"]
    return recorded


# Java's own depth of a look by tags, so that offsets behind what does not match are the same.
AS_CAPTURED = {"trace_topic_enable": True, "max_filter_message_size": 16_000}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    golden_store(tmp_path)
    async with running_broker(tmp_path / "store", AtTheCapture(), **AS_CAPTURED) as running:
        yield running


def ids(answer: Command) -> list[str]:
    return [offset_message_id(one.store_host, one.physical_offset) for one in decode_records(answer.body)]


async def test_topics_groups_and_offsets_are_what_they_were(broker: Running, answers: dict[str, Any]) -> None:
    topics = json.loads(bytes((await broker.call(RequestCode.GET_ALL_TOPIC_CONFIG)).body))
    assert topics["topicConfigTable"] == answers["allTopicConfig"]["topicConfigTable"]
    assert topics["dataVersion"] == answers["allTopicConfig"]["dataVersion"]
    groups = json.loads(bytes((await broker.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body))
    assert groups == answers["allSubscriptionGroup"]
    for one in answers["queryConsumerOffset"]:
        answer = await broker.call(
            RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup=one["group"], topic=one["topic"], queueId=one["queueId"]
        )
        assert (answer.code, answer.fields) == (one["code"], one["extFields"] or {}), one


async def test_every_queue_has_its_range_and_age(broker: Running, answers: dict[str, Any]) -> None:
    for one in answers["queues"]:
        queue: dict[str, Any] = {"topic": one["topic"], "queueId": one["queueId"]}
        low = await broker.call(RequestCode.GET_MIN_OFFSET, **queue)
        high = await broker.call(RequestCode.GET_MAX_OFFSET, **queue)
        age = await broker.call(RequestCode.GET_EARLIEST_MSG_STORETIME, **queue)
        found = (low.fields["offset"], high.fields["offset"], age.fields["timestamp"])
        assert found == (str(one["min"]), str(one["max"]), str(one["earliestStoreTime"])), one


async def test_searches_by_time_find_the_same_places(broker: Running, answers: dict[str, Any]) -> None:
    for one in answers["searchOffsetByTimestamp"]:
        queue: dict[str, Any] = {"topic": one["topic"], "queueId": one["queueId"], "timestamp": one["timestamp"]}
        for name, extra in BOUNDARIES.items():
            answer = await broker.call(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, **queue, **extra)
            assert answer.fields == {"offset": str(one[name])}, (one, name)


async def test_messages_are_found_by_key_and_id(broker: Running, answers: dict[str, Any]) -> None:
    for one in answers["queryMessage"]:
        ask: dict[str, Any] = {"topic": one["topic"], "key": one["key"], "maxNum": 64, "beginTimestamp": 0}
        if one["unique"]:
            ask["_UNIQUE_KEY_QUERY"] = True
        answer = await broker.call(RequestCode.QUERY_MESSAGE, endTimestamp=(1 << 63) - 1, **ask)
        assert answer.code == one["code"], one
        assert sorted(ids(answer)) == sorted(one.get("offsetMsgIds") or []), one
        if answer.code == 0:
            assert answer.fields == one.get("extFields", answer.fields)  # not recorded for all


async def test_messages_are_viewed_by_their_place(broker: Running, answers: dict[str, Any]) -> None:
    for one in answers["viewMessage"]:
        answer = await broker.call(RequestCode.VIEW_MESSAGE_BY_ID, offset=one["offset"])
        assert answer.code == one["code"], one
        if answer.code == 0:
            (record,) = decode_records(answer.body)
            assert (record.topic, len(answer.body)) == (one["topic"], one["length"])


async def test_pulls_give_the_same_messages(broker: Running, answers: dict[str, Any]) -> None:
    for one in answers["pullMessage"]:
        answer = await broker.pull(
            one["topic"],
            one["queueId"],
            one["offset"],
            one["expression"],
            group="GID_pull",
            maxMsgNums=one["maxMsgNums"],
        )
        assert answer.code == one["code"], one
        theirs = one.get("offsetMsgIds") or []
        # Java's pull ends with a queue file, ours may cross it: then ours begins with theirs.
        assert ids(answer)[: len(theirs)] == theirs, one
        if answer.code != ResponseCode.SUCCESS or len(ids(answer)) == len(theirs):
            assert (answer.fields, answer.remark) == (one["extFields"], one["remark"]), one
