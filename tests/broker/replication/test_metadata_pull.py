"""A slave takes over its master's tables: both are whole brokers, over sockets; the log is copied by the test."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.ambient import SystemClock
from pyromq.broker.replication.metadata_pull import JAVA_PERIOD_S, NOT_FOLLOWED, PERIOD_S, MetadataPull
from pyromq.errors import CallFailed, Malformed
from pyromq.model.topic import Perm
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Reply
from tests.broker.replication.fake_broker import a_broker_that
from tests.broker.running import Running, running_broker, turns_until


class NotingClient(RemotingClient):
    """A client that notes what it asked for."""

    asked: set[int]

    async def call(self, address: str, request: Command, timeout_s: float) -> Command:
        self.asked.add(request.code)
        return await super().call(address, request, timeout_s)


class Pair:
    """A master and a broker that pulls its tables. No stream here: the slave's log is as long as the test says."""

    def __init__(self, master: Running, slave: Running, client: NotingClient) -> None:
        self.master, self.slave, self.client = master, slave, client
        self.address: str | None = master.address
        self.log_end = 1 << 40
        self.removed: list[str] = []  # topics whose queues have gone
        tables = replace(
            slave.broker.slave_tables.tables,
            log_end=lambda: self.log_end,
            remove_queues=lambda topic, end: self.removed.append(topic),
        )
        self.pull = MetadataPull(client, SystemClock(), lambda: self.address, tables)

    def delete_here(self, topic: str) -> None:
        """Do what a slave does when it is asked to delete a topic."""
        self.slave.broker.offsets.drop_topic(topic)
        self.slave.broker.topics.delete(topic)
        self.pull.topic_deleted(topic)

    async def round(self) -> float:
        self.client.asked = set()
        assert self.address is not None
        return await self.pull.round(self.address)


@asynccontextmanager
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with (
        running_broker(tmp_path / "master") as master,
        running_broker(tmp_path / "slave") as slave,
        NotingClient(clock=SystemClock(), rng=random.Random(1)) as client,
    ):
        client.asked = set()
        yield Pair(master, slave, client)


def tables_of(broker: Running) -> dict[str, Any]:
    parts = broker.broker
    return {
        "topics": dict(parts.topics.all()),
        "topics version": parts.topics.version,
        "groups": dict(parts.groups.all()),
        "groups version": parts.groups.version,
        "forbidden": dict(parts.groups.forbidden),
        "modes": parts.balance.modes.all(),
        "offsets": dict(parts.offsets.all()),
        "levels": dict(parts.timing.progress.offsets),
        "counts": parts.timing.timers.counts.by_topic(),
    }


async def fill(master: Running) -> None:
    parts = master.broker
    parts.topics.put(TopicConfig(topic_name="T", attributes={"message.type": "NORMAL"}))
    parts.topics.put(TopicConfig(topic_name="Ordered", order=True, perm=Perm.READ))
    parts.groups.put(SubscriptionGroupConfig(group_name="G", retry_max_times=3))
    parts.groups.set_readable("G", "T", False)
    parts.offsets.commit("T", "G", 0, 17)
    parts.offsets.commit("T", "G", 3, 4)
    parts.timing.progress.moved(3, 8, 0)
    parts.timing.timers.counts.add("T", 5)
    await master.call(
        Code.SET_MESSAGE_REQUEST_MODE,
        json.dumps({"topic": "T", "consumerGroup": "G", "mode": "POP", "popShareQueueNum": -1}).encode(),
    )


