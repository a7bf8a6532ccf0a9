"""Pulling from a whole broker: what comes, where the next one goes on, and how long a pull that finds nothing waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.model.java_hash import java_hash
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running, running_broker, turns_until
from tests.wire import decode_messages


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        yield running


def bodies(answer: Command) -> list[str]:
    return [message.body.decode() for message in decode_messages(answer.body)]


async def fill(broker: Running, count: int, topic: str = "T", **properties: str) -> None:
    for number in range(count):
        assert (await broker.send(topic, str(number).encode(), properties=properties)).code == 0


async def beat(
    broker: Running, wanted: str | dict[str, str] = "*", version: int = 1, model: str = "CLUSTERING", topic: str = "T"
) -> None:
    """`wanted`: tags of the topic, or tags by topic."""
    tags = {topic: wanted} if isinstance(wanted, str) else wanted
    subscriptions = [{"topic": name, "subString": text, "subVersion": version} for name, text in tags.items()]
    data = {"groupName": "G", "messageModel": model, "subscriptionDataSet": subscriptions}
    body = json.dumps({"clientID": "c1", "consumerDataSet": [data]}).encode()
    assert (await broker.call(RequestCode.HEART_BEAT, body)).code == 0


async def test_messages_come_in_order_with_where_to_go_on(broker: Running) -> None:
    await fill(broker, 40)
    answer = await broker.pull()
    assert (answer.code, answer.remark) == (0, "FOUND")
    assert bodies(answer) == [str(number) for number in range(32)]
    assert answer.fields == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "32",
        "minOffset": "0",
        "maxOffset": "40",
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }
    assert bodies(await broker.pull(offset=32)) == [str(number) for number in range(32, 40)]


async def test_a_pull_may_cross_the_files_of_a_queue(tmp_path: Path) -> None:
    async with running_broker(tmp_path, queue_file_bytes=20 * 10) as broker:
        await fill(broker, 25)
        assert len(bodies(await broker.pull(offset=5))) == 20


async def test_the_client_s_own_limits_count(broker: Running) -> None:
    await fill(broker, 5)
    assert len(bodies(await broker.pull(maxMsgNums=2))) == 2
    assert len(bodies(await broker.pull(maxMsgNums=0))) == 1
    assert len(bodies(await broker.pull(maxMsgBytes=1))) == 1  # the first one comes whatever its size


async def test_groups_that_may_pull_more_at_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path, large_pull_groups=("Big",)) as broker:
        await fill(broker, 100)
        assert len(bodies(await broker.pull(group="Big", maxMsgNums=500))) == 100
        assert len(bodies(await broker.pull(group="Small", maxMsgNums=500))) == 32


async def test_tags_are_picked_by_hash_and_what_does_not_match_is_stepped_over(broker: Running) -> None:
    for number in range(9):
        await broker.send(body=str(number).encode(), properties={"TAGS": "ABC"[number % 3]})
    assert bodies(await broker.pull(tags="A || C")) == ["0", "2", "3", "5", "6", "8"]
    nothing = await broker.pull(tags="X")
    assert (nothing.code, nothing.fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "9")


@pytest.mark.parametrize(
    ("offset", "code", "then"),
    [
        (5, ResponseCode.PULL_NOT_FOUND, 5),
        (6, ResponseCode.PULL_OFFSET_MOVED, 5),
        (1000, ResponseCode.PULL_OFFSET_MOVED, 5),
        (-1, ResponseCode.PULL_OFFSET_MOVED, 0),
    ],
)
async def test_a_wrong_offset_is_corrected(broker: Running, offset: int, code: int, then: int) -> None:
    await fill(broker, 5)
    answer = await broker.pull(offset=offset)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (code, str(then))


async def test_an_empty_queue_has_nothing_at_0_and_moves_other_offsets(broker: Running) -> None:
    await fill(broker, 1)
    assert (await broker.pull(queue=3)).code == ResponseCode.PULL_NOT_FOUND
    moved = await broker.pull(queue=3, offset=7)
    assert (moved.code, moved.fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")


async def test_who_may_not_pull_is_told_why(broker: Running) -> None:
    await fill(broker, 1)
    topics, groups = broker.broker.topics, broker.broker.groups
    assert (await broker.pull("Missing")).code == ResponseCode.TOPIC_NOT_EXIST
    assert (await broker.pull(queue=4)).code == ResponseCode.INVALID_PARAMETER
    topics.put(TopicConfig(topic_name="W", perm=2))
    unreadable = await broker.pull("W")
    assert (unreadable.code, unreadable.fields) == (ResponseCode.NO_PERMISSION, {"forbiddenType": "3"})
    groups.put(SubscriptionGroupConfig(group_name="Off", consume_enable=False))
    disabled = await broker.pull(group="Off")
    assert (disabled.code, disabled.fields) == (ResponseCode.NO_PERMISSION, {"forbiddenType": "2"})
    assert (await broker.pull(expressionType="SQL92")).code == ResponseCode.SYSTEM_ERROR
    broker.broker.live.change("autoCreateSubscriptionGroup=false\nlitePullMessageEnable=false")
    assert (await broker.pull(group="Unknown")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    broker.broker.live.change("brokerPermission=2")
    assert (await broker.pull()).fields == {"forbiddenType": "1"}


async def test_without_a_subscription_in_the_request_the_heartbeat_s_counts(broker: Running) -> None:
    for tag in "AB":
        await broker.send(body=tag.encode(), properties={"TAGS": tag})
    plain: dict[str, Any] = {"sysFlag": 0}
    assert (await broker.pull(**plain)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    await beat(broker, "B")
    assert bodies(await broker.pull(**plain)) == ["B"]
    assert (await broker.pull(subVersion=2, **plain)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    assert (await broker.pull("TBW102", **plain)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    broker.broker.groups.set_readable("G", "T", readable=False)
    assert (await broker.pull(**plain)).fields == {"forbiddenType": "5"}


async def test_what_was_popped_before_is_pulled_whatever_heartbeats_say_of_it(broker: Running) -> None:
    """Java's members subscribe to it anew at each rebalance, with a later version, and only while they pull."""
    retries = "%RETRY%G_T"
    await fill(broker, 1, retries)
    pull: dict[str, Any] = {"topic": retries, "sysFlag": 0, "subVersion": 9}
    await beat(broker, "B", version=1)
    assert bodies(await broker.pull(**pull)) == ["0"], "the heartbeat of a member that pops does not name it"
    await beat(broker, {"T": "B", retries: "*"}, version=2)
    assert bodies(await broker.pull(**pull)) == ["0"], "the heartbeat is of before the last rebalance"


