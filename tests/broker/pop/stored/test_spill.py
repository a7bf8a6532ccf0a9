"""Check points that outlive their time in memory: Java's records in the log, acks and changes of them, and revival."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.intake.intake import Outcome
from pyromq.broker.pop.seams import HandedOut
from pyromq.broker.pop.stored.settled import Settled
from pyromq.broker.pop.stored.spill import JavaSpill
from pyromq.broker.pop.young.aging import Aging
from pyromq.broker.pop.young.journal import PopJournal
from pyromq.broker.pop.young.lanes import Lanes
from pyromq.kernel.pops import POINT_BYTES
from pyromq.kernel.state import PopTable
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.pop.popping import Popped, ack, ack_batch, change, pop
from tests.broker.virtual import START_MS, Virtual, properties, virtual_broker

TIMER, REVIVE, RETRY = "rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_DefaultCluster", "%RETRY%G_T"
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"


async def handed_out(life: Virtual, count: int = 4, invisible_ms: int = 60_000) -> list[Popped]:
    for number in range(count):
        await life.send(body=f"m{number}".encode(), properties={"UNIQ_KEY": f"id{number}"})
    return await pop(life, invisibleTime=invisible_ms)


def records(life: Virtual, tag: str) -> list[dict[str, Any]]:
    """Bodies of what waits in the timer topic with this tag."""
    return [json.loads(one.body) for one in life.stored(TIMER) if properties(one)["TAGS"] == tag]


def revive_queues(life: Virtual) -> list[str]:
    return [properties(one)["TAGS"] for queue in range(8) for one in life.stored(REVIVE, queue)]


async def popped_bodies(life: Virtual) -> list[str]:
    return [one.body for one in await pop(life, invisibleTime=600_000)]


async def test_a_check_point_leaves_memory_after_ten_seconds(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        popped = await handed_out(life)
        await ack(life, popped[1])
        await life.advance(9.5)
        assert (records(life, "ck"), life.broker.offsets.find("T", "G", 0)) == ([], 0)
        await life.advance(1)
        assert records(life, "ck") == [
            {
                "bm": 0,
                "bn": "broker-a",
                "c": "G",
                "d": [0, 2, 3],
                "it": 60_000,
                "n": 3,
                "pt": START_MS,
                "q": 0,
                "reviveTime": START_MS + 60_000,
                "ro": 0,
                "so": 0,
                "sp": False,
                "t": "T",
            }
        ]
        assert life.broker.pop_parts.table.used_bytes == 0
        assert life.broker.offsets.find("T", "G", 0) == 4


async def test_those_that_are_acked_in_time_are_never_stored(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        for one in await handed_out(life):
            await ack(life, one)
        await life.advance(120)
        assert life.stored(TIMER) == []
        assert life.bodies(RETRY) == []


async def test_acks_and_changes_of_what_was_spilled(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        popped = await handed_out(life, 5)
        await life.advance(12)
        assert (await ack(life, popped[0])).code == 0
        assert (await ack_batch(life, popped[1:3])).code == 0
        answer, changed = await change(life, popped[3], 100_000)
        assert answer.code == 0
        assert [one["ao"] for one in records(life, "ack")] == [0, 3]
        assert [one["aol"] for one in records(life, "bAck")] == [[1, 2]]
        assert [(one["so"], one["it"], one["d"]) for one in records(life, "ck")][1:] == [(3, 100_000, [0])]
        await life.advance(54)
        assert life.bodies(RETRY) == ["m4"]
        await life.advance(30)
        assert (await ack(life, changed)).code == 0
        await life.advance(60)
        assert life.bodies(RETRY) == ["m4"]
        assert life.broker.stored_pops.revive.undecided() == 0


async def test_a_used_receipt_of_what_was_spilled_makes_no_second_copy(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await life.advance(0.01)
        popped = await handed_out(life, 3)
        await ack(life, popped[0])
        await life.advance(12)
        assert (await change(life, popped[0], 1_000))[0].code == 208, "acknowledged before it left memory"
        await ack(life, popped[1])
        assert (await change(life, popped[1], 1_000))[0].code == 208
        await change(life, popped[2], 5_000)
        answer, newest = await change(life, popped[2], 6_000)
        assert answer.code == 0, "repeated: its first answer may be lost"
        await life.advance(5.5)
        assert life.bodies(RETRY) == []
        await life.advance(2)
        assert life.bodies(RETRY) == ["m2"]
        assert (await change(life, newest, 1_000))[0].code == 208, "given again"
        await life.advance(60)
        assert life.bodies(RETRY) == ["m2"]


def test_what_is_settled_is_known_of_so_many() -> None:
    points = [HandedOut("G", "T", 0, start, 100 + start, 60_000, 0) for start in range(4)]
    settled = Settled(50, most=2)
    for point in points[:2]:
        settled.left(point, ())
    settled.acked(points[0], [0])
    assert settled.current(points[0], 0, is_lane_open=True) is None
    assert settled.current(points[3], 3, is_lane_open=True) is None, "settled in the table"
    assert settled.current(points[3], 3, is_lane_open=False) == points[3], "nothing is known of its lane"
    settled.left(points[2], ())
    assert settled.current(points[0], 0, is_lane_open=True) == points[0], "forgotten"
    assert settled.current(points[1], 1, is_lane_open=True) == points[1]
    settled.changed(points[1], 1, points[2])
    assert settled.current(points[1], 1, is_lane_open=True) == points[2]
    settled.unchanged(points[1], 1)
    assert settled.current(points[1], 1, is_lane_open=True) == points[1]


async def test_acks_of_one_turn_share_a_record(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        popped = await handed_out(life)
        await life.advance(12)
        spill = life.broker.stored_pops.spill
        outcomes: list[Outcome] = []
        revive_queue = int(popped[0].extra_info.split(" ")[3])
        point = HandedOut("G", "T", 0, 0, START_MS, 60_000, revive_queue)
        for offset in (2, 0):
            spill.ack(point, (offset,), outcomes.append)
        await life.clock.settle(3)
        assert [one["aol"] for one in records(life, "bAck")] == [[0, 2]]
        assert [one.refusal for one in outcomes] == [None, None]


async def test_revival_of_what_was_spilled(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        popped = await handed_out(life)
        await life.advance(12)
        await ack(life, popped[2])
        await life.advance(46)  # a second before its time the timer delivers the check point
        assert revive_queues(life) == []
        await life.advance(1)
        assert revive_queues(life) == ["ck"]
        assert life.bodies(RETRY) == []
        await life.advance(1.05)
        assert revive_queues(life) == ["ck", "ack"]
        assert life.bodies(RETRY) == ["m0", "m1", "m3"]
        assert [one.reconsume_times for one in life.stored(RETRY)] == [1, 1, 1]
        queue = int(popped[0].extra_info.split(" ")[3])
        assert life.broker.offsets.find(REVIVE, REVIVE_GROUP, queue) is None  # the copies are not on the medium
        await life.broker.store.flush_log()
        await life.advance(1.1)
        assert life.broker.offsets.find(REVIVE, REVIVE_GROUP, queue) == 0
        assert await popped_bodies(life) == ["m0", "m1", "m3"]


async def test_late_acks_are_counted_and_stored_nowhere(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        popped = await handed_out(life, invisible_ms=15_000)
        await life.advance(16)
        assert (await ack(life, popped[0])).code == 0
        answer, _ = await change(life, popped[1], 5_000)
        assert answer.code == 208, "it is given again"
        assert records(life, "ack") == []
        assert life.broker.stored_pops.spill.late == 2
        await life.advance(10)
        assert life.bodies(RETRY) == ["m0", "m1", "m2", "m3"]


@pytest.mark.parametrize("queue", ["8", "999999", "-1"])
async def test_receipts_of_no_revive_queue_are_stored_nowhere(tmp_path: Path, queue: str) -> None:
    async with virtual_broker(tmp_path) as life:
        popped = await handed_out(life)
        words = popped[0].extra_info.split(" ")
        words[1], words[3] = str(START_MS - 5), queue
        assert (await ack(life, popped[0]._replace(extra_info=" ".join(words)))).code in (0, 1)
        assert life.stored(TIMER) == []
        assert not life.broker.store.queues.get(REVIVE, 999_999)


async def test_a_full_table_makes_room(tmp_path: Path) -> None:
    """A table for 64 check points; from seven eighths of it on the oldest leave."""
    async with virtual_broker(tmp_path) as life:
        await life.send(body=b"m")
        base, access = life.broker.base, life.broker.sends.access
        table = PopTable(64 * POINT_BYTES)
        lanes = Lanes(table, base.offsets, PopJournal(base.live, access, table))
        until, counted = life.broker.sends.parks.timer.until, life.broker.stored_pops.revive.counted
        spill = JavaSpill(base.live, access, lanes, base.topics, until, counted, Settled(base.clock.now_ms()))
        aging = Aging(base.live, access.clock, lanes, spill)
        lane = lanes.open("G", "T", 0, 0)
        for number in range(64):
            assert table.hand_out(lane, number, [number], number + 1, START_MS + number, 60_000, 0)
        assert not table.hand_out(lane, 64, [64], 65, START_MS + 64, 60_000, 0)
        await aging.round()
        assert [one["so"] for one in records(life, "ck")] == list(range(8))
        assert table.hand_out(lane, 64, [64], 65, START_MS + 64, 60_000, 0)
        assert base.offsets.find("T", "G", 0) == 8


async def test_a_stop_leaves_everything_to_java(tmp_path: Path) -> None:
    disk, clock = disk_and_clock()
    async with virtual_broker(tmp_path, disk, clock) as life:
        popped = await handed_out(life)
        await ack(life, popped[0])
    async with virtual_broker(tmp_path, disk.kill(), clock) as life:
        assert [one["d"] for one in records(life, "ck")] == [[1, 2, 3]]
        assert life.broker.offsets.find("T", "G", 0) == 4
        assert await popped_bodies(life) == []
        await ack(life, popped[1])
        await life.advance(70)
        assert life.bodies(RETRY) == ["m2", "m3"]


async def test_topics_and_groups_that_are_gone(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        await handed_out(life)
        await life.advance(12)
        life.broker.groups.delete("G")
        await life.advance(60)
        assert life.bodies(RETRY) == []
        assert life.broker.stored_pops.copies.skipped == 4
        assert life.broker.stored_pops.revive.undecided() == 0


def disk_and_clock() -> tuple[SimulatedDisk, ManualClock]:
    clock = ManualClock(START_MS)
    return SimulatedDisk(now_ms=clock.now_ms), clock
