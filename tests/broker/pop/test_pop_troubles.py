"""Pops when something is wrong or slow: a full disk, messages that are not in memory or gone, bad requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.pop.young import revive
from pyromq.protocol.requests import RequestCode
from pyromq.store.files.disk import DiskFull
from pyromq.store.log.commit_log import CommitLog
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.pop.popping import ack, ack_batch, bodies, change, pop, pop_answer, popped
from tests.broker.virtual import Virtual, virtual_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Virtual]:
    async with virtual_broker(tmp_path) as running:
        yield running


async def fill(broker: Virtual, count: int) -> None:
    for number in range(count):
        assert (await broker.send("T", b"%d" % number, 0, {"UNIQ_KEY": f"U{number}"})).code == 0


# --- a full disk ------------------------------------------------------------------------------------------------------


def refuse_writes(broker: Virtual, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise DiskFull("no space left")

    monkeypatch.setattr(broker.broker.store, "put", full)


async def test_a_full_disk_stops_acks_but_no_pops(broker: Virtual, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(broker, 4)
    with monkeypatch.context() as trouble:
        refuse_writes(broker, trouble)
        first, second = await pop(broker, maxMsgNums=2, invisibleTime=60_000)
        assert (await ack(broker, first)).code == 14
        assert bodies(await pop(broker, maxMsgNums=1)) == ["2"]
        answer, _ = await change(broker, second, 1_000)
        assert answer.code == 14
    assert (await ack(broker, first)).code == 0  # and with it all that could not be written down before
    await broker.advance(1.2)
    assert bodies(await pop(broker, maxMsgNums=1, initMode=0)) == ["3"]
    assert bodies(await pop(broker)) == ["1"]  # its time was changed all the same


async def test_what_was_popped_on_a_full_disk_is_known_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with virtual_broker(tmp_path, killed=True) as broker:
        await fill(broker, 3)
        with monkeypatch.context() as trouble:
            refuse_writes(broker, trouble)
            await pop(broker, maxMsgNums=1, invisibleTime=60_000)
        await pop(broker, maxMsgNums=1, invisibleTime=60_000)  # its record has both
        disk, clock = broker.disk, broker.clock
    assert isinstance(disk, SimulatedDisk)
    async with virtual_broker(tmp_path, disk.kill(), clock) as broker:
        assert bodies(await pop(broker)) == ["2"]


async def test_messages_are_given_again_once_there_is_room(broker: Virtual, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(broker, 2)
    await pop(broker, invisibleTime=1_000)
    with monkeypatch.context() as trouble:
        refuse_writes(broker, trouble)
        await broker.clock.advance(5)
        assert await pop(broker) == []
    await broker.clock.advance(0.2)
    assert bodies(await pop(broker)) == ["0", "1"]


# --- not in memory ----------------------------------------------------------------------------------------------------


async def test_messages_that_are_not_in_memory_are_fetched(broker: Virtual, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(broker, 20)
    monkeypatch.setattr(CommitLog, "read_resident", lambda *_: None)
    first, second = await asyncio.gather(pop(broker), pop(broker))
    third = await pop(broker)
    assert [len(each) for each in (first, second, third)] == [8, 8, 4]  # a cold read is short
    assert sorted(map(int, bodies([*first, *second, *third]))) == list(range(20))


async def test_what_is_given_again_may_have_to_be_fetched(broker: Virtual, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(broker, 2)
    first, _ = await pop(broker, invisibleTime=1_000)
    await ack(broker, first)
    with monkeypatch.context() as cold:
        cold.setattr(CommitLog, "read_resident", lambda *_: None)
        await broker.advance(1.2)
    assert bodies(await pop(broker)) == ["1"]


async def test_a_message_that_is_gone_is_counted(broker: Virtual, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(broker, 2)
    await pop(broker, invisibleTime=1_000)
    queue = broker.broker.store.queues.get("T", 0)
    assert queue is not None
    monkeypatch.setattr(queue.tail, "min_offset", 1)  # as retention leaves it
    await broker.advance(1.2)
    assert broker.bodies("%RETRY%G_T") == ["1"]
    assert broker.broker.pop_parts.revive.lost == 1


# --- requests ---------------------------------------------------------------------------------------------------------


async def test_nobody_sends_to_the_journal(broker: Virtual) -> None:
    await fill(broker, 1)
    await pop(broker)
    assert (await broker.send("rmq_sys_pyromq_pop", b"\x03\x00\x00")).code != 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"maxMsgNums": -1}, 1),
        ({"maxMsgNums": 33}, 29),
        ({"queueId": 99}, 29),
        ({"topic": "None"}, 17),
        ({"bornTime": 1}, 210),
        ({"exp": "a >", "expType": "SQL92"}, 23),
        ({"exp": "x" * 70_000, "expType": "TAG"}, 23),
        ({"invisibleTime": "x"}, 1),
    ],
)
async def test_a_refused_pop_has_the_fields_of_an_answer(broker: Virtual, fields: dict[str, Any], code: int) -> None:
    await fill(broker, 1)
    answer = await pop_answer(broker, **fields)
    assert answer.code == code
    if "x" not in str(fields.get("invisibleTime")):
        assert {answer.fields[name] for name in ("popTime", "invisibleTime", "reviveQid", "restNum")} == {"0"}


async def test_pop_needs_the_timer(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, timer_wheel_enable=False) as broker:
        await broker.send("T", b"x")
        answer = await pop_answer(broker)
        assert (answer.code, answer.remark) == (
            1,
            "the broker[127.0.0.1] pop message is forbidden because timerWheelEnable is false",
        )


async def test_batch_acks_that_cannot_be_read(broker: Virtual) -> None:
    await fill(broker, 1)
    (one,) = await pop(broker)
    assert (await broker.call(RequestCode.BATCH_ACK_MESSAGE)).code == 208
    bad = b'{"acks":[{"c":"G","t":"T","r":"0","so":0,"pt":0,"it":0,"rq":0,"q":0,"b":"*"}]}'
    assert (await broker.call(RequestCode.BATCH_ACK_MESSAGE, bad)).code == 1
    assert (await ack_batch(broker, [one])).code == 0


async def test_an_answer_is_read_as_it_was_written(broker: Virtual) -> None:
    await fill(broker, 1)
    assert bodies(popped(await pop_answer(broker))) == ["0"]


async def test_many_pops_of_one_turn_are_one_record(broker: Virtual) -> None:
    await fill(broker, 8)
    before = broker.broker.pop_parts.journal.records
    answers = await asyncio.gather(*(pop(broker, maxMsgNums=1) for _ in range(8)))
    assert sorted(bodies(one for each in answers for one in each)) == [str(number) for number in range(8)]
    assert broker.broker.pop_parts.journal.records - before == 1


async def test_what_waits_is_bounded_in_bytes(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, max_held_pull_bytes=1_000) as broker:
        await broker.send("T", b"x")
        await pop(broker)
        assert (await pop_answer(broker, pollTime=10_000, exp="x" * 2_000, expType="TAG")).code == 209


async def test_pops_go_on_while_a_pull_lets_a_queue_go(broker: Virtual) -> None:
    await fill(broker, 6)
    await pop(broker, maxMsgNums=2, invisibleTime=60_000)
    pulled, more = await asyncio.gather(broker.pulled("T", offset=2, group="G"), pop(broker, maxMsgNums=2))
    assert bodies(more) == ["2", "3"]
    assert [one.body for one in pulled]
    assert bodies(await pop(broker, maxMsgNums=2)) == ["4", "5"]


async def test_what_expires_together_comes_again_in_slices(broker: Virtual, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of the loop gives some messages again, in one burst; the others come in the next turns."""
    await fill(broker, 200)
    for _ in range(7):
        assert await pop(broker, invisibleTime=1_000)
    monkeypatch.setattr(revive, "COPIED_AT_ONCE", revive.MESSAGES_AT_ONCE)  # the kernel's first slice is Python's
    ends: list[int] = [0]
    broker.broker.store.on_arrival("%RETRY%G_T", lambda tail: ends.append(tail.end))
    await broker.advance(1.2)
    await broker.clock.settle()
    assert broker.broker.pop_parts.revive.revived == 200
    assert [end - before for before, end in pairwise(ends)] == [64, 64, 64, 8]
    again: list[str] = []
    while some := await pop(broker):
        again += bodies(some)
    assert sorted(map(int, again)) == [*range(200)]