async def test_other_subscriptions_to_retries_count_as_any(broker: Running) -> None:
    for retries in ("%RETRY%G_T", "%RETRY%G_U", "%RETRY%G"):
        await fill(broker, 1, retries)
    await beat(broker, {"T": "*", "%RETRY%G_T": "B", "%RETRY%G": "*"}, version=2)
    plain: dict[str, Any] = {"sysFlag": 0, "subVersion": 9}
    assert (await broker.pull("%RETRY%G_T", **plain)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    assert (await broker.pull("%RETRY%G_U", **plain)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert (await broker.pull("%RETRY%G", **plain)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST


async def test_broadcasting_may_be_forbidden_to_a_group(broker: Running) -> None:
    await fill(broker, 1)
    broker.broker.groups.put(SubscriptionGroupConfig(group_name="G", consume_broadcast_enable=False))
    await beat(broker, model="BROADCASTING")
    assert (await broker.pull(sysFlag=0)).fields == {"forbiddenType": "4"}


async def test_an_offset_is_committed_with_the_pull(broker: Running) -> None:
    await fill(broker, 3)
    await broker.pull(offset=2, commitOffset=2, sysFlag=5)
    assert broker.broker.offsets.find("T", "G", 0) == 2
    await broker.pull(offset=2, commitOffset=9, sysFlag=4)
    assert broker.broker.offsets.find("T", "G", 0) == 2


async def test_a_pull_from_before_a_reset_does_not_undo_it(broker: Running) -> None:
    """A member pulls on with the offset that it has, and may end before it begins anew."""
    await fill(broker, 5)
    broker.broker.offsets.reset("T", "G", 0, 1)
    moved = await broker.pull(offset=5, commitOffset=5, sysFlag=5)
    assert moved.code == ResponseCode.PULL_OFFSET_MOVED
    assert broker.broker.offsets.queues("T", "G")[0] == broker.broker.offsets.find("T", "G", 0) == 1
    assert bodies(await broker.pull(offset=1, commitOffset=1, sysFlag=5)) == ["1", "2", "3", "4"]
    await broker.pull(offset=4, commitOffset=4, sysFlag=5)
    assert broker.broker.offsets.find("T", "G", 0) == 4


async def test_a_reset_is_told_by_the_next_pull_and_only_by_that(broker: Running) -> None:
    await fill(broker, 5)
    broker.broker.offsets.reset("T", "G", 0, 1)
    moved = await broker.pull(offset=5)
    assert (moved.code, moved.remark, moved.fields["nextBeginOffset"]) == (
        ResponseCode.PULL_OFFSET_MOVED,
        "OFFSET_RESET",
        "1",
    )
    assert bodies(await broker.pull(offset=1)) == ["1", "2", "3", "4"]


HOLD: dict[str, Any] = {"sysFlag": 6, "suspendTimeoutMillis": 60_000}


async def waiting(broker: Running, count: int = 1) -> None:
    await turns_until(lambda: len(broker.broker.pulls.suspended) >= count)


async def test_a_held_pull_is_answered_by_the_message_that_it_waits_for(broker: Running) -> None:
    await fill(broker, 1)
    held = asyncio.create_task(broker.pull(offset=1, **HOLD))
    await waiting(broker)
    await broker.send(body=b"other queue", queue=1)
    assert len(broker.broker.pulls.suspended) == 1
    await broker.send(body=b"at last")
    assert bodies(await held) == ["at last"]
    assert len(broker.broker.pulls.suspended) == 0


async def test_a_held_pull_waits_on_when_what_came_does_not_match(broker: Running) -> None:
    await fill(broker, 1)
    held = asyncio.create_task(broker.pull(offset=1, tags="B", **HOLD))
    await waiting(broker)
    for tag in ("A", "A", "B"):
        await broker.send(body=tag.encode(), properties={"TAGS": tag})
    answer = await held
    assert bodies(answer) == ["B"]
    assert answer.fields["nextBeginOffset"] == "4"


async def test_a_pull_is_held_no_longer_than_it_wants(broker: Running) -> None:
    await fill(broker, 1)
    answer = await broker.pull(offset=1, sysFlag=6, suspendTimeoutMillis=30)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (ResponseCode.PULL_NOT_FOUND, "1")


async def test_what_was_looked_at_while_it_was_held_is_not_looked_at_again(broker: Running) -> None:
    await fill(broker, 1)
    held = asyncio.create_task(broker.pull(offset=1, tags="B", sysFlag=6, suspendTimeoutMillis=300))
    await waiting(broker)
    await broker.send(properties={"TAGS": "A"})
    answer = await held
    assert (answer.code, answer.fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "2")


async def test_every_reader_of_a_queue_is_woken(broker: Running) -> None:
    await fill(broker, 1)
    held = [asyncio.create_task(broker.pull(offset=1, group=f"G{number}", **HOLD)) for number in range(20)]
    await waiting(broker, 20)
    await broker.send(body=b"for all")
    assert [bodies(await one) for one in held] == [["for all"]] * 20


async def test_a_lost_connection_takes_its_held_pulls_along(broker: Running) -> None:
    await fill(broker, 1)
    held = asyncio.create_task(broker.pull(offset=1, **HOLD))
    await waiting(broker)
    await broker.client.close()
    with pytest.raises(Exception, match=r"closed|ended"):
        await held
    await turns_until(lambda: not broker.broker.pulls.suspended)


async def test_a_deleted_topic_answers_those_who_wait(broker: Running) -> None:
    await fill(broker, 1)
    held = asyncio.create_task(broker.pull(offset=1, **HOLD))
    await waiting(broker)
    broker.broker.topics.delete("T")
    assert (await held).code == ResponseCode.PULL_NOT_FOUND


async def test_a_stop_answers_those_who_wait(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await fill(broker, 1)
        held = asyncio.create_task(broker.pull(offset=1, **HOLD))
        await waiting(broker)
        broker.broker.pulls.suspended.end_all()
        assert (await held).code == ResponseCode.PULL_NOT_FOUND


async def test_too_many_held_pulls_are_answered_at_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_held_pulls=1) as broker:
        await fill(broker, 1)
        held = asyncio.create_task(broker.pull(offset=1, **HOLD))
        await waiting(broker)
        assert (await broker.pull(offset=1, **HOLD)).code == ResponseCode.PULL_NOT_FOUND
        held.cancel()


async def test_damage_is_skipped(broker: Running) -> None:
    await fill(broker, 3)
    second = decode_messages((await broker.pull()).body)[1]
    with (broker.broker.live.config.store_path_root_dir / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(second.physical_offset + 90)
        log.write(b"\xff\xff\xff")
    answer = await broker.pull()
    assert (bodies(answer), answer.fields["nextBeginOffset"]) == (["0", "2"], "3")


def test_the_hash_is_java_s() -> None:
    assert java_hash("TagA") == 2598919
