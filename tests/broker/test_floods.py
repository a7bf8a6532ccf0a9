"""Floods of what clients may make a broker keep: refused by a setting's name, while somebody else is served."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.ambient import SystemClock
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.transport.client import RemotingClient
from tests.broker.running import Running, running_broker, turns_until

FLOOD = 300


@asynccontextmanager
async def canary(broker: Running) -> AsyncIterator[list[int]]:
    """An honest client on a connection of its own, which sends one message after the other, and its offsets."""
    client = RemotingClient(clock=SystemClock(), rng=random.Random(9))
    fields = {"a": "P", "b": "honest", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}
    offsets: list[int] = []

    async def send() -> None:
        while True:
            request = Command(code=RequestCode.SEND_MESSAGE_V2, fields=dict(fields), body=b"x")
            answer = await client.call(broker.address, request, 20)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            offsets.append(int(answer.fields["queueOffset"]))

    sending = asyncio.create_task(send())
    try:
        await asyncio.sleep(0)
        yield offsets
        wanted = len(offsets) + 3
        await turns_until(lambda: len(offsets) >= wanted or sending.done())
    finally:
        sending.cancel()
        result = (await asyncio.gather(sending, return_exceptions=True))[0]
        await client.close()
    assert isinstance(result, asyncio.CancelledError), result
    assert offsets == list(range(len(offsets)))


def beat(number: int) -> Command:
    groups = [
        {"groupName": f"flood-{number}-{one}", "subscriptionDataSet": [{"topic": "T", "subString": "*"}]}
        for one in range(50)
    ]
    return Command(
        code=RequestCode.HEART_BEAT, body=json.dumps({"clientID": f"c{number}", "consumerDataSet": groups}).encode()
    )


def send_to_new_topic(number: int) -> Command:
    fields = {
        "a": "P",
        "b": f"flood-{number}",
        "c": "TBW102",
        "d": "1",
        "e": "0",
        "f": "0",
        "g": "1",
        "h": "0",
        "i": "",
    }
    return Command(code=RequestCode.SEND_MESSAGE_V2, fields=fields, body=b"x")


def pull_as_new_group(number: int) -> Command:
    fields = {
        "consumerGroup": f"flood-{number}", "topic": "honest", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
    }  # fmt: skip
    return Command(code=RequestCode.PULL_MESSAGE, fields=fields)


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (beat, "maxAutoCreatedGroups"),
        (send_to_new_topic, "maxAutoCreatedTopics"),
        (pull_as_new_group, "maxAutoCreatedGroups"),
    ],
)
async def test_a_flood_of_new_names_ends_at_a_limit_and_others_are_served(
    tmp_path: Path, make: Callable[[int], Command], setting: str
) -> None:
    limits: dict[str, Any] = {
        "max_auto_created_topics": 100,
        "max_auto_created_groups": 100,
        "max_groups_per_client": 1 << 20,
    }
    async with running_broker(tmp_path, **limits) as broker:
        async with canary(broker):
            answers = [await broker.client.call(broker.address, make(number), 20) for number in range(FLOOD)]
        refused = [answer for answer in answers if f"({setting})" in (answer.remark or "")]
        assert FLOOD - 100 <= len(refused) < FLOOD
        topics, groups = broker.broker.tables.topics, broker.broker.tables.groups
        assert len(groups) <= 100
        assert len(topics) <= 100 + len(groups)
        created = await broker.call(
            RequestCode.UPDATE_AND_CREATE_TOPIC, topic="by-hand", defaultTopic="TBW102", readQueueNums=1,
            writeQueueNums=1, perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0, order=False,
        )  # fmt: skip
        assert created.code == ResponseCode.SUCCESS
        assert (await broker.send("by-hand")).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(("tags", "setting"), [(206_000, "maxExpressionBytes"), (20_000, "maxTagsPerSubscription")])
async def test_a_pull_with_206_000_tags_is_refused_before_they_are_looked_at(
    tmp_path: Path, tags: int, setting: str
) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send()
        answer = await broker.pull(tags="||".join("x" * tags))
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert f"({setting})" in (answer.remark or "")


async def test_offsets_are_kept_of_queues_that_exist_alone(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_consumer_offsets=5) as broker:
        await broker.send("honest", queue=3)
        await broker.pull("honest", queue=3)
        offsets = broker.broker.tables.offsets

        def commit(queue: int, topic: str = "honest", group: str = "G") -> Command:
            fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "commitOffset": "1"}
            return Command(code=RequestCode.UPDATE_CONSUMER_OFFSET, fields=fields)

        async with canary(broker):
            answers = [await broker.client.call(broker.address, commit(4 + n), 20) for n in range(FLOOD)]
            for number in range(FLOOD):
                await broker.client.send(broker.address, commit(10_000 + number))  # one way, as Java's clients do
        assert {answer.code for answer in answers} == {ResponseCode.INVALID_PARAMETER}
        assert "topic honest has 4 queues" in (answers[0].remark or "")
        assert (await broker.client.call(broker.address, commit(3), 20)).code == ResponseCode.SUCCESS
        assert dict(offsets.queues("honest", "G")) == {3: 1}
        for number in range(10):
            await broker.pull("honest", group=f"G{number}")
            answer = await broker.client.call(broker.address, commit(0, group=f"G{number}"), 20)
        assert "(maxConsumerOffsets) is 5" in (answer.remark or "")
        assert len(offsets.all()) == 5


async def test_a_group_on_a_topic_that_was_made_smaller_goes_on_committing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send("honest", queue=3)
        await broker.pull("honest", queue=3)
        topic = broker.broker.topics.find("honest")
        assert topic is not None
        broker.broker.topics.put(msgspec.structs.replace(topic, read_queue_nums=1, write_queue_nums=1))
        answer = await broker.call(
            RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="G", topic="honest", queueId=3, commitOffset=1
        )
        assert answer.code == ResponseCode.SUCCESS


async def test_what_administrators_may_ask_for_has_an_end_too(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        group = json.dumps({"groupName": "G", "retryQueueNums": (1 << 31) - 1}).encode()
        answer = await broker.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group)
        assert "retryQueueNums 2147483647 is more than 65536" in (answer.remark or "")
        limits = [
            await broker.call(
                RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
                "".join(f"g{start + number}=1\n" for number in range(2_000)).encode(),
            )
            for start in range(0, 14_000, 2_000)
        ]
        assert [answer.code for answer in limits] == [0, 0, 0, 0, 0, 1, 1]
        answer = await broker.call(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, b"g=1\n" * 100_000)
        assert "at most 65536 are taken at once" in (answer.remark or "")
        answer = await broker.call(RequestCode.UPDATE_BROKER_CONFIG, b"traceOn=true\n" * 100_000)
        assert "at most 65536 are taken at once" in (answer.remark or "")
        fields = {"group": "G\x1b", "topic": "T", "readable": "false"}
        answer = await broker.client.call(
            broker.address, Command(code=RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, fields=fields), 20
        )
        assert answer.code == ResponseCode.INVALID_PARAMETER
