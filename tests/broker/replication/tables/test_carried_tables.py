"""Tables of an elected set: each change is in the log, followers take what is confirmed, a new master has all of it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import RequestRefused
from pyromq.model.names import STATE_TOPIC
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.record import Record
from pyromq.protocol.replication.table_records import TableRecordRefused
from pyromq.protocol.requests import RequestCode as Code
from pyromq.store.files.disk import read_whole
from tests.broker.replication.tables.members import Members
from tests.broker.virtual import Virtual


async def create(life: Virtual, topic: str, queues: int = 4) -> Any:
    return await life.call(
        Code.UPDATE_AND_CREATE_TOPIC,
        topic=topic,
        defaultTopic="TBW102",
        readQueueNums=queues,
        writeQueueNums=queues,
        perm=6,
        topicFilterType="SINGLE_TAG",
        topicSysFlag=0,
        order=False,
    )


async def commit(life: Virtual, offset: int, topic: str = "T", group: str = "G") -> None:
    life.broker.groups.ensure(group, life.broker.live.config)
    answer = await life.call(
        Code.UPDATE_CONSUMER_OFFSET, consumerGroup=group, topic=topic, queueId=0, commitOffset=offset
    )
    assert answer.code == 0


async def test_a_new_topic_is_answered_once_its_record_is_confirmed(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a") as master, members.follower("b") as follower:
        await members.stream(master, follower)
        asked = asyncio.ensure_future(create(master, "orders"))
        await members.clock.settle()
        assert "orders" in master.broker.topics
        assert not asked.done()
        await members.stream(master, follower)
        assert (await asked).code == 0
        assert "orders" in follower.broker.topics


async def test_a_change_that_is_not_confirmed_in_time_is_no_success(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a") as master:
        asked = asyncio.ensure_future(create(master, "orders"))
        await members.clock.advance(4)
        answer = await asked
        assert answer.code == 14
        assert "the members of the set have not confirmed it in time" in str(answer.remark)


async def test_nobody_waits_for_the_set_when_the_broker_stops(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a", killed=True) as master:
        asked = asyncio.ensure_future(create(master, "orders"))
        await members.clock.settle()
        await master.halt()
        await master.broker.stop()
        assert (await asked).code == 14
        with pytest.raises(RequestRefused, match="have not confirmed it in time"):
            await master.broker.tables.topic_save.saved()


async def test_a_send_to_a_new_topic_waits_for_the_topic(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a") as master, members.follower("b") as follower:
        await members.stream(master, follower)
        sent = asyncio.ensure_future(master.send(topic="new"))
        await members.clock.settle()
        assert not sent.done()
        await members.stream(master, follower)
        assert (await sent).code == 0
        await members.stream(master, follower)
        assert follower.bodies("new") == ["hello"]
        assert "new" in follower.broker.topics


async def test_followers_take_only_what_is_confirmed(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a") as master, members.follower("b") as follower:
        await members.stream(master, follower)
        master.broker.topics.put(TopicConfig(topic_name="orders"))
        await members.clock.settle()
        await members.stream(master, follower, confirm=False)
        assert "orders" not in follower.broker.topics
        await members.stream(master, follower)
        assert "orders" in follower.broker.topics


async def test_all_kinds_of_tables_come_along(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a", gated=False) as master, members.follower("b") as follower:
        await master.send()
        await commit(master, 1)
        await master.call(
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"G","consumeEnable":true,"retryMaxTimes":3}'
        )
        master.broker.groups.set_readable("G", "T", False)
        mode = b'{"topic":"T","consumerGroup":"G","mode":"POP","popShareQueueNum":0}'
        assert (await master.call(Code.SET_MESSAGE_REQUEST_MODE, mode)).code == 0
        await members.clock.advance(2)
        await members.stream(master, follower)
        await follower.advance(6)
        assert follower.broker.offsets.find("T", "G", 0) == 1
        group = follower.broker.groups.find("G")
        assert group is not None
        assert group.retry_max_times == 3
        assert not follower.broker.groups.may_read("G", "T")
        assert follower.broker.groups.version == master.broker.groups.version
    async with members.master("b") as second:
        assert second.broker.offsets.find("T", "G", 0) == 1
        assert second.broker.balance.modes.find("T", "G") is not None
        assert second.broker.topics.find(STATE_TOPIC).perm == 0  # type: ignore[union-attr]


async def test_a_deleted_topic_goes_with_its_queues_and_may_come_again(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a", gated=False) as master, members.follower("b") as follower:
        await master.send(body=b"old")
        await members.stream(master, follower)
        assert (await master.call(Code.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
        await members.stream(master, follower)
        assert "T" not in follower.broker.topics
        assert follower.bodies("T") == []
        await master.send(body=b"new")
        await members.stream(master, follower)
        assert follower.bodies("T") == ["new"]


async def test_a_follower_goes_on_where_it_was(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a", gated=False) as master:
        async with members.follower("b") as follower:
            await create(master, "one")
            await members.stream(master, follower)
            await follower.advance(6)
        for killed in (False, True):
            async with members.follower("b", killed=killed) as follower:
                await create(master, f"two{killed}")
                await members.stream(master, follower)
                assert {"one", f"two{killed}"} <= {*follower.broker.topics.all()}
        async with members.follower("b") as follower:
            await members.stream(master, follower)
            await follower.advance(6)
            assert {"one", "twoFalse", "twoTrue"} <= {*follower.broker.topics.all()}


async def test_what_a_member_has_not_taken_yet_is_taken_before_it_leads(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a", gated=False) as master, members.follower("b") as follower:
        await members.stream(master, follower)
        await create(master, "last")
        await commit(master, 7, topic="last")
        await members.clock.advance(1)
        await members.stream(master, follower, confirm=False)
        assert "last" not in follower.broker.topics
    async with members.master("b", gated=False) as second:
        assert "last" in second.broker.topics
        assert second.broker.offsets.find("last", "G", 0) == 7


async def test_a_deposed_master_drops_what_was_never_confirmed(tmp_path: Path) -> None:
    """It was killed as a master: its tables have a topic that the set does not, until it follows."""
    members = Members(tmp_path)
    async with members.master("a", killed=True) as old, members.follower("b") as follower:
        await members.stream(old, follower)
        common = old.broker.store.commit_log.end
        old.broker.topics.put(TopicConfig(topic_name="never"))
        await members.clock.advance(2)
    members.cut("a", common)
    async with members.master("b", gated=False) as master, members.follower("a") as rejoined:
        assert "never" in rejoined.broker.topics
        await create(master, "later")
        await members.stream(master, rejoined)
        assert "never" not in rejoined.broker.topics
        assert "later" in rejoined.broker.topics
        assert rejoined.broker.topics.version == master.broker.topics.version


async def test_a_deposed_master_that_leads_again_at_once_has_what_the_log_says(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a", killed=True) as old:
        common = old.broker.store.commit_log.end
        old.broker.topics.put(TopicConfig(topic_name="never"))
        await members.clock.advance(2)
    members.cut("a", common)
    async with members.master("a", gated=False) as again:
        assert "never" not in again.broker.topics


async def test_a_killed_master_that_kept_its_log_keeps_its_tables(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a", gated=False, killed=True) as old:
        await create(old, "kept")
        await commit(old, 5, topic="kept")
        await members.clock.advance(1.5)
    async with members.master("a", gated=False) as again:
        assert "kept" in again.broker.topics
        assert again.broker.offsets.find("kept", "G", 0) == 5


async def test_snapshots_let_members_begin_in_the_middle(tmp_path: Path) -> None:
    """The log file with the first snapshot goes: there is another one before that."""
    members = Members(tmp_path, commit_log_file_bytes=64 << 10)
    async with members.master("a", gated=False) as master:
        await create(master, "early")
        first = master.broker.environment.recorder.snapshot  # type: ignore[union-attr]
        for _ in range(20):
            await master.send(body=bytes(10_000))
        assert master.broker.master_tables is not None
        await master.broker.master_tables.carry(0, 64 << 10)
        await master.broker.store.drop_oldest_log_file()
        assert master.broker.environment.recorder.snapshot > first  # type: ignore[union-attr]
        async with members.follower("b") as follower:
            follower.broker.store.following.begin_at(master.broker.store.commit_log.start)
            await members.stream(master, follower)
            assert "early" in follower.broker.topics


async def test_a_record_that_is_none_stops_the_tables_and_is_named(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a", gated=False) as master, members.follower("b") as follower:
        host = master.broker.environment.store_host
        junk = Record(topic=STATE_TOPIC, queue_id=0, body=b"junk", born_timestamp=1, born_host=host, store_host=host)
        master.broker.store.put([junk])
        await create(master, "behind")
        await members.stream(master, follower)
        assert follower.broker.follower_tables is not None
        trouble = follower.broker.follower_tables.following.trouble
        assert trouble is not None
        assert re.search(r"record \d+ of rmq_sys_PYROMQ_STATE, at \d+: 4 bytes: a record of table changes has", trouble)
        assert "behind" not in follower.broker.topics
    with pytest.raises(TableRecordRefused, match="of rmq_sys_PYROMQ_STATE"):
        async with members.master("b"):
            raise AssertionError("it leads without a change of its tables")


async def test_nobody_sends_to_the_topic(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a", gated=False) as master:
        assert (await master.send(topic=STATE_TOPIC)).code != 0


@pytest.mark.parametrize(
    ("killed", "gated", "knows"), [(False, False, True), (True, False, False), (False, True, False)]
)
async def test_only_a_clean_stop_with_everything_confirmed_leaves_no_doubt(
    tmp_path: Path, killed: bool, gated: bool, knows: bool
) -> None:
    members = Members(tmp_path)
    async with members.master("a", gated=False):
        pass
    async with members.master("a", gated=gated, killed=killed) as master:
        master.broker.topics.put(TopicConfig(topic_name="orders"))
        await members.clock.advance(2)
    async with members.master("a", gated=False) as again:
        assert again.broker.base.knows_what_left is knows
        assert "orders" in again.broker.topics


async def test_offsets_of_a_master_are_on_its_disk(tmp_path: Path) -> None:
    members = Members(tmp_path)
    async with members.master("a", gated=False) as master:
        keeping = asyncio.ensure_future(master.broker.tables.keep_offsets())
        await master.send()
        await commit(master, 9)
        await members.clock.advance(7)
        keeping.cancel()
        assert b'"T@G"' in read_whole(master.disk, "config/consumerOffset.json")
