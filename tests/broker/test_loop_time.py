"""No request holds the event loop for long on the standard set: 1,000 topics of 2 queues each, 500 groups.

Each is asked over a socket. What counts is the CPU time of the longest callback between the question and the answer,
whatever it did: read the request, serve it, write the answer. The least of some tries, since garbage is collected too.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.surface import SERVED
from pyromq.model.codes import ResponseCode
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.requests import ROWS, RequestCode
from pyromq.store.queues.queue_table import QueueTable
from tests.broker.running import Running, running_broker
from tests.loop_held import Held, held_loop

TOPICS, QUEUES, GROUPS, OF_GROUP = 1_000, 2, 500, 8
MOST_MS = 20.0
TRIES = 4

Code = RequestCode
OF_TOPIC: dict[str, Any] = {"topic": "topic-0007"}
OF_QUEUE: dict[str, Any] = OF_TOPIC | {"queueId": 0}
PULL: dict[str, Any] = OF_QUEUE | {
    "consumerGroup": "group-007",
    "queueOffset": 0,
    "maxMsgNums": 32,
    "sysFlag": 4,
    "commitOffset": 0,
    "suspendTimeoutMillis": 0,
    "subscription": "*",
    "subVersion": 0,
}
SPAN: dict[str, Any] = OF_TOPIC | {"maxNum": 32, "beginTimestamp": 0, "endTimestamp": (1 << 62)}

POP: dict[str, Any] = OF_TOPIC | {"consumerGroup": "group-007", "queueId": -1}
RECEIPT: dict[str, Any] = POP | {"queueId": 0, "extraInfo": "1 1700000000000 60000 0 0 broker-a 0 1", "offset": 1}
WAIT: dict[str, Any] = {"pollTime": 0, "bornTime": 0}

OF_USER: dict[str, Any] = {"username": "user-007"}
OF_SUBJECT: dict[str, Any] = {"subject": "User:user-007"}
USER = b'{"username":"user-007","password":"secret","userType":"Normal"}'
POLICIES = (
    b'{"subject":"User:user-007","policies":[{"policyType":"Custom","entries":'
    b'[{"resource":"Topic:topic-0007","actions":["Pub","Sub"],"decision":"Allow"}]}]}'
)

LOCKS = b'{"consumerGroup":"group-007","clientId":"c1","mqSet":[{"brokerName":"a","queueId":0,"topic":"topic-0007"}]}'

# What is asked of the set, by code. Those that change something change it to the same again, or a topic of many.
QUESTIONS: dict[int, dict[str, Any]] = {
    Code.PULL_MESSAGE: PULL,
    Code.LITE_PULL_MESSAGE: PULL,
    Code.HEART_BEAT: {},
    Code.TABLE_VERSIONS: {},
    Code.OWN_COMMITS: {},
    Code.SNAPSHOT: {},
    Code.QUOTAS: {},
    Code.SET_QUOTA: {},
    Code.SHARE_USERS: {},
    Code.DELETE_QUOTA: {"kind": "topic", "name": "topic-0007"},
    Code.VIEW_MESSAGE_BY_ID: {"offset": 0},
    Code.CHECK_CLIENT_CONFIG: {},
    Code.UNREGISTER_CLIENT: {"clientID": "nobody", "consumerGroup": "group-007"},
    Code.LOCK_BATCH_MQ: {},
    Code.UNLOCK_BATCH_MQ: {},
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: OF_TOPIC | {"group": "group-499"},
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: {},
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: {},
    Code.UPDATE_BROKER_CONFIG: {},
    Code.QUERY_MESSAGE: SPAN | {"key": "key-7"},
    Code.QUERY_CONSUMER_OFFSET: OF_QUEUE | {"consumerGroup": "group-007"},
    Code.SEARCH_OFFSET_BY_TIMESTAMP: OF_QUEUE | {"timestamp": 1},
    Code.GET_MAX_OFFSET: OF_QUEUE,
    Code.GET_MIN_OFFSET: OF_QUEUE,
    Code.GET_EARLIEST_MSG_STORETIME: OF_QUEUE,
    Code.GET_ALL_TOPIC_CONFIG: {},
    Code.GET_TOPIC_CONFIG: OF_TOPIC,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: {},
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: {},
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: {"group": "group-007"},
    Code.GET_ALL_CONSUMER_OFFSET: {},
    Code.GET_ALL_DELAY_OFFSET: {},
    Code.GET_TIMER_CHECK_POINT: {},
    Code.GET_TIMER_METRICS: {},
    Code.GET_TOPIC_STATS_INFO: OF_TOPIC,
    Code.GET_CONSUME_STATS: {"consumerGroup": "group-007"},
    Code.GET_BROKER_CONSUME_STATS: {"isOrder": False},
    Code.QUERY_CONSUME_TIME_SPAN: OF_TOPIC | {"group": "group-007"},
    Code.QUERY_CORRECTION_OFFSET: OF_TOPIC | {"compareGroup": "group-007", "filterGroups": ""},
    Code.VIEW_BROKER_STATS_DATA: {"statsName": "TOPIC_PUT_NUMS", "statsKey": "topic-0007"},
    Code.QUERY_CONSUME_QUEUE: OF_QUEUE | {"index": 0, "count": 10, "consumerGroup": "group-007"},
    Code.GET_CONSUMER_CONNECTION_LIST: {"consumerGroup": "group-007"},
    Code.GET_PRODUCER_CONNECTION_LIST: {"producerGroup": "producer-007"},
    Code.GET_ALL_PRODUCER_INFO: {},
    Code.GET_CONSUMER_LIST_BY_GROUP: {"consumerGroup": "group-007"},
    Code.QUERY_TOPIC_CONSUME_BY_WHO: OF_TOPIC,
    Code.QUERY_TOPICS_BY_CONSUMER: {"group": "group-007"},
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: OF_TOPIC | {"group": "group-007"},
    Code.GET_BROKER_CONFIG: {},
    Code.GET_BROKER_RUNTIME_INFO: {},
    Code.EXCHANGE_BROKER_HA_INFO: {},
    Code.GET_BROKER_HA_STATUS: {},
    Code.RESET_MASTER_FLUSH_OFFSET: {"masterFlushOffset": "0"},
    Code.GET_BROKER_EPOCH_CACHE: {},
    Code.NOTIFY_BROKER_ROLE_CHANGED: {"masterEpoch": 1},
    Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: OF_TOPIC,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: {},
    Code.CLEAN_UNUSED_TOPIC: {},
    Code.DELETE_EXPIRED_COMMITLOG: {},
    Code.GET_COLD_DATA_FLOW_CTR_INFO: {},
    Code.UPDATE_CONSUMER_OFFSET: OF_QUEUE | {"consumerGroup": "group-007", "commitOffset": 1},
    Code.CLONE_GROUP_OFFSET: OF_TOPIC | {"srcGroup": "group-007", "destGroup": "group-008"},
    Code.INVOKE_BROKER_TO_RESET_OFFSET: OF_TOPIC | {"group": "group-007", "timestamp": -1, "isForce": True},
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: OF_TOPIC | {"group": "group-007", "readable": True},
    Code.UPDATE_AND_CREATE_TOPIC: OF_TOPIC
    | {"defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG"},
    Code.DELETE_TOPIC_IN_BROKER: {"topic": "topic-0999"},
    Code.DELETE_SUBSCRIPTIONGROUP: {"groupName": "group-499", "cleanOffset": True},
    Code.POP_MESSAGE: POP | WAIT | {"maxMsgNums": 32, "invisibleTime": 60_000, "initMode": 0},
    Code.ACK_MESSAGE: RECEIPT,
    Code.BATCH_ACK_MESSAGE: {},
    Code.CHANGE_MESSAGE_INVISIBLETIME: RECEIPT | {"invisibleTime": 1000},
    Code.PEEK_MESSAGE: POP | {"maxMsgNums": 32},
    Code.NOTIFICATION: POP | WAIT,
    Code.POLLING_INFO: POP,
    Code.POP_ROLLBACK: {},
    Code.QUERY_ASSIGNMENT: {},
    Code.SET_MESSAGE_REQUEST_MODE: {},
    Code.GET_ALL_MESSAGE_REQUEST_MODE: {},
    Code.AUTH_CREATE_USER: OF_USER,
    Code.AUTH_UPDATE_USER: OF_USER,
    Code.AUTH_GET_USER: OF_USER,
    Code.AUTH_LIST_USER: {"filter": "user"},
    Code.AUTH_CREATE_ACL: OF_SUBJECT,
    Code.AUTH_UPDATE_ACL: OF_SUBJECT,
    Code.AUTH_GET_ACL: OF_SUBJECT,
    Code.AUTH_LIST_ACL: {"subjectFilter": "user"},
    Code.AUTH_DELETE_ACL: OF_SUBJECT,
    Code.AUTH_DELETE_USER: OF_USER,
    RequestCode.INSPECT: {},
    RequestCode.MESSAGE_LIFE: OF_TOPIC | {"id": "key-7"},
    RequestCode.HALF_MESSAGES: {},
    RequestCode.DEAD_LETTERS: {},
}


def topics_of(group: int) -> list[str]:
    return [f"topic-{(group + step * TOPICS // OF_GROUP) % TOPICS:04}" for step in range(OF_GROUP)]


def heartbeat() -> bytes:
    consumers = [
        {
            "groupName": f"group-{number:03}",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [{"topic": topic, "subString": "*", "subVersion": 1} for topic in topics_of(number)],
        }
        for number in range(GROUPS)
    ]
    producers = [{"groupName": f"producer-{number:03}"} for number in range(GROUPS)]
    return json.dumps({"clientID": "c1", "consumerDataSet": consumers, "producerDataSet": producers}).encode()


BODIES: dict[int, bytes] = {
    Code.NOTIFY_BROKER_ROLE_CHANGED: b'{"syncStateSet":[1],"syncStateSetEpoch":1}',
    Code.HEART_BEAT: heartbeat(),
    Code.CHECK_CLIENT_CONFIG: b'{"clientId":"c1","group":"group-007","subscriptionData":{"topic":"T","subString":"*"}}',
    Code.LOCK_BATCH_MQ: LOCKS,
    Code.UNLOCK_BATCH_MQ: LOCKS,
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: b"group-007=1000",
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: b"group-007",
    Code.SET_QUOTA: b'{"kind":"topic","name":"topic-0007","limits":{"queues":4}}',
    Code.UPDATE_BROKER_CONFIG: b"maxMessageSize=4194304",
    Code.BATCH_ACK_MESSAGE: b'{"acks":[{"b":"/w==","c":"group-007","it":60000,"pt":1700000000000,"q":0,"r":"0","rq":0,'
    b'"so":1,"t":"topic-0007"}],"brokerName":"broker-a"}',
    Code.QUERY_ASSIGNMENT: b'{"clientId":"c1","consumerGroup":"group-007","messageModel":"CLUSTERING",'
    b'"strategyName":"AVG","topic":"topic-0007"}',
    Code.SET_MESSAGE_REQUEST_MODE: b'{"consumerGroup":"group-007","mode":"POP","popShareQueueNum":0,'
    b'"topic":"topic-0007"}',
    Code.AUTH_CREATE_USER: USER,
    Code.AUTH_UPDATE_USER: USER,
    Code.AUTH_CREATE_ACL: POLICIES,
    Code.AUTH_UPDATE_ACL: POLICIES,
}
# Served by others' tests of what they cost, or passed on to a client that is not there.
NOT_ASKED = {
    Code.SEND_MESSAGE,
    Code.SEND_MESSAGE_V2,
    Code.SEND_BATCH_MESSAGE,
    Code.SEND_REPLY_MESSAGE,
    Code.SEND_REPLY_MESSAGE_V2,
    Code.CONSUMER_SEND_MSG_BACK,
    Code.END_TRANSACTION,
    Code.RESUME_CHECK_HALF_MESSAGE,
    Code.RECALL_MESSAGE,
    Code.SWITCH_TIMER_ENGINE,
    Code.UPDATE_AND_CREATE_TOPIC_LIST,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    Code.GET_CONSUMER_RUNNING_INFO,
    Code.CONSUME_MESSAGE_DIRECTLY,
    Code.EXPORT_ROCKSDB_CONFIG_TO_JSON,
    Code.SET_COMMITLOG_READ_MODE,
}


async def fill(broker: Running) -> None:
    parts = broker.broker
    for number in range(TOPICS):
        parts.topics.put(TopicConfig(topic_name=f"topic-{number:04}", read_queue_nums=QUEUES, write_queue_nums=QUEUES))
    for number in range(GROUPS):
        parts.groups.put(SubscriptionGroupConfig(group_name=f"group-{number:03}"))
    for number in range(TOPICS):
        keys = {"KEYS": f"key-{number}", "UNIQ_KEY": f"unique-{number}"}
        await asyncio.gather(
            *(broker.send(f"topic-{number:04}", queue=queue, properties=keys) for queue in range(QUEUES))
        )
    for number in range(GROUPS):
        for topic in topics_of(number):
            for queue in range(QUEUES):
                parts.offsets.commit(topic, f"group-{number:03}", queue, 1)
                parts.offsets.note_pulled(topic, f"group-{number:03}", queue, 1)


async def longest_ms(broker: Running, held: Held, code: int) -> tuple[float, str]:
    tries = []
    for _ in range(TRIES):
        held.begin()
        answer = await broker.call(code, BODIES.get(code, b""), **QUESTIONS[code])
        assert "bad header" not in (answer.remark or ""), (code, answer.remark)
        tries.append((held.longest_ms, held.what))
    return min(tries)


def test_every_code_that_is_served_is_asked() -> None:
    served = {code for code, row in ROWS.items() if row.by in SERVED}
    assert served - QUESTIONS.keys() - NOT_ASKED == set()
    assert not NOT_ASKED & QUESTIONS.keys()


async def test_no_request_holds_the_loop_on_the_standard_set(tmp_path: Path) -> None:
    """317 took 0.8 s of it, and the whole table of offsets 8 ms."""
    async with running_broker(tmp_path) as broker:
        await fill(broker)
        with held_loop() as held:
            found = {code: await longest_ms(broker, held, code) for code in QUESTIONS}
    too_long = {int(code): f"{took:.1f} ms in {what}" for code, (took, what) in found.items() if took > MOST_MS}
    assert not too_long


async def test_groups_and_topics_may_come_and_go_while_all_progress_is_told(tmp_path: Path) -> None:
    """The answer takes many slices; the tables change between two of them."""
    async with running_broker(tmp_path) as broker:
        parts = broker.broker
        for number in range(GROUPS):
            parts.groups.put(SubscriptionGroupConfig(group_name=f"group-{number:03}"))
            for topic in topics_of(number):
                parts.topics.put(TopicConfig(topic_name=topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES))
                parts.offsets.commit(topic, f"group-{number:03}", 0, 1)
        tables: list[int] = [Code.GET_BROKER_CONSUME_STATS, Code.GET_ALL_CONSUMER_OFFSET]
        for code in (*tables, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_ALL_TOPIC_CONFIG):
            asked = asyncio.ensure_future(broker.call(code, **QUESTIONS[code]))
            changes = 0
            while not asked.done():
                changes += 1
                parts.groups.put(SubscriptionGroupConfig(group_name=f"new-{code}-{changes}"))
                parts.offsets.commit(f"topic-{changes % TOPICS:04}", f"new-{code}-{changes}", 0, 1)
                parts.offsets.drop_group(f"group-{changes % GROUPS:03}")
                parts.groups.delete(f"group-{changes % GROUPS:03}")
                parts.topics.delete(f"topic-{changes % TOPICS:04}")
                await asyncio.sleep(0)
            assert (await asked).code == ResponseCode.SUCCESS
            assert changes > 1


async def test_a_request_that_held_the_loop_is_told(tmp_path: Path) -> None:
    """In the runtime info and by `pyromq inspect`: which, how often, and how long at most."""
    async with running_broker(tmp_path) as broker:
        holds = broker.broker.statistics.holds
        holds._note(Code.GET_BROKER_CONSUME_STATS.code, 0.5)
        holds._note(Code.GET_BROKER_CONSUME_STATS.code, 0.8)
        table = json.loads(bytes((await broker.call(Code.GET_BROKER_RUNTIME_INFO)).body))["table"]
        assert int(table["pyromqLoopHolds"]) >= 2
        assert table["pyromqLoopHolds_317"] == "2 times, 800 ms at most"
        told = json.loads(bytes((await broker.call(RequestCode.INSPECT)).body))["loopHolds"]
        assert {"code": 317, "name": "GET_BROKER_CONSUME_STATS", "times": 2, "longestMs": 800.0} in told


async def test_a_broker_watches_its_handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(tmp_path, loop_hold_ms=1) as broker:
        await broker.send()
        busy = QueueTable.get

        def slowly(queues: QueueTable, topic: str, queue_id: int) -> object:
            begun = time.monotonic()
            while time.monotonic() - begun < 0.01:
                pass
            return busy(queues, topic, queue_id)

        monkeypatch.setattr(QueueTable, "get", slowly)
        await broker.call(Code.GET_MAX_OFFSET, topic="T", queueId=0)
        found = {hold.code: hold for hold in broker.broker.statistics.holds.all()}
        assert found[Code.GET_MAX_OFFSET].longest_ms >= 10


async def longest_of_one(broker: Running, code: int, body: bytes = b"", **fields: Any) -> tuple[float, Command]:
    with held_loop() as held:
        answer = await broker.call(code, body, **fields)
    return held.longest_ms, answer


async def test_many_topics_and_groups_are_made_in_slices(tmp_path: Path) -> None:
    """Each took tens of microseconds, all of them in one go: 0.2 s and 0.9 s for what one request may name."""
    topics = [{"topicName": f"t{number}", "readQueueNums": 1, "writeQueueNums": 1} for number in range(10_000)]
    groups = [{"groupName": f"g{number}"} for number in range(10_000)]
    async with running_broker(tmp_path) as broker:
        body = json.dumps({"topicConfigList": topics}).encode()
        took_ms, answer = await longest_of_one(broker, Code.UPDATE_AND_CREATE_TOPIC_LIST, body)
        assert (answer.code, "t9999" in broker.broker.topics) == (ResponseCode.SUCCESS, True)
        assert took_ms < 100
        body = json.dumps({"groupConfigList": groups}).encode()
        took_ms, answer = await longest_of_one(broker, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body)
        assert (answer.code, "g9999" in broker.broker.groups) == (ResponseCode.SUCCESS, True)
        assert took_ms < 100


async def test_a_topic_with_very_many_queues_holds_the_loop_for_milliseconds(tmp_path: Path) -> None:
    wide = TopicConfig(topic_name="wide", read_queue_nums=60_000, write_queue_nums=60_000)
    async with running_broker(tmp_path) as broker:
        broker.broker.topics.put(wide)
        broker.broker.groups.put(SubscriptionGroupConfig(group_name="G"))
        asked: dict[int, dict[str, Any]] = {
            Code.GET_TOPIC_STATS_INFO: {"topic": "wide"},
            Code.GET_CONSUME_STATS: {"consumerGroup": "G", "topic": "wide"},
            Code.INVOKE_BROKER_TO_RESET_OFFSET: {"topic": "wide", "group": "G", "timestamp": -1, "isForce": True},
        }
        for code, fields in asked.items():
            took_ms, answer = await longest_of_one(broker, code, **fields)
            assert (answer.code, took_ms < 80) == (ResponseCode.SUCCESS, True), (code, took_ms)


async def test_long_texts_in_requests_are_refused_before_work_is_spent_on_them(tmp_path: Path) -> None:
    """A key of a megabyte took 0.3 s to hash, limits of 400,000 groups 2 s to read."""
    create: dict[str, Any] = {
        "topic": "T",
        "defaultTopic": "TBW102",
        "readQueueNums": 1,
        "writeQueueNums": 1,
        "perm": 6,
    }
    limits = b"\n".join(b"g%d=1" % number for number in range(200_000))
    async with running_broker(tmp_path) as broker:
        took_ms, answer = await longest_of_one(broker, Code.QUERY_MESSAGE, **(SPAN | {"key": "k" * 900_000}))
        assert (answer.code, took_ms < 60) == (ResponseCode.QUERY_NOT_FOUND, True), took_ms
        took_ms, answer = await longest_of_one(broker, Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, limits)
        assert "at most 65536 are taken at once" in (answer.remark or "")
        assert took_ms < 60
        attributes = ",".join(f"+a{number}=b" for number in range(80_000))
        took_ms, answer = await longest_of_one(
            broker,
            Code.UPDATE_AND_CREATE_TOPIC,
            topicFilterType="SINGLE_TAG",
            attributes=attributes,
            **create,
        )
        assert "at most 65536 are taken" in (answer.remark or "")
        assert took_ms < 25
