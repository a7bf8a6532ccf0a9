"""Pops in order over a broker on virtual time: one holder of a queue at a time, attempts, acks out of order, kills."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.store.files.disk import read_whole
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.pop.popping import Popped, ack, ack_batch, bodies, change, pop, pop_answer
from tests.broker.pop.recorded import exchanges
from tests.broker.virtual import START_MS, Virtual, virtual_broker

FILE = "config/consumerOrderInfo.json"
TIMES = ("popTime", "extraInfo", "bornTime")


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Virtual]:
    async with virtual_broker(tmp_path) as running:
        yield running


async def fill(broker: Virtual, count: int, topic: str = "T", queue: int = 0) -> None:
    if topic not in broker.broker.topics:
        broker.broker.topics.put(TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1, perm=6))
    for number in range(count):
        await broker.send(topic, b"m%d" % number, queue)


async def take(broker: Virtual, attempt: str = "a", count: int = 3, **extra: Any) -> list[Popped]:
    fields: dict[str, Any] = {"order": True, "attemptId": attempt, "maxMsgNums": count, "invisibleTime": 10_000}
    return await pop(broker, **(fields | extra))


def committed(broker: Virtual) -> int | None:
    return broker.broker.offsets.find("T", "G", 0)


# --- Java's recordings ------------------------------------------------------------------------------------------------


async def test_the_recorded_frames_get_the_recorded_answers(broker: Virtual) -> None:
    """Pop times differ, so those of our own answers stand in the receipts that follow."""
    await fill(broker, 6, "PfOrder")
    pop_times: dict[str, str] = {}
    for pair, waits_s in [(pair, {10: 2.5, 11: 2.5}.get(pair, 0.0)) for pair in range(1, 15)]:
        scenario, request, java = exchanges()[pair]
        await broker.advance(waits_s or 0.005)
        fields = dict(request.fields) | ({"bornTime": "0"} if "bornTime" in request.fields else {})
        body = bytes(request.body).decode()
        for old, new in pop_times.items():
            body = body.replace(old, new)
            fields = {name: value.replace(old, new) for name, value in fields.items()}
        ours = await broker.call(request.code, body.encode(), **fields)
        assert (ours.code, _words(ours)) == (java.code, _words(java)), scenario
        if "popTime" in java.fields and java.code == 0:
            pop_times[java.fields["popTime"]] = ours.fields["popTime"]
        assert _comparable(ours) == _comparable(java), scenario


def _words(answer: Command) -> str:
    return (answer.remark or "").rpartition(", /")[0] or answer.remark or ""


def _comparable(answer: Command) -> dict[str, str]:
    fields = {name: value for name, value in answer.fields.items() if name not in TIMES}
    if answer.code == 0 and "msgOffsetInfo" not in fields and fields.get("invisibleTime", "0") != "0":
        fields["invisibleTime"] = str(int(fields["invisibleTime"]) // 100)  # now + new - pop time
    return fields


# --- who gets what ----------------------------------------------------------------------------------------------------


async def test_a_queue_is_held_by_one_pop_until_all_of_it_is_acked(broker: Virtual) -> None:
    await fill(broker, 5)
    first, second, third = await take(broker)
    answer = await pop_answer(broker, order=True, attemptId="b", maxMsgNums=3)
    assert (answer.code, answer.fields["restNum"], answer.fields["reviveQid"]) == (210, "0", "999")
    for one, at in ((first, 1), (third, 1), (second, 3)):
        assert (await ack(broker, one)).code == 0
        assert committed(broker) == at
    assert bodies(await take(broker, "b")) == ["m3", "m4"]


async def test_queues_are_held_one_by_one(broker: Virtual) -> None:
    broker.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2, perm=6))
    await fill(broker, 2)
    await take(broker, count=2)
    await fill(broker, 1, queue=1)
    (other,) = await take(broker, "b")
    assert other.queue_id == 1


async def test_groups_do_not_hold_each_other(broker: Virtual) -> None:
    await fill(broker, 2)
    assert len(await take(broker)) == 2
    assert len(await pop(broker, group="H", order=True)) == 2
    assert len(await pop(broker, group="plain")) == 2


async def test_the_same_attempt_gets_the_same_again_and_older_receipts_are_void(broker: Virtual) -> None:
    await fill(broker, 3)
    old, *_ = await take(broker, "a")
    await broker.advance(0.1)
    answer = await pop_answer(broker, order=True, attemptId="a", maxMsgNums=3, invisibleTime=10_000)
    assert answer.fields["orderCountInfo"] == "0 0 0"
    assert (await ack(broker, old)).code == 0
    assert committed(broker) == 0
    await broker.advance(9.95)
    assert await take(broker, "b") == []  # the time counts from the repeated pop
    await broker.advance(0.1)
    assert bodies(await take(broker, "b")) == ["m0", "m1", "m2"]


async def test_no_attempt_id_is_never_the_same_attempt(broker: Virtual) -> None:
    await fill(broker, 1)
    assert len(await pop(broker, order=True)) == 1
    assert await pop(broker, order=True) == []


async def test_what_is_not_acked_stays_in_its_place_and_its_count_grows(broker: Virtual) -> None:
    await fill(broker, 4)
    first, _, third = await take(broker)
    await ack(broker, first)
    await ack(broker, third)
    await broker.advance(10)
    answer = await pop_answer(broker, order=True, attemptId="b", maxMsgNums=3, invisibleTime=1)
    # As from Java: what was acked behind an open message comes again with it.
    assert answer.fields["msgOffsetInfo"] == "0 0 1,2,3"
    assert answer.fields["orderCountInfo"] == "0 qo0%1 1;0 qo0%2 1;0 0 0"
    assert broker.stored("%RETRY%G_T") == []


@pytest.mark.parametrize("at", [0, 1, 2])
async def test_a_shortened_time_frees_the_queue_only_when_all_others_are_acked(broker: Virtual, at: int) -> None:
    await fill(broker, 3)
    messages = await take(broker)
    answer, _ = await change(broker, messages[at], 1_000)
    assert (answer.code, answer.fields["reviveQid"], answer.fields["invisibleTime"]) == (0, "999", "1000")
    await broker.advance(1.1)
    assert await take(broker, "b") == []
    for one in messages:
        if one is not messages[at]:
            await ack(broker, one)
    assert bodies(await take(broker, "b"))[0] == f"m{at}"


async def test_a_longer_time_keeps_the_queue_and_suspend_makes_no_difference(broker: Virtual) -> None:
    await fill(broker, 2)
    first, second = await take(broker)
    await ack(broker, second)
    await change(broker, first, 20_000, suspend=True)
    await broker.advance(15)
    assert await take(broker, "b") == []
    await broker.advance(5)
    assert bodies(await take(broker, "b")) == ["m0", "m1"]


async def test_a_change_of_a_receipt_that_is_void_changes_nothing(broker: Virtual) -> None:
    await fill(broker, 1)
    (old,) = await take(broker, "a")
    await broker.advance(0.1)
    await take(broker, "a")
    answer, _ = await change(broker, old, 0)
    assert answer.code == 0
    assert await take(broker, "b") == []


async def test_a_batch_of_acks_counts_message_by_message(broker: Virtual) -> None:
    await fill(broker, 4)
    messages = await take(broker, count=4)
    assert (await ack_batch(broker, [messages[0], messages[1], messages[3]])).code == 0
    assert committed(broker) == 2
    assert await take(broker, "b") == []
    assert (await ack_batch(broker, [messages[2]])).code == 0
    assert committed(broker) == 4


async def test_an_ack_without_a_block_moves_the_group_by_that_message_alone(broker: Virtual) -> None:
    await fill(broker, 5)
    first, *_ = await take(broker)
    broker.broker.offsets.reset("T", "G", 0, 0)
    stale = first._replace(extra_info=first.extra_info.rsplit(" ", 1)[0] + " 4")
    assert (await ack(broker, stale)).code == 0
    assert committed(broker) == 0  # Java goes on at 5 here: 0 to 3 would be lost


async def test_an_offset_that_was_not_popped_is_refused(broker: Virtual) -> None:
    await fill(broker, 5)
    (one,) = await take(broker, count=1)
    answer = await ack(broker, one._replace(extra_info=one.extra_info[:-1] + "3"))
    assert answer.code == 13
    assert answer.remark == "offset is illegal, key:T@G@0, old:0, commit:3, next:-1, /127.0.0.1:50001"


async def test_a_filter_passes_over_what_does_not_match(broker: Virtual) -> None:
    broker.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1, perm=6))
    for number in range(6):
        await broker.send("T", b"m%d" % number, properties={"TAGS": "AB"[number % 2]})
    messages = await take(broker, exp="B", expType="TAG", count=2)
    assert [one.offset for one in messages] == [1, 3]
    await ack_batch(broker, messages)
    assert committed(broker) == 4
    assert [one.offset for one in await take(broker, "b", exp="B", expType="TAG")] == [5]


async def test_a_group_that_is_set_to_order_is_served_so_whatever_it_asks_for(broker: Virtual) -> None:
    broker.broker.groups.put(SubscriptionGroupConfig(group_name="G", consume_message_orderly=True))
    await fill(broker, 3)
    first, *_ = await pop(broker, maxMsgNums=2)
    assert first.extra_info.split(" ")[3] == "999"
    assert await pop(broker) == []
    await broker.advance(61)
    assert bodies(await pop(broker)) == ["m0", "m1", "m2"]
    group = broker.broker.groups.find("G")
    assert group is not None
    broker.broker.groups.put(msgspec.structs.replace(group, consume_message_orderly=False))
    assert (await pop(broker))[0].extra_info.split(" ")[3] != "999"


# --- waiting ----------------------------------------------------------------------------------------------------------


async def waiting(broker: Virtual, attempt: str = "b", **extra: Any) -> asyncio.Task[list[Popped]]:
    task = asyncio.create_task(take(broker, attempt, pollTime=60_000, **extra))
    await broker.clock.settle()
    assert not task.done()
    return task


@pytest.mark.parametrize("queue", [-1, 0])
async def test_the_last_ack_wakes_who_waits(broker: Virtual, queue: int) -> None:
    await fill(broker, 3)
    first, second = await take(broker, count=2)
    held = await waiting(broker, queueId=queue)
    await ack(broker, second)
    await broker.clock.settle()
    assert not held.done()
    await ack(broker, first)
    assert bodies(await held) == ["m2"]


async def test_the_end_of_the_time_wakes_who_waits(broker: Virtual) -> None:
    await fill(broker, 2)
    _, second = await take(broker)
    held = await waiting(broker)
    await change(broker, second, 12_000)
    await broker.advance(10)
    assert not held.done()
    await broker.advance(2.1)
    assert bodies(await held) == ["m0", "m1"]


async def test_without_the_setting_the_end_wakes_nobody(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, enable_notify_after_pop_order_lock_release=False) as broker:
        await fill(broker, 1)
        await take(broker)
        held = await waiting(broker)
        await broker.advance(20)
        assert not held.done()
        await broker.advance(45)
        assert bodies(await held) == ["m0"]  # it is looked at once more at its own end


async def test_a_message_that_arrives_while_the_queue_is_held_waits_its_turn(broker: Virtual) -> None:
    await fill(broker, 1)
    (one,) = await take(broker)
    held = await waiting(broker)
    await broker.send("T", b"next")
    await broker.clock.settle()
    assert not held.done()
    await ack(broker, one)
    assert bodies(await held) == ["next"]


async def test_a_reset_ends_the_block_and_wakes_who_waits(broker: Virtual) -> None:
    await fill(broker, 3)
    first, *_ = await take(broker)
    await ack(broker, first)
    held = await waiting(broker)
    broker.broker.offsets.reset("T", "G", 0, 0)
    assert bodies(await held) == ["m0", "m1", "m2"]


# --- over restarts ----------------------------------------------------------------------------------------------------


class Lives:
    """One disk and clock over several lives of a broker."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, ManualClock(START_MS)
        self.disk = SimulatedDisk(now_ms=self.clock.now_ms)

    def live(self, killed: bool = False) -> Any:
        return virtual_broker(self.folder, self.disk, self.clock, killed=killed)

    def kill(self) -> None:
        self.disk = self.disk.kill()


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_restart_forgets_nothing(tmp_path: Path, is_killed: bool) -> None:
    lives = Lives(tmp_path)
    async with lives.live(is_killed) as broker:
        await fill(broker, 6)
        first, second, third = await take(broker, "a")
        await ack(broker, first)
        await ack(broker, third)
        await change(broker, second, 30_000)
    if is_killed:
        lives.kill()
    async with lives.live() as broker:
        assert committed(broker) == 1
        await broker.advance(20)
        assert await take(broker, "b") == []
        assert (await ack(broker, second)).code == 0
        assert committed(broker) == 3
        assert bodies(await take(broker, "b")) == ["m3", "m4", "m5"]


