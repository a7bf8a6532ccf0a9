"""Sending to a whole broker: what is stored, what is refused and with which code, and what the answer says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.model.ids import parse_offset_message_id
from pyromq.model.names import NO_SEND_TOPICS
from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import ONEWAY_FLAG, Command
from pyromq.protocol.requests import RequestCode
from pyromq.store.config import FlushMode
from pyromq.store.files.disk import DiskFull
from tests.broker.running import Running, running_broker
from tests.wire import decode_messages


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        yield running


async def stored(broker: Running, topic: str = "T", queue: int = 0) -> list[dict[str, str]]:
    answer = await broker.pull(topic, queue)
    return [message.properties | {"body": message.body.decode()} for message in decode_messages(answer.body)]


async def test_a_message_is_stored_with_what_the_broker_adds(broker: Running) -> None:
    answer = await broker.send(properties={"TAGS": "A", "UNIQ_KEY": "U7"}, queue=2)
    assert (answer.code, answer.remark) == (0, None)
    assert answer.fields["queueId"] == "2"
    assert answer.fields["queueOffset"] == "0"
    assert answer.fields["transactionId"] == "U7"
    assert (answer.fields["MSG_REGION"], answer.fields["TRACE_ON"]) == ("DefaultRegion", "true")
    assert parse_offset_message_id(answer.fields["msgId"]).physical_offset == 0
    (message,) = await stored(broker, queue=2)
    assert message.pop("__CRC32#").isdigit()
    assert message == {
        "TAGS": "A",
        "UNIQ_KEY": "U7",
        "CLUSTER": "DefaultCluster",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "body": "hello",
    }


async def test_a_message_without_an_id_gets_one(broker: Running) -> None:
    answer = await broker.send()
    (message,) = await stored(broker)
    assert message["UNIQ_KEY"] == answer.fields["transactionId"]
    assert len(message["UNIQ_KEY"]) == 32


async def test_what_a_client_may_not_say_of_itself_is_replaced(broker: Running) -> None:
    await broker.send(properties={"CLUSTER": "Other", "POP_CK": "1 2 3", "TRACE_ON": "false", "a": "b"})
    (message,) = await stored(broker)
    assert (message["CLUSTER"], message["TRACE_ON"], message["a"]) == ("DefaultCluster", "true", "b")
    assert "POP_CK" not in message


async def test_the_short_names_mean_the_same(broker: Running) -> None:
    fields = {"a": "P", "b": "T", "c": "TBW102", "d": 4, "e": 1, "f": 0, "g": 1, "h": 5, "i": "TAGS\x01x\x02"}
    answer = await broker.call(RequestCode.SEND_MESSAGE_V2, b"short", **fields)
    assert answer.code == 0
    (message,) = decode_messages((await broker.pull(queue=1)).body)
    assert (message.body, message.flag, message.tags) == (b"short", 5, "x")


async def test_a_missing_topic_is_made_from_tbw102(broker: Running) -> None:
    assert (await broker.send("New", defaultTopicQueueNums=3)).code == 0
    topic = broker.broker.topics.find("New")
    assert topic is not None
    assert (topic.write_queue_nums, topic.perm) == (3, 6)


async def test_any_queue_means_one_of_the_write_queues(broker: Running) -> None:
    queues = {int((await broker.send(queue=-1)).fields["queueId"]) for _ in range(40)}
    assert queues == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("extra", "code", "remark"),
    [
        ({"topic": "no such topic"}, ResponseCode.INVALID_PARAMETER, "may hold only letters"),
        ({"topic": ""}, ResponseCode.INVALID_PARAMETER, "is empty"),
        ({"topic": "x" * 200}, ResponseCode.INVALID_PARAMETER, "200 characters, at most 127"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION, "Sending message to topic"),
        ({"topic": "rmq_sys_wheel_timer"}, ResponseCode.NO_PERMISSION, "is forbidden: it is the broker's own"),
        ({"topic": "rmq_sys_REVIVE_LOG_DefaultCluster"}, ResponseCode.NO_PERMISSION, "it is the broker's own"),
        ({"topic": "Missing", "defaultTopic": "Nowhere"}, ResponseCode.TOPIC_NOT_EXIST, "apply first please"),
        ({"queueId": 99}, ResponseCode.INVALID_PARAMETER, "queueId[99] is illegal"),
        ({"properties": "K\x01" + "v" * 33000 + "\x02"}, ResponseCode.MESSAGE_ILLEGAL, "properties"),
        ({"sysFlag": 4}, ResponseCode.MESSAGE_ILLEGAL, "sysFlag 4"),
        ({"properties": "INNER_NUM\x013\x02"}, ResponseCode.MESSAGE_ILLEGAL, "INNER_NUM is for batches"),
    ],
)
async def test_what_may_not_be_is_refused_with_java_s_code_and_leaves_nothing(
    broker: Running, extra: dict[str, object], code: int, remark: str
) -> None:
    await broker.send()
    end = broker.broker.store.commit_log.end
    answer = await broker.send(**extra)  # type: ignore[arg-type]
    assert answer.code == code
    assert remark in (answer.remark or "")
    assert broker.broker.store.commit_log.end == end
    if remark != "properties":  # refused by transport, which knows no region
        assert answer.fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


@pytest.mark.parametrize("topic", sorted(NO_SEND_TOPICS))
async def test_what_the_broker_obeys_takes_no_batch_either(broker: Running, topic: str) -> None:
    body = encode_batch([BatchEntry(b"a"), BatchEntry(b"b")])
    answer = await broker.call(
        RequestCode.SEND_BATCH_MESSAGE, body, a="P", b=topic, c="TBW102", d=4, e=0, f=0, g=1, h=0
    )
    assert (answer.code, broker.broker.store.commit_log.end) == (ResponseCode.NO_PERMISSION, 0)


async def test_bodies_are_limited_before_anything_is_written(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_message_bytes=1000) as broker:
        assert (await broker.send(body=b"")).code == ResponseCode.MESSAGE_ILLEGAL
        answer = await broker.send(body=b"x" * 1001)
        assert (answer.code, "maxMessageSize is 1000" in (answer.remark or "")) == (ResponseCode.MESSAGE_ILLEGAL, True)
        assert (await broker.send(body=b"x" * 1000)).code == 0


async def test_one_message_too_large_does_not_harm_those_beside_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_message_bytes=1000) as broker:
        await broker.send()
        connection = await broker.client.connect(broker.address)
        answers = [connection.call(send_command(body), 20) for body in (b"a", b"x" * 2000, b"b")]
        codes = [(await answer).code for answer in answers]
        assert codes == [0, ResponseCode.MESSAGE_ILLEGAL, 0]
        assert [one["body"] for one in await stored(broker)] == ["hello", "a", "b"]


def send_command(body: bytes, flag: int = 0) -> Command:
    fields = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}
    return Command(code=RequestCode.SEND_MESSAGE_V2, fields=fields, body=body, flag=flag)


async def test_one_way_is_stored_and_not_answered(broker: Running) -> None:
    await broker.client.send(broker.address, send_command(b"quiet", ONEWAY_FLAG))
    assert (await broker.send()).code == 0  # behind it on the same connection
    assert [one["body"] for one in await stored(broker)] == ["quiet", "hello"]


async def test_permission_is_the_topic_s_and_the_broker_s(broker: Running) -> None:
    broker.broker.topics.put(TopicConfig(topic_name="ReadOnly", perm=4, read_queue_nums=1, write_queue_nums=1))
    answer = await broker.send("ReadOnly")
    assert (answer.code, "permission 4" in (answer.remark or "")) == (ResponseCode.NO_PERMISSION, True)
    broker.broker.live.change("enforceTopicPermission=false")
    assert (await broker.send("ReadOnly")).code == 0
    broker.broker.live.change("brokerPermission=4\nenforceTopicPermission=true")
    assert (await broker.send()).code == ResponseCode.NO_PERMISSION


async def test_a_batch_becomes_messages_in_one_queue(broker: Running) -> None:
    answer = await broker.send_batch([b"one", b"two", b"three"])
    assert answer.code == 0
    ids = answer.fields["msgId"].split(",")
    assert len(ids) == 3
    assert (answer.fields["queueOffset"], answer.fields["transactionId"]) == ("0", "U1")
    messages = decode_messages((await broker.pull()).body)
    assert [(one.body, one.queue_offset, one.offset_id) for one in messages] == [
        (b"one", 0, ids[0]),
        (b"two", 1, ids[1]),
        (b"three", 2, ids[2]),
    ]
    assert "CLUSTER" not in messages[0].properties


async def test_a_batch_may_come_as_request_10(broker: Running) -> None:
    answer = await broker.send(body=batch_body([b"x", b"y"]), batch=1)  # as C++ sends it
    assert (answer.code, answer.fields["msgId"].count(",")) == (0, 1)
    assert "transactionId" not in answer.fields


def batch_body(bodies: list[bytes]) -> bytes:
    return encode_batch(BatchEntry(one) for one in bodies)


@pytest.mark.parametrize(
    ("extra", "remark"),
    [
        ({"b": "%RETRY%G"}, "does not support retry group"),
        ({"i": "DELAY\x013\x02"}, "not for a batch"),
    ],
)
async def test_a_batch_that_may_not_be_is_refused(broker: Running, extra: dict[str, object], remark: str) -> None:
    answer = await broker.send_batch([b"one"], **extra)  # type: ignore[arg-type]
    assert (answer.code, remark in (answer.remark or "")) == (ResponseCode.MESSAGE_ILLEGAL, True)


@pytest.mark.parametrize("body", [b"", b"short", bytes(40)])
async def test_a_malformed_batch_is_refused_and_the_connection_stays(broker: Running, body: bytes) -> None:
    answer = await broker.send(body=body, batch=True)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert (await broker.send()).code == 0


async def test_a_topic_with_batch_queues_keeps_the_batch_as_one_record(broker: Running) -> None:
    broker.broker.topics.put(TopicConfig(topic_name="Bcq", write_queue_nums=1, attributes={"queue.type": "BatchCQ"}))
    first = await broker.send_batch([b"one", b"two"], topic="Bcq")
    second = await broker.send_batch([b"three"], topic="Bcq")
    assert (first.fields["batchUniqId"], first.fields["queueOffset"]) == ("U1", "0")
    assert second.fields["queueOffset"] == "2"
    messages = decode_messages((await broker.pull("Bcq")).body)
    assert [(one.body, one.queue_offset) for one in messages] == [(b"one", 0), (b"two", 1), (b"three", 2)]


async def test_a_compaction_topic_wants_keys(broker: Running) -> None:
    broker.broker.topics.put(TopicConfig(topic_name="Compact", attributes={"cleanup.policy": "COMPACTION"}))
    assert (await broker.send("Compact")).code == ResponseCode.MESSAGE_ILLEGAL
    assert (await broker.send("Compact", properties={"KEYS": "k"})).code == 0


async def test_a_retry_of_an_unknown_group_is_refused_where_groups_are_not_made(tmp_path: Path) -> None:
    async with running_broker(tmp_path, auto_create_subscription_group=False) as broker:
        assert (await broker.send("%RETRY%G")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_what_was_tried_too_often_goes_to_the_dead_letters(broker: Running) -> None:
    broker.broker.groups.put(SubscriptionGroupConfig(group_name="G", retry_max_times=2))
    assert (await broker.send("%RETRY%G", reconsumeTimes=2)).code == 0
    assert (await broker.send("%RETRY%G", b"dead", reconsumeTimes=3)).code == 0
    assert (await broker.send("%RETRY%G", b"own limit", reconsumeTimes=3, maxReconsumeTimes=5)).code == 0
    dead = await stored(broker, "%DLQ%G")
    assert [(one["body"], one["DELAY"]) for one in dead] == [("dead", "-1")]
    assert [one["body"] for one in await stored(broker, "%RETRY%G")] == ["hello", "own limit"]


async def test_a_dead_letter_loses_the_delay_it_came_with(broker: Running) -> None:
    broker.broker.groups.put(SubscriptionGroupConfig(group_name="G", retry_max_times=0))
    await broker.send("%RETRY%G", b"dead", reconsumeTimes=1, properties={"DELAY": "3", "a": "b"})
    (dead,) = await stored(broker, "%DLQ%G")
    assert (dead["body"], dead["DELAY"], dead["a"]) == ("dead", "-1", "b")


@pytest.mark.parametrize(
    "given",
    ["a\x01b\x02DELAY\x01-1\x02", "DELAY\x019\x02DELAY\x01-1\x02a\x01b", "x\x01\x02DELAY\x01-1\x02a\x01b\x02\x02"],
)
async def test_special_properties_are_stored_once_each_however_they_are_written(broker: Running, given: str) -> None:
    """-1 is no wait, so that the message can be read at once. The last pair of a name counts, empty ones do not."""
    await broker.send(properties=given)
    queue = broker.broker.store.queues.get("T", 0)
    entry = None if queue is None else queue.entry_at(0)
    assert entry is not None
    record = broker.broker.store.reader.record_at(entry.position)
    assert record is not None
    pairs = [pair.partition(b"\x01")[::2] for pair in record.properties.split(b"\x02") if pair]
    assert [value for name, value in pairs if name == b"DELAY"] == [b"-1"]
    assert [value for name, value in pairs if name in (b"a", b"x")] == [b"b"]


async def test_a_group_that_holds_queue_locks_sends_straight_to_the_dead_letters(broker: Running) -> None:
    queue = MessageQueue(broker_name="broker-a", queue_id=0, topic="T")
    broker.broker.clients.locks.lock("G", "c1", [queue], broker.broker.environment.clock.monotonic())
    await broker.send("%RETRY%G", b"ordered")
    assert [one["body"] for one in await stored(broker, "%DLQ%G")] == ["ordered"]


async def test_sync_flush_answers_when_the_disk_has_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path, flush_mode=FlushMode.SYNC) as broker:
        assert (await broker.send()).code == 0
        store = broker.broker.store
        assert store.flushed.value == store.appended.value
        assert (await broker.send(properties={"WAIT": "false"})).code == 0
        assert (await broker.send_batch([b"x", b"y"])).code == 0
        assert len(await stored(broker)) == 4


async def test_before_its_hour_a_broker_takes_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path, start_accept_send_request_time_stamp=1 << 50) as broker:
        answer = await broker.send()
        assert (answer.code, "startAcceptSendRequestTimeStamp" in (answer.remark or "")) == (1, True)


async def test_the_first_send_to_a_new_topic_is_stored_once_the_topic_is_on_disk(
    broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a kill leaves acked messages in a topic that nobody knows."""
    on_disk = asyncio.Event()

    async def saved() -> None:
        await on_disk.wait()

    monkeypatch.setattr(broker.broker.tables.new_topics, "_saved", saved)
    sends = [asyncio.ensure_future(broker.send("Fresh", b"%d" % number)) for number in range(3)]
    other = await broker.send("SELF_TEST_TOPIC")  # served after them, so they have been looked at
    assert other.code == ResponseCode.NO_PERMISSION
    assert not any(one.done() for one in sends)
    assert broker.broker.store.commit_log.end == 0
    on_disk.set()
    assert [(await one).fields["queueOffset"] for one in sends] == ["0", "1", "2"]
    assert (await broker.send("Fresh")).fields["queueOffset"] == "3"


async def test_a_new_topic_that_cannot_be_kept_takes_nothing(broker: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [DiskFull("config/topics.json: no room")]

    async def saved() -> None:
        if faults:
            raise faults.pop()

    monkeypatch.setattr(broker.broker.tables.new_topics, "_saved", saved)
    refused = await broker.send("Fresh")
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "the new topic cannot be kept: config/topics.json: no room" in (refused.remark or "")
    assert broker.broker.store.commit_log.end == 0
    assert (await broker.send("Fresh")).code == ResponseCode.SUCCESS