async def test_all_tables_arrive_at_once_and_equal(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await fill(both.master)
        assert await both.round() == PERIOD_S
        assert tables_of(both.slave) == tables_of(both.master)
        assert both.pull.has_all.is_set()


async def test_then_only_what_has_changed_is_asked_for(tmp_path: Path) -> None:
    by_itself = {Code.TABLE_VERSIONS, Code.GET_TIMER_CHECK_POINT}  # the timer's place moves once a second
    async with pair(tmp_path) as both:
        await fill(both.master)
        await both.round()
        await both.round()
        assert both.client.asked <= by_itself
        both.master.broker.topics.put(TopicConfig(topic_name="New"))
        both.master.broker.offsets.commit("T", "G", 1, 9)
        await both.round()
        assert both.client.asked - by_itself == {Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_CONSUMER_OFFSET}
        assert tables_of(both.slave) == tables_of(both.master)


async def test_what_the_master_deletes_goes_here_too(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await fill(both.master)
        await both.round()
        for code, fields in (
            (Code.DELETE_TOPIC_IN_BROKER, {"topic": "Ordered"}),
            (Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "G", "cleanOffset": True}),
        ):
            assert (await both.master.call(code, **fields)).code == 0
        await both.round()
        assert "Ordered" not in both.slave.broker.topics
        assert "G" not in both.slave.broker.groups
        assert tables_of(both.slave) == tables_of(both.master)


async def test_a_topic_that_is_deleted_here_alone_is_back_after_the_next_round(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await fill(both.master)
        await both.round()
        both.delete_here("T")
        assert "T" not in both.slave.broker.topics
        await both.round()
        assert tables_of(both.slave) == tables_of(both.master)
        assert both.removed == []


@pytest.mark.parametrize("master_is_first", [True, False])
async def test_a_topic_that_is_deleted_here_and_at_the_master_loses_its_queues_once(
    tmp_path: Path, master_is_first: bool
) -> None:
    async with pair(tmp_path) as both:
        await fill(both.master)
        await both.round()
        if not master_is_first:
            both.delete_here("T")
        assert (await both.master.call(Code.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
        if master_is_first:
            both.delete_here("T")
        await both.round()
        await both.round()
        assert tables_of(both.slave) == tables_of(both.master)
        assert both.removed == ["T"]


async def test_queues_of_deleted_topics_are_remembered_over_a_lost_connection(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await fill(both.master)
        await both.round()
        both.log_end = 0
        assert (await both.master.call(Code.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
        await both.round()
        both.pull.connected()
        both.log_end = 1 << 40
        await both.round()
        assert both.removed == ["T"]


async def test_progress_waits_for_the_records_that_it_rests_on(tmp_path: Path) -> None:
    """A retry is in the log before the offset behind it is committed: the offset without the retry would lose it."""
    async with pair(tmp_path) as both:
        await fill(both.master)
        await both.master.send("T")
        both.log_end = 0
        await both.round()
        slave = both.slave.broker
        assert {"T"} <= slave.topics.all().keys()
        assert {"G"} <= slave.groups.all().keys()
        assert slave.offsets.find("T", "G", 0) is None
        assert not slave.timing.progress.offsets
        assert not both.pull.has_all.is_set()
        both.master.broker.offsets.commit("T", "G", 0, 18)
        both.log_end = 1 << 40
        await both.round()
        assert slave.offsets.find("T", "G", 0) in (17, 18)
        await both.round()
        assert tables_of(both.slave) == tables_of(both.master)


async def test_it_is_all_there_after_a_restart_of_the_slave(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await fill(both.master)
        await both.round()
        wanted = tables_of(both.slave)
    counted = json.loads((tmp_path / "slave" / "config" / "timermetrics").read_bytes())
    assert counted["timingCount"]["T"]["count"] == 5
    async with running_broker(tmp_path / "slave") as slave:
        found = tables_of(slave)
        assert found["offsets"]["T@G"] == {0: 17, 3: 4}
        alike = wanted.keys() - {"offsets", "counts"}  # no timer topic here: what waits in it was counted anew
        assert {name: found[name] for name in alike} == {name: wanted[name] for name in alike}


async def test_a_master_that_was_restarted_is_asked_for_everything(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await fill(both.master)
        await both.round()
        async with running_broker(tmp_path / "other") as other:  # its tables have the same numbers, perhaps
            both.address = other.address
            await both.round()
            assert Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG in both.client.asked
            assert tables_of(both.slave) | {"levels": {}} == tables_of(other)


# --- commits that the slave took --------------------------------------------------------------------------------------


async def committed(broker: Running, offset: int, queue: int = 0) -> None:
    answer = await broker.call(
        Code.UPDATE_CONSUMER_OFFSET, consumerGroup="G", topic="T", queueId=queue, commitOffset=offset
    )
    assert answer.code == 0, answer.remark


async def following(both: Pair) -> asyncio.Task[None]:
    task = asyncio.create_task(both.pull.run())
    await both.pull.has_all.wait()
    return task


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_commits_at_the_slave_are_not_thrown_back(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await fill(both.master)
        task = await following(both)
        await committed(both.slave, 30)  # the master was away for this client
        both.pull.connected()
        both.pull.has_all.clear()
        await both.pull.has_all.wait()
        assert both.slave.broker.offsets.find("T", "G", 0) == 30
        assert both.slave.broker.offsets.find("T", "G", 3) == 4
        assert (await own_commits(both.slave)) == {"T@G": {"0": 30}}
        await committed(both.master, 31)
        await turns_until(lambda: both.slave.broker.offsets.find("T", "G", 0) == 31)
        assert (await own_commits(both.slave)) == {}
        await committed(both.master, 2)  # a reset of the master's is followed
        await turns_until(lambda: both.slave.broker.offsets.find("T", "G", 0) == 2)
        await ended(task)


async def own_commits(broker: Running) -> Any:
    return msgspec.json.decode((await broker.call(Code.OWN_COMMITS)).body)["offsets"]


async def test_they_survive_a_restart_of_the_slave(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await fill(both.master)
        task = await following(both)
        await committed(both.slave, 30)
        await ended(task)
    async with running_broker(tmp_path / "slave") as slave:
        assert (await own_commits(slave)) == {"T@G": {"0": 30}}


async def test_a_broker_that_leads_keeps_no_commits_apart(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await fill(both.master)
        task = await following(both)
        await committed(both.slave, 30)
        await ended(task)
        parts = both.slave.broker
        async with parts.naming.client() as client:
            await parts.slave_tables.lead(client, parts.naming.identity)
        assert (await own_commits(both.slave)) == {}
        assert parts.offsets.find("T", "G", 0) == 30
        await committed(both.slave, 31)
        assert (await own_commits(both.slave)) == {}


# --- masters that are not ours, or not there --------------------------------------------------------------------------


JAVA = {
    "GET_ALL_TOPIC_CONFIG": Reply(body=b'{"dataVersion":{"counter":7},"topicConfigTable":{"J":{"topicName":"J"}}}'),
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG": Reply(body=b'{"dataVersion":{"counter":8},"subscriptionGroupTable":{}}'),
    "GET_ALL_MESSAGE_REQUEST_MODE": Reply(body=b'{"messageRequestModeMap":{}}'),
    "GET_ALL_CONSUMER_OFFSET": Reply(body=b'{"offsetTable":{"J@G":{0:5}}}'),
    "GET_ALL_DELAY_OFFSET": Reply(body=b'{"offsetTable":{1:3,17:0}}'),
    "GET_TIMER_CHECK_POINT": Reply(body=bytes(56)),
    "GET_TIMER_METRICS": Reply(body=b'{"timingCount":{"J":{"count":3,"timeStamp":1}}}'),
    "GET_BROKER_RUNTIME_INFO": Reply(body=b'{"table":{"commitLogMaxOffset":"0"}}'),
}


async def test_a_master_that_does_not_know_our_request_is_asked_for_everything_every_ten_seconds(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as both, a_broker_that(**JAVA) as both.address:
        for _ in range(2):
            assert await both.round() == JAVA_PERIOD_S
        slave = both.slave.broker
        assert "J" in slave.topics
        assert slave.topics.version.counter == 7
        assert slave.offsets.find("J", "G", 0) == 5
        assert slave.timing.progress.offsets == {1: 3, 17: 0}
        assert slave.timing.timers.counts.by_topic() == {"J": 3}


async def test_a_master_without_a_timer_has_the_other_tables(tmp_path: Path) -> None:
    without = {name: one for name, one in JAVA.items() if "TIMER" not in name}
    refused = Reply(code=1, remark="The checkpoint is null")
    async with (
        pair(tmp_path) as both,
        a_broker_that(**without, GET_TIMER_CHECK_POINT=refused, GET_TIMER_METRICS=refused) as both.address,
    ):
        await both.round()
        assert both.slave.broker.offsets.find("J", "G", 0) == 5


@pytest.mark.parametrize(
    ("name", "body", "why"),
    [
        ("GET_ALL_TOPIC_CONFIG", b"[1", "TopicConfigAndMappingSerializeWrapper"),
        ("GET_ALL_CONSUMER_OFFSET", b'{"offsetTable":7}', "ConsumerOffsetSerializeWrapper"),
        ("GET_TIMER_CHECK_POINT", b"short", "5 bytes"),
        ("GET_BROKER_RUNTIME_INFO", b'{"table":{}}', "where its log ends"),
        ("GET_BROKER_RUNTIME_INFO", b'{"table":{"commitLogMaxOffset":"far"}}', "where its log ends"),
    ],
)
async def test_an_answer_that_makes_no_sense_changes_no_progress(
    tmp_path: Path, name: str, body: bytes, why: str
) -> None:
    async with pair(tmp_path) as both, a_broker_that(**JAVA | {name: Reply(body=body)}) as both.address:
        with pytest.raises(Malformed, match=why):
            await both.round()
        assert both.slave.broker.offsets.find("J", "G", 0) is None


async def test_a_master_that_is_away_leaves_everything_as_it_is(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await fill(both.master)
        await both.round()
        wanted = tables_of(both.slave)
        async with a_broker_that() as gone:
            pass
        with pytest.raises(CallFailed):
            await both.pull.round(gone)
        assert tables_of(both.slave) == wanted


async def test_the_loop_goes_on_over_masters_that_come_and_go(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await fill(both.master)
        pull: MetadataPull = both.pull
        address, both.address = both.address, None
        task = asyncio.create_task(pull.run())
        await turns_until(lambda: pull.state == NOT_FOLLOWED)
        async with a_broker_that() as gone:
            pass
        both.address = gone
        pull.connected()
        await turns_until(lambda: "cannot be fetched" in pull.state)
        both.address = address
        pull.connected()
        await pull.has_all.wait()
        assert tables_of(both.slave) == tables_of(both.master)
        await ended(task)
