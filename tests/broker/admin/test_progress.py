"""Statistics over the wire: queues of a topic, lag of groups, counters, connections, calls passed on to clients."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.kernel.choice import kernel_name
from pyromq.model.codes import ResponseCode
from pyromq.protocol.bodies.body import decode_body
from pyromq.protocol.bodies.offsets import (
    ConsumeStats,
    ConsumeStatsList,
    QueryConsumeTimeSpanBody,
    TopicStatsTable,
)
from pyromq.protocol.bodies.stats import BrokerStatsData, QueryConsumeQueueResponseBody
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker
from tests.wire import decode_messages


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        for number in range(5):
            await running.send(body=str(number).encode(), properties={"TAGS": "AB"[number % 2], "KEYS": f"k{number}"})
        yield running


async def beat(broker: Running, tags: str = "*", client: str = "c1") -> None:
    data = {"groupName": "G", "subscriptionDataSet": [{"topic": "T", "subString": tags, "subVersion": 1}]}
    body = {"clientID": client, "consumerDataSet": [data], "producerDataSet": [{"groupName": "P"}]}
    assert (await broker.call(RequestCode.HEART_BEAT, json.dumps(body).encode())).code == 0


async def test_the_queues_of_a_topic(broker: Running) -> None:
    answer = await broker.call(RequestCode.GET_TOPIC_STATS_INFO, topic="T")
    table = decode_body(TopicStatsTable, answer.body).offset_table
    assert {queue.queue_id: (one.min_offset, one.max_offset) for queue, one in table.items()} == {
        0: (0, 5),
        1: (0, 0),
        2: (0, 0),
        3: (0, 0),
    }
    newest = next(one for queue, one in table.items() if queue.queue_id == 0)
    assert newest.last_update_timestamp == decode_messages((await broker.pull()).body)[-1].store_timestamp
    assert bytes(answer.body).startswith(b'{"offsetTable":{{"brokerName":"broker-a"')
    assert (await broker.call(RequestCode.GET_TOPIC_STATS_INFO, topic="U")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_how_far_a_group_is(broker: Running) -> None:
    await beat(broker)
    await broker.pull(offset=3, commitOffset=2, sysFlag=5)
    answer = await broker.call(RequestCode.GET_CONSUME_STATS, consumerGroup="G")
    table = decode_body(ConsumeStats, answer.body).offset_table
    first = next(one for queue, one in table.items() if queue.queue_id == 0)
    assert (first.broker_offset, first.consumer_offset, first.pull_offset) == (5, 2, 3)
    assert first.last_timestamp == decode_messages((await broker.pull()).body)[1].store_timestamp
    assert len(table) == 4
    listed = decode_body(
        ConsumeStats, (await broker.call(RequestCode.GET_CONSUME_STATS, consumerGroup="G", topicList="T;TBW102")).body
    )
    assert {queue.topic for queue in listed.offset_table} == {"T", "TBW102"}


async def test_a_topic_that_an_online_group_left_is_not_counted(broker: Running) -> None:
    broker.broker.offsets.commit("T", "G", 0, 1)
    broker.broker.offsets.commit("BenchmarkTest", "G", 0, 1)

    async def topics() -> set[str]:
        answer = await broker.call(RequestCode.GET_CONSUME_STATS, consumerGroup="G")
        return {queue.topic for queue in decode_body(ConsumeStats, answer.body).offset_table}

    assert await topics() == {"T", "BenchmarkTest"}
    await beat(broker)
    assert await topics() == {"T"}


async def test_all_groups_of_the_broker(broker: Running) -> None:
    await beat(broker)
    broker.broker.offsets.commit("T", "G", 0, 2)
    answer = await broker.call(RequestCode.GET_BROKER_CONSUME_STATS, isOrder=False)
    everything = decode_body(ConsumeStatsList, answer.body)
    assert everything.total_diff == 3
    assert everything.broker_addr == broker.address
    mine = next(one["G"] for one in everything.consume_stats_list if "G" in one)
    assert len(mine) == 1
    ordered = await broker.call(RequestCode.GET_BROKER_CONSUME_STATS, isOrder=True)
    assert decode_body(ConsumeStatsList, ordered.body).total_diff == 0


async def test_how_old_the_oldest_message_not_yet_done_is(broker: Running) -> None:
    broker.broker.offsets.commit("T", "G", 0, 2)
    answer = await broker.call(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="T", group="G")
    spans = decode_body(QueryConsumeTimeSpanBody, answer.body).consume_time_span_set
    times = [message.store_timestamp for message in decode_messages((await broker.pull()).body)]
    first = spans[0]
    assert (first.min_time_stamp, first.max_time_stamp, first.consume_time_stamp) == (times[0], times[4], times[1])
    assert 0 <= first.delay_time < 600_000
    assert spans[1].delay_time == 0
    assert (await broker.call(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="U", group="G")).code == 17


async def test_counters_are_told_by_name_and_key(broker: Running) -> None:
    broker.broker.counters.sample(broker.broker.environment.clock.now_ms() + 10_000)
    answer = await broker.call(RequestCode.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_NUMS", statsKey="T")
    assert decode_body(BrokerStatsData, answer.body).stats_minute.sum == 5
    assert answer.fields["sumOfDay"] == "5"
    unknown = await broker.call(RequestCode.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_NUMS", statsKey="U")
    assert (unknown.code, "not exist" in (unknown.remark or "")) == (1, True)


async def test_a_stretch_of_a_queue_and_what_a_group_makes_of_it(broker: Running) -> None:
    await beat(broker, tags="A")
    ask: dict[str, Any] = {"topic": "T", "queueId": 0, "index": 1, "count": 2}
    plain = decode_body(QueryConsumeQueueResponseBody, (await broker.call(RequestCode.QUERY_CONSUME_QUEUE, **ask)).body)
    assert (plain.min_queue_index, plain.max_queue_index, len(plain.queue_data or [])) == (0, 5, 2)
    filtered = decode_body(
        QueryConsumeQueueResponseBody,
        (await broker.call(RequestCode.QUERY_CONSUME_QUEUE, **(ask | {"consumerGroup": "G"}))).body,
    )
    assert [one.eval for one in filtered.queue_data or []] == [False, True]
    beyond = await broker.call(RequestCode.QUERY_CONSUME_QUEUE, **(ask | {"index": 9}))
    assert (beyond.code, beyond.remark, bytes(beyond.body)) == (0, "Index 9 of 0@T is not exist!", b"")


async def test_who_is_connected_and_who_consumes_what(broker: Running) -> None:
    offline = await broker.call(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="G")
    assert offline.code == ResponseCode.CONSUMER_NOT_ONLINE
    await beat(broker)
    online = json.loads(bytes((await broker.call(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="G")).body))
    assert [(one["clientId"], one["language"]) for one in online["connectionSet"]] == [("c1", "PYTHON")]
    assert online["subscriptionTable"]["T"]["subString"] == "*"
    producers = await broker.call(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="P")
    assert json.loads(bytes(producers.body))["connectionSet"][0]["clientId"] == "c1"
    assert (await broker.call(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="Q")).code == 1
    table = json.loads(bytes((await broker.call(RequestCode.GET_ALL_PRODUCER_INFO)).body))
    assert table["data"]["P"][0]["remoteIP"].startswith("/127.0.0.1:")
    broker.broker.offsets.commit("T", "H", 0, 1)
    groups = json.loads(bytes((await broker.call(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="T")).body))
    assert groups["groupList"] == ["G", "H"]
    topics = json.loads(bytes((await broker.call(RequestCode.QUERY_TOPICS_BY_CONSUMER, group="H")).body))
    assert topics == {"brokerAddr": broker.address, "topicList": ["T"]}
    subscribed = await broker.call(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, group="G", topic="T")
    assert json.loads(bytes(subscribed.body))["subscriptionData"]["subString"] == "*"


async def test_a_question_is_passed_on_to_the_client(broker: Running) -> None:
    ask: dict[str, Any] = {"consumerGroup": "G", "clientId": "c1", "jstackEnable": True}
    assert (await broker.call(RequestCode.GET_CONSUMER_RUNNING_INFO, **ask)).code == 1
    await beat(broker)
    assert (await broker.call(RequestCode.GET_CONSUMER_RUNNING_INFO, **ask)).code == 0
    assert broker.received[-1].fields == {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "true"}


async def test_a_message_is_given_to_one_client_directly(broker: Running) -> None:
    await beat(broker)
    sent = await broker.send(body=b"direct")
    ask: dict[str, Any] = {"consumerGroup": "G", "clientId": "c1", "topic": "T", "msgId": sent.fields["msgId"]}
    assert (await broker.call(RequestCode.CONSUME_MESSAGE_DIRECTLY, **ask)).code == 0
    told = broker.received[-1]
    assert [one.body for one in decode_messages(told.body)] == [b"direct"]
    assert (told.fields["brokerName"], told.fields["groupSysFlag"]) == ("broker-a", "0")
    assert (await broker.call(RequestCode.CONSUME_MESSAGE_DIRECTLY, **(ask | {"msgId": "nonsense"}))).code == 1


NEEDED = """
    brokerVersionDesc putTps getTransferredTps sendThreadPoolQueueSize
    pullThreadPoolQueueSize ackThreadPoolQueueSize
    sendThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueHeadWaitTimeMills
    pageCacheLockTimeMills earliestMessageTimeStamp commitLogDiskRatio timerReadBehind
    timerOffsetBehind msgPutTotalTodayNow msgGetTotalTodayNow brokerActive
    runtime commitLogMaxOffset
