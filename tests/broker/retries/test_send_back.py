"""Giving messages back (request 36): what is stored, when it comes again, when it is dead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.retries.send_back import policy_delay_ms
from pyromq.model.client_info import Version
from pyromq.model.codes import ResponseCode
from pyromq.model.ids import offset_message_id
from pyromq.protocol.bodies.groups import CustomizedRetryPolicy, ExponentialRetryPolicy, GroupRetryPolicy
from pyromq.protocol.command import Command
from pyromq.protocol.record import Record
from pyromq.protocol.requests import RequestCode
from tests.broker.virtual import Virtual, properties, virtual_broker

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


async def give_back(life: Virtual, record: Record, group: str = "G", level: int = 0, **more: object) -> Command:
    fields: dict[str, Any] = {"offset": record.physical_offset, "group": group, "delayLevel": level} | more
    return await life.call(RequestCode.CONSUMER_SEND_MSG_BACK, **fields)


async def test_a_retry_is_stored_as_java_stores_it(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(body=b"x", properties={"KEYS": "k", "TAGS": "t", "UNIQ_KEY": "U", "WAIT": "true"}, flag=3)
        (first,) = life.stored("T")
        assert (await give_back(life, first)).code == 0
        (waiting,) = life.stored(SCHEDULE, 2)
        origin = offset_message_id(first.store_host, first.physical_offset)
        assert properties(waiting) == properties(first) | {
            "DELAY": "3",
            "ORIGIN_MESSAGE_ID": origin,
            "REAL_QID": "0",
            "REAL_TOPIC": "%RETRY%G",
            "RETRY_TOPIC": "T",
            "WAIT": "false",
        }
        assert waiting.reconsume_times == 1
        await life.advance(10)
        (again,) = life.stored("%RETRY%G")
        assert properties(again) == properties(waiting)
        assert (again.reconsume_times, again.body, again.flag) == (1, b"x", 3)
        assert (again.born_timestamp, again.born_host) == (first.born_timestamp, first.born_host)
        await give_back(life, again)
        await life.advance(30)
        second = life.stored("%RETRY%G")[1]
        assert second.reconsume_times == 2
        assert properties(second) == properties(again) | {"DELAY": "4"}
        topic = life.broker.topics.find("%RETRY%G")
        assert topic is not None
        assert (topic.read_queue_nums, topic.perm) == (1, 6)


async def test_a_dead_letter_is_stored_as_java_stores_it(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(properties={"UNIQ_KEY": "U"})
        await give_back(life, life.stored("T")[0], level=1)
        await life.advance(1)
        (retry,) = life.stored("%RETRY%G")
        assert (await give_back(life, retry, maxReconsumeTimes=1)).code == 0
        (dead,) = life.stored("%DLQ%G")
        assert properties(dead) == properties(retry) | {"DELAY": "0"}
        assert (dead.reconsume_times, dead.queue_id) == (2, 0)
        topic = life.broker.topics.find("%DLQ%G")
        assert topic is not None
        assert (topic.write_queue_nums, topic.perm) == (1, 6)
        await life.advance(100)
        assert len(life.stored("%DLQ%G")) == 1
        assert len(life.stored("%RETRY%G")) == 1


async def test_a_level_below_zero_is_dead_at_once(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send()
        await give_back(life, life.stored("T")[0], level=-1)
        assert life.bodies("%DLQ%G") == ["hello"]


async def test_a_dead_letter_has_the_reason_of_its_last_failure_and_of_no_other(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(properties={"PYRO_REASON": "a lie"})
        await give_back(life, life.stored("T")[0], level=1, pyroReason="the first time")
        await life.advance(1)
        (retry,) = life.stored("%RETRY%G")
        assert "PYRO_REASON" not in properties(retry)
        await give_back(life, retry, maxReconsumeTimes=1, pyroReason="no\x02credit\n" + "x" * 100_000)
        (dead,) = life.stored("%DLQ%G")
        assert properties(dead)["PYRO_REASON"] == r"no\x02credit\n" + "x" * (512 - 17) + "..."


async def test_a_reason_gives_way_where_properties_are_full(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(properties={"UNIQ_KEY": "U", "p": "x" * 32_400})
        assert (await give_back(life, life.stored("T")[0], level=-1, pyroReason="y" * 512)).code == 0
        (dead,) = life.stored("%DLQ%G")
        assert "PYRO_REASON" not in properties(dead)
        assert len(properties(dead)["p"]) == 32_400


async def test_the_clients_own_level_counts(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send()
        await give_back(life, life.stored("T")[0], level=5)
        await life.advance(59.999)
        assert life.bodies("%RETRY%G") == []
        await life.advance(0.001)
        assert life.bodies("%RETRY%G") == ["hello"]


async def test_a_compressed_or_committed_message_keeps_its_flags(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send(body=b"squeezed", sysFlag=769)
        await give_back(life, life.stored("T")[0], level=1)
        await life.advance(1)
        assert [record.sys_flag for record in life.stored("%RETRY%G")] == [769]


@pytest.mark.parametrize(
    ("policy", "delays_s"),
    [
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [7_000, 90_000]}}, [7, 90, 90]),
        (
            {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 4_000, "max": 10_000, "multiplier": 2}},
            [4, 8, 10],
        ),
    ],
)
async def test_a_group_may_have_a_schedule_of_its_own(
    tmp_path: Path, policy: dict[str, object], delays_s: list[int]
) -> None:
    async with virtual_broker(tmp_path) as life:
        group = {"groupName": "G", "groupRetryPolicy": policy}
        body = json.dumps(group).encode()
        assert (await life.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)).code == 0
        await life.send(properties={"UNIQ_KEY": "U"})
        record = life.stored("T")[0]
        for number, delay in enumerate(delays_s):
            await give_back(life, record)
            await life.advance(delay - 0.001)
            assert len(life.stored("%RETRY%G")) == number, "it must not come early"
            await life.advance(1.001)
            assert len(life.stored("%RETRY%G")) == number + 1, "nor more than a second late"
            record = life.stored("%RETRY%G")[number]
            assert not [name for name in properties(record) if name.startswith("PYRO")]
            assert properties(record)["DELAY"] == str(3 + number)


def test_back_off() -> None:
    exponential = GroupRetryPolicy(type="EXPONENTIAL", exponential_retry_policy=ExponentialRetryPolicy())
    assert [policy_delay_ms(exponential, n) for n in (0, 1, 2, 100)] == [5_000, 10_000, 20_000, 7_200_000]
    assert policy_delay_ms(GroupRetryPolicy(), 3) is None
    assert policy_delay_ms(GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy()), 3) is None


@pytest.mark.parametrize(
    ("version", "told", "most"),
    [
        (Version.CURRENT, {}, 1),  # the group's own
        (Version.CURRENT, {"maxReconsumeTimes": 2}, 2),
        (Version.V3_4_9, {"maxReconsumeTimes": 0}, 0),
        (Version.V3_4_9 - 1, {"maxReconsumeTimes": 2}, 1),  # a client that old cannot mean it
    ],
)
async def test_who_says_how_often(tmp_path: Path, version: int, told: dict[str, Any], most: int) -> None:
    async with virtual_broker(tmp_path) as life:
        life.peer.version = version
        body = json.dumps({"groupName": "G", "retryMaxTimes": 1}).encode()
        await life.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
        await life.send()
        failed = life.stored("T")[0]
        for _ in range(most):
            await give_back(life, failed, level=1, **told)
            assert life.stored("%DLQ%G") == []
            await life.advance(1)
            failed = life.stored("%RETRY%G")[-1]
        await give_back(life, failed, level=1, **told)
        assert [record.reconsume_times for record in life.stored("%DLQ%G")] == [most + 1]


async def test_queues_of_the_retry_topic_are_the_groups(tmp_path: Path) -> None:
    """As many as retryQueueNums says; the dead letters have one."""
    async with virtual_broker(tmp_path) as life:
        body = json.dumps({"groupName": "G", "retryQueueNums": 3}).encode()
        await life.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
        await life.send()
        for level in (*[1] * 20, -1):
            await give_back(life, life.stored("T")[0], level=level)
        await life.advance(1)
        topics = [life.broker.topics.find(f"{prefix}G") for prefix in ("%RETRY%", "%DLQ%")]
        assert [(one.read_queue_nums, one.write_queue_nums) for one in topics if one is not None] == [(3, 3), (1, 1)]
        spread = [len(life.stored("%RETRY%G", queue)) for queue in range(3)]
        assert sum(spread) == 20
        assert all(spread)


# --- refusals ---------------------------------------------------------------------------------------------------------


async def test_what_is_refused_and_with_which_code(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.send()
        record = life.stored("T")[0]
        no_record = await life.call(RequestCode.CONSUMER_SEND_MSG_BACK, offset=3, group="G", delayLevel=0)
        assert no_record.code == ResponseCode.SYSTEM_ERROR
        assert "no record starts there" in str(no_record.remark)
        life.broker.live.change("autoCreateSubscriptionGroup=false")
        unknown = await give_back(life, record, "Stranger")
        assert unknown.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        life.broker.live.change("brokerPermission=4")
        assert (await give_back(life, record)).code == ResponseCode.NO_PERMISSION
        assert life.stored(SCHEDULE, 2) == []


async def test_a_group_without_retry_queues_gets_nothing_again(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        body = json.dumps({"groupName": "G", "retryQueueNums": 0}).encode()
        await life.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
        await life.send()
        assert (await give_back(life, life.stored("T")[0])).code == 0
        await life.advance(100)
        assert life.stored("%RETRY%G") == []
        assert "%RETRY%G" not in life.broker.topics


async def test_a_client_that_sends_it_back_itself(tmp_path: Path) -> None:
    """What Java's client does when 36 fails, and what an orderly consumer does at its last attempt."""
    async with virtual_broker(tmp_path) as life:
        again = {"RETRY_TOPIC": "T", "DELAY": "3", "RECONSUME_TIME": "1", "MAX_RECONSUME_TIMES": "16"}
        sent = await life.send("%RETRY%G", properties=again, reconsumeTimes=1, maxReconsumeTimes=16)
        assert sent.code == 0
        await life.advance(10)
        assert [record.reconsume_times for record in life.stored("%RETRY%G")] == [1]
        await life.send("%RETRY%G", properties=again, reconsumeTimes=17, maxReconsumeTimes=16)
        (dead,) = life.stored("%DLQ%G")
        assert (dead.reconsume_times, properties(dead)["DELAY"]) == (17, "-1")
