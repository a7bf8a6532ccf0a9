"""SQL92 subscriptions on a running broker: registration, refusals with Java's codes, pulls, restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.bodies.body import decode_body, encode_body
from pyromq.protocol.bodies.heartbeat import CheckClientRequestBody, ConsumerData, HeartbeatData, SubscriptionData
from pyromq.protocol.bodies.stats import QueryConsumeQueueResponseBody
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker, turns_until
from tests.wire import decode_messages

BY_HEARTBEAT: dict[str, Any] = {"sysFlag": 0}
BROUGHT: dict[str, Any] = {"expressionType": "SQL92"}
HOLD: dict[str, Any] = {"sysFlag": 2, "suspendTimeoutMillis": 20_000}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path / "store", enable_property_filter=True) as running:
        yield running


def sql(text: str, version: int = 1, topic: str = "T") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=text, sub_version=version, expression_type="SQL92")


async def beat(broker: Running, *wanted: SubscriptionData, group: str = "G") -> None:
    data = ConsumerData(group_name=group, subscription_data_set=list(wanted))
    body = encode_body(HeartbeatData(client_id="c", consumer_data_set=[data]))
    assert (await broker.call(RequestCode.HEART_BEAT, body)).code == 0


async def fill(broker: Running, count: int, queue: int = 0) -> None:
    for number in range(count):
        properties = {"n": str(number), "half": str(number / 2), "even": str(number % 2 == 0).lower()}
        assert (await broker.send(body=str(number).encode(), queue=queue, properties=properties)).code == 0


def numbers(answer: Command) -> list[int]:
    return [int(message.body) for message in decode_messages(bytes(answer.body))]


async def check(broker: Running, wanted: SubscriptionData) -> Command:
    body = encode_body(CheckClientRequestBody(client_id="c", group="G", subscription_data=wanted))
    return await broker.call(RequestCode.CHECK_CLIENT_CONFIG, body)


# --- 321 ------------------------------------------------------------------------------------------------------------


async def looked_at(broker: Running, group: str = "G") -> QueryConsumeQueueResponseBody:
    ask: dict[str, Any] = {"topic": "T", "queueId": 0, "index": 0, "count": 4, "consumerGroup": group}
    return decode_body(QueryConsumeQueueResponseBody, (await broker.call(RequestCode.QUERY_CONSUME_QUEUE, **ask)).body)


async def test_a_look_at_a_queue_shows_what_the_expression_makes_of_it(broker: Running) -> None:
    await fill(broker, 4)
    await beat(broker, sql("n > 1"))
    found = await looked_at(broker)
    assert [one.eval for one in found.queue_data or []] == [False, False, True, True]
    data = json.loads(found.filter_data or "")
    assert (data["expression"], data["expressionType"], data["dead"]) == ("n > 1", "SQL92", False)


async def test_nothing_matches_for_who_is_not_online_or_wrote_nonsense(broker: Running) -> None:
    await fill(broker, 2)
    absent = await looked_at(broker, "nobody")
    assert [one.eval for one in absent.queue_data or []] == [False, False]
    assert absent.filter_data == "nobody@T is not online!"
    await beat(broker, sql("n >"))
    wrong = await looked_at(broker)
    assert [one.eval for one in wrong.queue_data or []] == [False, False]
    assert wrong.filter_data == "null"


# --- 46 -------------------------------------------------------------------------------------------------------------


async def test_a_client_may_ask_beforehand(broker: Running) -> None:
    assert (await check(broker, sql("n > 5"))).code == ResponseCode.SUCCESS
    assert (await check(broker, SubscriptionData(topic="T", sub_string="TagA"))).code == ResponseCode.SUCCESS
    wrong = await check(broker, sql("n > 5 AND\n b >"))
    assert wrong.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "line 2, column 5" in (wrong.remark or "")
    unknown = await check(broker, SubscriptionData(topic="T", sub_string="x", expression_type="XPATH"))
    assert unknown.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "XPATH" in (unknown.remark or "")


async def test_a_broker_without_property_filters_says_so(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "store") as broker:
        await fill(broker, 1)
        refused = await check(broker, sql("n > 5"))
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert (refused.remark or "").startswith("The broker does not support consumer to filter message by SQL92")
        await beat(broker, sql("n > 5"))
        for flags in (BY_HEARTBEAT, BROUGHT):
            refused = await broker.pull(tags="n > 5", **flags)
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert "enablePropertyFilter" in (refused.remark or "")


# --- pulls ----------------------------------------------------------------------------------------------------------


async def test_a_registered_filter_picks(broker: Running) -> None:
    await fill(broker, 40)
    await beat(broker, sql("n BETWEEN 10 AND 12 OR n = 30"))
    answer = await broker.pull(subVersion=1, **BY_HEARTBEAT)
    assert (answer.code, numbers(answer)) == (ResponseCode.SUCCESS, [10, 11, 12, 30])
    assert answer.fields["nextBeginOffset"] == "40"


async def test_a_pull_may_bring_its_expression_along(broker: Running) -> None:
    await fill(broker, 10)
    answer = await broker.pull(tags="even = TRUE AND n > 3", expressionType="SQL92")
    assert numbers(answer) == [4, 6, 8]
    wrong = await broker.pull(tags="even =", expressionType="SQL92")
    assert wrong.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "column 7" in (wrong.remark or "")


async def test_limits_end_a_filtered_pull_where_the_next_one_goes_on(broker: Running) -> None:
    await fill(broker, 30)
    got: list[int] = []
    offset = 0
    while len(got) < 15:
        answer = await broker.pull(tags="even = TRUE", offset=offset, maxMsgNums=4, expressionType="SQL92")
        assert len(numbers(answer)) <= 4
        got += numbers(answer)
        offset = int(answer.fields["nextBeginOffset"])
    assert got == list(range(0, 30, 2))


async def test_a_filter_that_fails_on_messages_lets_the_others_through(
    broker: Running, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(broker, 9)
    answer = await broker.pull(tags="half = 3", expressionType="SQL92")  # every text with a dot is no integer
    assert (answer.code, answer.fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "9")
    assert (await broker.send(body=b"99", properties={"half": "3"})).code == 0
    assert numbers(await broker.pull(tags="half = 3", expressionType="SQL92")) == [99]
    assert len([line for line in caplog.records if "cannot be asked" in line.getMessage()]) == 1


async def test_one_look_is_bounded_and_says_where_to_go_on(broker: Running) -> None:
    for _ in range(15):
        await broker.send_batch([b"x"] * 40)
    await broker.send(body=b"7", properties={"n": "7"})
    offset, turns = 0, 0
    while True:
        answer = await broker.pull(tags="n = 7", offset=offset, expressionType="SQL92")
        turns += 1
        if answer.code == ResponseCode.SUCCESS:
            break
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert int(answer.fields["nextBeginOffset"]) > offset
        offset = int(answer.fields["nextBeginOffset"])
    assert numbers(answer) == [7]
    assert turns > 1  # 448 messages a look, and fewer where they take too long


async def test_a_held_pull_is_answered_by_what_matches_alone(broker: Running) -> None:
    await fill(broker, 3)
    await beat(broker, sql("n = 77"))
    held = asyncio.create_task(broker.pull(offset=3, subVersion=1, **HOLD))
    await turns_until(lambda: len(broker.broker.pulls.suspended) == 1)
    await broker.send(body=b"5", properties={"n": "5"})
    await turns_until(
        lambda: broker.broker.pulls.suspended.all()[0].offset == 4 if broker.broker.pulls.suspended else False
    )
    await broker.send(body=b"77", properties={"n": "77"})
    assert numbers(await held) == [77]


# --- versions and refusals ------------------------------------------------------------------------------------------


async def test_pulls_and_heartbeats_agree_on_versions(broker: Running) -> None:
    await fill(broker, 10)
    await beat(broker, sql("n = ", version=5))
    missing = await broker.pull(subVersion=5, **BY_HEARTBEAT)
    assert missing.code == ResponseCode.FILTER_DATA_NOT_EXIST
    await beat(broker, sql("n = 1", version=6))
    assert numbers(await broker.pull(subVersion=6, **BY_HEARTBEAT)) == [1]
    await beat(broker, sql("n = 2", version=7))
    assert numbers(await broker.pull(subVersion=7, **BY_HEARTBEAT)) == [2]
    late = await broker.pull(subVersion=8, **BY_HEARTBEAT)
    assert late.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    data = broker.broker.clients.filters.find("T", "G")
    assert data is not None
    data.client_version = 6
    assert (await broker.pull(subVersion=7, **BY_HEARTBEAT)).code == ResponseCode.FILTER_DATA_NOT_LATEST


async def test_filters_are_kept_over_a_restart_in_javas_format(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    async with running_broker(folder, enable_property_filter=True) as broker:
        await fill(broker, 10)
        await beat(broker, sql("n = 3", version=9))
        assert numbers(await broker.pull(subVersion=9, **BY_HEARTBEAT)) == [3]
    table: dict[str, Any] = json.loads((folder / "config" / "consumerFilter.json").read_bytes())
    kept = table["filterDataByTopic"]["T"]
    assert kept["topic"] == "T"
    data = kept["groupFilterData"]["G"]
    assert data.pop("bornTime") <= data.pop("deadTime")
    assert data == {
        "bloomFilterData": {"bitNum": 112, "bitPos": [24, 26, 83]},
        "clientVersion": 9,
        "consumerGroup": "G",
        "dead": True,
        "expression": "n = 3",
        "expressionType": "SQL92",
        "topic": "T",
    }
    async with running_broker(folder, enable_property_filter=True) as broker:
        found = broker.broker.clients.filters.find("T", "G")
        assert found is not None
        assert found.client_version == 9
        await beat(broker, sql("n = 4", version=8))  # an older client: what is known is newer
        assert found.expression == "n = 3"
        await beat(broker, sql("n = 5", version=10))
        assert numbers(await broker.pull(subVersion=10, **BY_HEARTBEAT)) == [5]


# --- retry topics ---------------------------------------------------------------------------------------------------


async def test_a_retry_topic_is_filtered_only_if_that_is_wanted(tmp_path: Path) -> None:
    retry = "%RETRY%G"
    for support, wanted in ((False, [2]), (True, [1])):
        folder = tmp_path / str(support)
        async with running_broker(folder, enable_property_filter=True, filter_support_retry=support) as broker:
            await fill(broker, 1)
            await beat(broker, sql("n = 1"), sql("n = 2", topic=retry))
            for number in (1, 2, 3):
                properties = {"n": str(number), "RETRY_TOPIC": "T"}
                sent = await broker.send(topic=retry, body=str(number).encode(), properties=properties)
                assert sent.code == 0
            assert numbers(await broker.pull(topic=retry, subVersion=1, **BY_HEARTBEAT)) == wanted
