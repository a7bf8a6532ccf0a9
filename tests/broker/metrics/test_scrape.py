"""A broker's scrape says what happened, in the words of a scrape of RocketMQ 5.5.0."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.metrics.settings import Detail
from pyromq.protocol.requests import RequestCode
from tests.broker.metrics.usage import PROM, address_of, beat
from tests.broker.running import Running, running_broker
from tests.metrics.scraping import get, scrape, value, values


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path, **PROM, metrics_label="zone:a,rack:7") as running:
        yield running


async def test_what_came_in_by_type_and_size(broker: Running) -> None:
    for queue in range(3):
        await broker.send(body=b"x" * 100, queue=queue)
    await broker.send(body=b"y" * 5_000, properties={"__SHARDINGKEY": "a", "UNIQ_KEY": "U9"})
    await broker.send(body=b"later", properties={"DELAY": "3", "UNIQ_KEY": "U8"})
    await broker.send_batch([b"one", b"two"], unique="U7")
    found = await scrape(address_of(broker))
    sent = "rocketmq_messages_in_total"
    assert value(found, sent, topic="T", message_type="normal", is_system="false", node_type="broker") == 5
    assert value(found, sent, topic="T", message_type="fifo", zone="a", rack="7") == 1
    assert value(found, sent, topic="SCHEDULE_TOPIC_XXXX", message_type="delay", is_system="true") == 1
    assert value(found, "rocketmq_message_size_count", topic="T") == 5  # requests
    assert value(found, "rocketmq_message_size_bucket", topic="T", le="1024.0") == 4
    assert value(found, "rocketmq_throughput_in_total", topic="T", message_type="fifo") > 5_000
    total = sum(values(found, "rocketmq_throughput_in_total", topic="T"))
    assert value(found, "rocketmq_message_size_sum", topic="T") == total


async def test_lag_with_and_without_members(broker: Running) -> None:
    for _ in range(5):
        await broker.send(body=b"hello")
    await beat(broker, "c1")
    await broker.pull(group="G", maxMsgNums=2)
    await broker.pull(group="G", offset=2, maxMsgNums=2)
    await broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="G", topic="T", queueId=0, commitOffset=1)
    found = await scrape(address_of(broker))
    pair = {"consumer_group": "G", "topic": "T", "is_retry": "false", "is_system": "false"}
    assert value(found, "rocketmq_consumer_lag_messages", **pair) == 4
    assert value(found, "rocketmq_consumer_ready_messages", **pair) == 3
    assert value(found, "rocketmq_consumer_inflight_messages", **pair) == 1
    assert value(found, "rocketmq_consumer_lag_latency_milliseconds", **pair) >= 0
    assert value(found, "rocketmq_messages_out_total", consumer_group="G", topic="T") == 4
    assert value(found, "pyromq_group_members", consumer_group="G") == 1
    connections = value(found, "rocketmq_consumer_connections", consumer_group="G", protocol_type="remoting")
    assert connections == 1
    await broker.call(RequestCode.UNREGISTER_CLIENT, clientID="c1", consumerGroup="G")
    found = await scrape(address_of(broker))
    assert value(found, "pyromq_group_members", consumer_group="G") == 0
    assert value(found, "rocketmq_consumer_lag_messages", **pair) == 4  # Java's vanishes


async def test_dead_letters_are_seen_growing_from_zero(broker: Running) -> None:
    await broker.send(body=b"hopeless")
    await beat(broker, "c1")
    await broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="G", topic="T", queueId=0, commitOffset=0)
    found = await scrape(address_of(broker))
    assert value(found, "pyromq_dead_lettered_total", consumer_group="G") == 0
    await broker.call(RequestCode.CONSUMER_SEND_MSG_BACK, offset=0, group="G", delayLevel=-1, originTopic="T")
    found = await scrape(address_of(broker))
    assert value(found, "pyromq_dead_lettered_total", consumer_group="G") == 1
    assert value(found, "rocketmq_send_to_dlq_messages_total", consumer_group="G", topic="T", is_system="false") == 1
    assert value(found, "pyromq_dead_letters", consumer_group="G") == 1
    assert 0 < value(found, "pyromq_dead_letters_leave_seconds", consumer_group="G") <= 259_200


async def test_answers_are_counted_by_code_and_outcome(broker: Running) -> None:
    await broker.send(body=b"hello")
    await broker.call(RequestCode.GET_TOPIC_STATS_INFO, topic="no-such-topic")
    found = await scrape(address_of(broker))
    name = "rocketmq_rpc_latency_milliseconds_count"
    assert value(found, name, request_code="get_topic_stats_info", response_code="topic_not_exist") == 1
    assert sum(values(found, name, response_code="success")) >= 1
    assert value(found, "pyromq_ready") == 1
    assert value(found, "pyromq_build_info") == 1


async def test_what_a_limit_leaves_out_is_one_row(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **PROM, metrics_otel_cardinality_limit=2) as broker:
        for number in range(6):
            for _ in range(number + 1):
                await broker.send(body=b"x", topic=f"T{number}")
        found = await scrape(address_of(broker))
        kept = values(found, "rocketmq_messages_in_total")
        assert sorted(kept) == [5, 6, 10]
        assert value(found, "rocketmq_messages_in_total", otel_metric_overflow="true") == 10
        found = await scrape(address_of(broker))
        assert value(found, "pyromq_series_left_out", metric="rocketmq_messages_in_total") == 4


async def test_less_detail(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **PROM, metrics_detail=Detail.TOPIC) as broker:
        await broker.send(body=b"x")
        await broker.pull()
        found = await scrape(address_of(broker))
        assert values(found, "rocketmq_messages_in_total", topic="T")
        assert not [one for family in found.values() for one in family.samples if "consumer_group" in one.labels]
        found = await scrape(address_of(broker), "/metrics/broker")
        assert not [one for family in found.values() for one in family.samples if "topic" in one.labels]
        assert value(found, "pyromq_ready") == 1


async def test_groups_of_metrics_can_be_switched_off(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **PROM, enable_message_store_metrics=False) as broker:
        found = await scrape(address_of(broker))
        assert "rocketmq_storage_size_bytes" not in found
        assert "rocketmq_broker_permission" in found


async def test_ready_says_why_not(broker: Running) -> None:
    assert (await get(address_of(broker), "/-/ready")).status == 200
    await broker.call(RequestCode.UPDATE_BROKER_CONFIG, b"brokerPermission=4\n")
    reply = await get(address_of(broker), "/-/ready")
    assert (reply.status, reply.body) == (503, b"brokerPermission is 4\n")
    found = await scrape(address_of(broker))
    assert value(found, "pyromq_trouble", what="brokerPermission is 4") == 1
    assert value(found, "pyromq_ready") == 0


async def test_transactions(broker: Running) -> None:
    half = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "U1"}
    answer = await broker.send(body=b"half", properties=half, sysFlag=4)
    found = await scrape(address_of(broker))
    assert value(found, "rocketmq_half_messages", topic="T") == 1
    assert value(found, "rocketmq_messages_in_total", topic="RMQ_SYS_TRANS_HALF_TOPIC", message_type="transaction") == 1
    position = int(answer.fields["msgId"][16:], 16)
    await broker.call(
        RequestCode.END_TRANSACTION,
        producerGroup="P",
        tranStateTableOffset=answer.fields["queueOffset"],
        commitLogOffset=position,
        commitOrRollback=8,
        fromTransactionCheck=False,
        msgId="U1",
    )
    found = await scrape(address_of(broker))
    assert value(found, "rocketmq_commit_messages_total", topic="T") == 1
    assert value(found, "rocketmq_finish_message_latency_milliseconds_count", topic="T") == 1
    assert value(found, "rocketmq_half_messages", topic="T") == 0
