"""SendMessage: checks in Java's order, what is stored, and the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.model.message import Property, SysFlag
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code, MessageType
from pyromq.proxy.queues import consistent_hash
from tests.broker.virtual import properties
from tests.proxy.calling import Endpoint, endpoint, message


async def refused(grpc: Endpoint, *messages: v2.Message) -> tuple[int, str]:
    status = (await grpc.ask("SendMessage", v2.SendMessageRequest(messages=messages))).status
    return status.code, status.message


async def test_a_message_is_stored_with_all_that_it_says(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        sent = message("T", b"body", {"color": "red"}, tag="A", keys=["k1", "k2"], trace_context="tc", born_host="h")
        sent.system_properties.born_timestamp.FromMilliseconds(1_699_999_999_000)
        answer = await grpc.ask("SendMessage", v2.SendMessageRequest(messages=[sent]))
        entry = answer.entries[0]
        id_ = sent.system_properties.message_id
        assert (answer.status.code, answer.status.message) == (Code.OK, "OK")
        assert (entry.message_id, entry.transaction_id, entry.offset, entry.recall_handle) == (id_, id_, 0, "")
        (record,) = grpc.virtual.stored("T")
        found = properties(record)
        assert record.born_timestamp == 1_699_999_999_000
        assert {name: found.get(name) for name in ("color", "TAGS", "KEYS", "UNIQ_KEY", "PGROUP")} == {
            "color": "red",
            "TAGS": "A",
            "KEYS": "k1 k2",
            "UNIQ_KEY": id_,
            "PGROUP": "T",
        }
        assert (found["__BORNHOST"], found["TRACE_CONTEXT"], found["RECONSUME_TIME"]) == ("h", "tc", "0")


async def test_gzip_is_marked(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        await grpc.send("T", b"\x1f\x8b..", body_encoding=v2.Encoding.GZIP)
        assert grpc.virtual.stored("T")[0].sys_flag & SysFlag.COMPRESSED


async def test_several_messages_have_an_entry_each(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", queues=1)
        sent = [message("T", body) for body in (b"1", b"2", b"3")]
        answer = await grpc.ask("SendMessage", v2.SendMessageRequest(messages=sent))
        assert [entry.offset for entry in answer.entries] == [0, 1, 2]
        assert [entry.message_id for entry in answer.entries] == [one.system_properties.message_id for one in sent]
        assert grpc.virtual.bodies("T") == ["1", "2", "3"]


async def test_messages_of_a_group_go_to_one_queue(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("F", "FIFO", queues=8)
        for number in range(20):
            await grpc.send("F", b"x", message_group=f"g{number % 2}")
        used = [queue for queue in range(8) if grpc.virtual.stored("F", queue)]
        assert len(used) <= 2
        assert sum(len(grpc.virtual.stored("F", queue)) for queue in used) == 20


def test_the_queue_of_a_group_is_javas() -> None:
    # From the tests of Guava's Hashing.consistentHash.
    expected = [0, 55, 62, 8, 45, 59, 86, 97, 82, 59, 73, 37, 17, 56, 86, 21, 90, 37, 38, 83]
    assert [consistent_hash(number, 100) for number in range(20)] == expected
    assert [consistent_hash(number, 11) for number in (10863919174838991, 2016238256797177309)] == [6, 3]
    assert all(0 <= consistent_hash(number, 7) < 7 for number in range(-1000, 1000))
    moved = sum(consistent_hash(number, 10) != consistent_hash(number, 11) for number in range(10_000))
    assert 700 < moved < 1100  # an eleventh of them, and only to the new bucket
    assert {consistent_hash(n, 11) for n in range(1000) if consistent_hash(n, 10) != consistent_hash(n, 11)} == {10}


@pytest.mark.parametrize(
    ("topic_type", "system", "kind"),
    [
        ("NORMAL", {"message_group": "g"}, "FIFO"),
        ("FIFO", {}, "NORMAL"),
        ("DELAY", {}, "NORMAL"),
        ("TRANSACTION", {}, "NORMAL"),
        ("NORMAL", {"message_type": MessageType.TRANSACTION}, "TRANSACTION"),
        ("NORMAL", {"priority": 1}, "PRIORITY"),
        ("UNSPECIFIED", {}, "NORMAL"),
        ("LITE", {}, "NORMAL"),
    ],
)
async def test_a_message_must_be_of_its_topics_type(
    tmp_path: Path, topic_type: str, system: dict[str, Any], kind: str
) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T", topic_type)
        assert await refused(grpc, message("T", **system)) == (
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            "org.apache.rocketmq.proxy.common.ProxyException: TopicMessageType validate failed, the expected type is "
            f"{topic_type}, but actual type is {kind}",
        )


async def test_mixed_topics_take_all_and_unknown_ones_none(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("M", "MIXED")
        assert (await grpc.send("M")).status.code == Code.OK
        assert (await grpc.send("M", message_group="g")).status.code == Code.OK
        assert (await grpc.send("Nowhere")).status.code == Code.TOPIC_NOT_FOUND
        assert (await grpc.send("M", lite_topic="l")).status.code == Code.NOT_IMPLEMENTED


@pytest.mark.parametrize(
    ("broken", "code", "text"),
    [
        ({"body": b""}, 41302, "message body cannot be empty"),
        ({"body": bytes((4 << 20) + 1)}, 41301, "message body cannot exceed the max 4194304"),
        ({"properties": {str(n): "" for n in range(129)}}, 43101, "too many user properties, max is 128"),
        ({"properties": {"TAGS": "x"}}, 40007, "property is used by system: TAGS"),
        ({"properties": {"a\x01": "x"}}, 40007, "the key of property cannot contain control character"),
        ({"properties": {"a": "\x02"}}, 40007, "the value of property cannot contain control character"),
        (
            {"properties": {"a": "x" * 16384}},
            43101,
            "the total size of user property is too large, max is 16384",
        ),
        ({"tag": " "}, 40004, "tag cannot be the char sequence of whitespace"),
        ({"tag": "a|b"}, 40004, "tag cannot contain '|'"),
        ({"tag": "a\n"}, 40004, "tag cannot contain control character"),
        ({"keys": [" "]}, 40005, "key cannot be the char sequence of whitespace"),
        ({"message_id": ""}, 40009, "message id cannot be empty"),
        ({"message_group": "x" * 64}, 40006, "message group exceed the max size 64"),
        ({"priority": -1}, 40000, "The priority must be greater than or equal to 0"),
        ({"lite_topic": "a b"}, 40020, "lite topic can only contain alphanumeric characters, hyphens(-), and un"),
    ],
)
async def test_limits(tmp_path: Path, broken: dict[str, Any], code: int, text: str) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T")
        found = await refused(grpc, message("T", **broken))
        assert found[0] == code
        assert found[1].startswith(text)
        assert grpc.virtual.stored("T") == []


async def test_requests_that_are_none(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T")
        grpc.topic("ReadOnly", perm=4)
        assert await refused(grpc) == (40016, "no message to send")
        assert await refused(grpc, message("T"), message("U")) == (40016, "topic in message is not same")
        assert (await refused(grpc, message("ReadOnly")))[1].endswith("no writable queue")


async def test_delayed_messages_wait_and_can_be_recalled(tmp_path: Path) -> None:
    async with endpoint(tmp_path, recall_message_enable=True) as grpc:
        grpc.topic("D", "DELAY", queues=1)
        sent = message("D")
        sent.system_properties.delivery_timestamp.FromMilliseconds(grpc.clock.now_ms() + 60_000)
        entry = (await grpc.ask("SendMessage", v2.SendMessageRequest(messages=[sent]))).entries[0]
        assert entry.recall_handle
        recall = v2.RecallMessageRequest(topic=v2.Resource(name="D"), recall_handle=entry.recall_handle)
        answer = await grpc.ask("RecallMessage", recall)
        assert (answer.status.code, answer.message_id) == (Code.OK, sent.system_properties.message_id)
        garbage = v2.RecallMessageRequest(topic=v2.Resource(name="D"), recall_handle="garbage")
        assert (await grpc.ask("RecallMessage", garbage)).status.message.endswith("recall handle is invalid")
        late = message("D")
        late.system_properties.delivery_timestamp.FromMilliseconds(grpc.clock.now_ms() + 86_500_000)
        assert (await refused(grpc, late))[0] == Code.ILLEGAL_DELIVERY_TIME
        await grpc.clock.advance(70)
        assert grpc.virtual.stored("D") == []


async def test_a_priority_names_its_queue(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("P", "PRIORITY", queues=4)
        for priority in (0, 2, 9):
            assert (await grpc.send("P", priority=priority)).status.code == Code.OK
        assert [len(grpc.virtual.stored("P", queue)) for queue in range(4)] == [1, 0, 1, 1]
        assert properties(grpc.virtual.stored("P", 3)[0])[Property.PRIORITY] == "9"