@pytest.mark.parametrize("is_killed", [False, True])
async def test_the_attempt_is_known_after_a_restart_and_its_counts_too(tmp_path: Path, is_killed: bool) -> None:
    lives = Lives(tmp_path)
    async with lives.live(is_killed) as broker:
        await fill(broker, 2)
        await take(broker, "a")
        await broker.advance(11)
        await take(broker, "b")
    if is_killed:
        lives.kill()
    async with lives.live() as broker:
        assert await take(broker, "c") == []
        answer = await pop_answer(broker, order=True, attemptId="b", invisibleTime=10_000)
        assert answer.fields["orderCountInfo"] == "0 qo0%0 1;0 qo0%1 1;0 0 1"
        held = asyncio.create_task(take(broker, "c", pollTime=60_000))
        await broker.clock.settle()
        await broker.advance(10.2)
        assert len(await held) == 2  # the timer is set again, too


async def test_acks_of_seconds_ago_survive_a_kill_however_often_files_were_written(tmp_path: Path) -> None:
    lives = Lives(tmp_path)
    async with lives.live(killed=True) as broker:
        await fill(broker, 40)
        for number in range(20):
            (one,) = await take(broker, f"a{number}", count=1)
            await ack(broker, one)
            await broker.advance(1.3)
    lives.kill()
    async with lives.live(killed=True) as broker:
        assert committed(broker) == 20
        (one,) = await take(broker, "z", count=1)
        assert one.body == "m20"
    lives.kill()
    async with lives.live() as broker:
        assert await take(broker, "y") == []