"""


async def test_the_runtime_table_has_what_the_tools_look_for(broker: Running) -> None:
    table = json.loads(bytes((await broker.call(RequestCode.GET_BROKER_RUNTIME_INFO)).body))["table"]
    assert [key for key in NEEDED.split() if key not in table] == []
    assert all(isinstance(value, str) for value in table.values())
    assert table["msgPutTotalTodayNow"] == "5"
    assert table["commitLogMaxOffset"] == str(broker.broker.store.commit_log.end)
    assert table["pyromqKernel"] == kernel_name()


async def test_offsets_and_times_of_a_queue(broker: Running) -> None:
    times = [message.store_timestamp for message in decode_messages((await broker.pull()).body)]
    queue: dict[str, Any] = {"topic": "T", "queueId": 0}
    assert (await broker.call(RequestCode.GET_MAX_OFFSET, **queue)).fields == {"offset": "5"}
    assert (await broker.call(RequestCode.GET_MIN_OFFSET, **queue)).fields == {"offset": "0"}
    earliest = await broker.call(RequestCode.GET_EARLIEST_MSG_STORETIME, **queue)
    assert earliest.fields == {"timestamp": str(times[0])}
    search = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    assert (await broker.call(search, timestamp=times[-1] + 1, **queue)).fields == {"offset": "5"}
    assert (await broker.call(search, timestamp=times[-1] + 1, boundaryType="UPPER", **queue)).fields == {"offset": "4"}
    empty: dict[str, Any] = {"topic": "Nowhere", "queueId": 0}
    assert (await broker.call(RequestCode.GET_MAX_OFFSET, **empty)).fields == {"offset": "0"}
    assert (await broker.call(RequestCode.GET_EARLIEST_MSG_STORETIME, **empty)).fields == {"timestamp": "-1"}


async def test_messages_are_found_by_key_by_id_and_by_place(broker: Running) -> None:
    ask: dict[str, Any] = {"topic": "T", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 60}
    found = await broker.call(RequestCode.QUERY_MESSAGE, key="k3", **ask)
    assert [one.body for one in decode_messages(found.body)] == [b"3"]
    assert int(found.fields["indexLastUpdatePhyoffset"]) > 0
    unique = decode_messages(found.body)[0].unique_id
    by_id = await broker.call(RequestCode.QUERY_MESSAGE, key=unique, _UNIQUE_KEY_QUERY=True, **ask)
    assert bytes(by_id.body) == bytes(found.body)
    none = await broker.call(RequestCode.QUERY_MESSAGE, key="k9", **ask)
    assert (none.code, none.fields["indexLastUpdateTimestamp"]) == (ResponseCode.QUERY_NOT_FOUND, "0")
    place = decode_messages(found.body)[0].physical_offset
    viewed = await broker.call(RequestCode.VIEW_MESSAGE_BY_ID, offset=place)
    assert bytes(viewed.body) == bytes(found.body)
    for wrong in (place + 1, 1 << 40, -5):
        answer = await broker.call(RequestCode.VIEW_MESSAGE_BY_ID, offset=wrong)
        assert (answer.code, "no record starts there" in (answer.remark or "")) == (1, True)