async def test_an_offset_that_was_set_by_hand_after_the_files_were_written_counts_after_a_restart(
    tmp_path: Path,
) -> None:
    lives = Lives(tmp_path)
    async with lives.live() as broker:
        await fill(broker, 4)
        messages = await take(broker, count=4)
        await ack_batch(broker, messages)
        await broker.advance(10)
        fields: dict[str, Any] = {"topic": "T", "consumerGroup": "G", "queueId": 0, "commitOffset": 1}
        assert (await broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, **fields)).code == 0
    async with lives.live() as broker:
        assert committed(broker) == 1


async def test_a_reset_while_a_block_holds_is_not_undone_by_a_kill(tmp_path: Path) -> None:
    lives = Lives(tmp_path)
    async with lives.live(killed=True) as broker:
        await fill(broker, 4)
        first, *_ = await take(broker)
        await ack(broker, first)
        broker.broker.offsets.reset("T", "G", 0, 0)
        await broker.clock.settle()
        await broker.broker.tables.offsets_saved()
    lives.kill()
    async with lives.live() as broker:
        assert committed(broker) == 0
        assert bodies(await take(broker, "b")) == ["m0", "m1", "m2"]


async def test_the_file_is_written_within_seconds_and_at_a_stop(tmp_path: Path) -> None:
    lives = Lives(tmp_path)
    async with lives.live() as broker:
        await fill(broker, 2)
        first, _ = await take(broker)
        await broker.advance(6)
        assert '"a":"a"' in read_whole(lives.disk, FILE).decode()
        assert '"cm":0' in read_whole(lives.disk, FILE).decode()
        await ack(broker, first)
    assert '"cm":1' in read_whole(lives.disk, FILE).decode()


async def test_a_topic_that_is_deleted_takes_its_blocks_along(broker: Virtual) -> None:
    await fill(broker, 2)
    await take(broker)
    assert (await broker.call(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
    assert len(broker.broker.pop_parts.order.table) == 0
