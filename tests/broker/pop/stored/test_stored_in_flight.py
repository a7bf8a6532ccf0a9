"""In flight are also messages whose check points have left memory: over acks, changes, stops, kills, and Java's."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from pyromq.broker.intake.intake import Outcome
from pyromq.broker.pop.stored.in_flight import StoredInFlight
from pyromq.broker.pop.stored.java_records import (
    PointKey,
    RevivePlace,
    StoredAck,
    StoredCheckPoint,
    ack_record,
    key_of_ack,
    point_record,
    stored_point,
)
from pyromq.broker.pop.stored.recount import StoredRecount
from pyromq.protocol.bodies.body import decode_body
from pyromq.protocol.bodies.offsets import ConsumeStats, ConsumeStatsList
from pyromq.protocol.record import encode_record
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.pop.popping import Popped, ack, change, pop
from tests.broker.pop.stored.recounting import REVIVE, stored_by_log
from tests.broker.virtual import START_MS, Virtual, virtual_broker

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


async def spilled(life: Virtual, count: int = 5, invisible_ms: int = 60_000) -> list[Popped]:
    """Messages whose check point has left memory."""
    for number in range(count):
        await life.send(body=f"m{number}".encode(), properties={"UNIQ_KEY": f"id{number}"})
    popped = await pop(life, invisibleTime=invisible_ms)
    await life.advance(10.5)
    assert life.broker.pop_parts.table.used_bytes == 0
    return popped


async def said(life: Virtual) -> tuple[dict[str, int], int]:
    """What progress of the group says of stored ones, and the sum of all that is in flight."""
    answer = await life.call(RequestCode.GET_CONSUME_STATS, consumerGroup="G")
    stats = decode_body(ConsumeStats, answer.body)
    assert life.broker.stored_pops.in_flight() == stored_by_log(life, life.clock.now_ms())
    return stats.stored_in_flight or {}, stats.in_flight


async def test_they_are_in_flight_until_they_are_acked(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        popped = await spilled(life)
        assert await said(life) == ({"T": 5}, 5)
        await ack(life, popped[0])
        assert await said(life) == ({"T": 4}, 4)
        await change(life, popped[1], 30_000)
        assert await said(life) == ({"T": 4}, 4)
        assert life.broker.stored_pops.figures()["pyromqPopStoredInFlight"] == "4"
        assert life.broker.stored_pops.parked()["popped messages, in flight and no longer in memory"] == 4
        whole = decode_body(ConsumeStatsList, (await life.call(RequestCode.GET_BROKER_CONSUME_STATS)).body)
        assert whole.total_inflight_diff == 4
        for one in popped[2:]:
            await ack(life, one)
        assert await said(life) == ({"T": 1}, 1)


async def test_they_are_in_flight_no_more_once_their_time_is_over(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        popped = await spilled(life, invisible_ms=30_000)
        await ack(life, popped[0])
        for _ in range(38):  # the timer delivers check points, then their time is over, then it delivers acks
            await life.advance(0.5)
            at_ms = life.clock.now_ms()
            assert life.broker.stored_pops.in_flight() == stored_by_log(life, at_ms)
        await life.advance(2)
        assert life.broker.stored_pops.in_flight() == {}
        assert len(await pop(life)) == 4


@pytest.mark.parametrize("killed", [False, True])
async def test_a_start_counts_them(tmp_path: Path, killed: bool) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=killed) as life:
        popped = await spilled(life)
        await ack(life, popped[0])
        await life.send(body=b"young", properties={"UNIQ_KEY": "young"})
        await pop(life, invisibleTime=60_000)  # in memory; a clean stop stores it
        await life.advance(0.1)
    async with virtual_broker(tmp_path, disk.kill() if killed else disk, clock, killed=True) as life:
        await life.advance(0.1)
        assert life.broker.stored_pops.recount.is_done
        assert (await said(life))[1] == 5
        await ack(life, popped[1])
        assert (await said(life))[1] == 4
        await life.advance(55)
        assert life.broker.stored_pops.in_flight() == {("G", "T"): 1}
        await life.advance(10)
        assert life.broker.stored_pops.in_flight() == {}


@pytest.mark.parametrize("wait_s", [0.0, 17.6, 18.4, 19.5, 20.5])
async def test_a_kill_around_their_time(tmp_path: Path, wait_s: float) -> None:
    """Whether the timer had delivered check points and acks, and the start reads them again."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        popped = await spilled(life, invisible_ms=30_000)
        await ack(life, popped[0])
        await life.advance(wait_s)
    async with virtual_broker(tmp_path, disk.kill(), clock) as life:
        for _ in range(50):
            await life.advance(0.5)
            assert life.broker.stored_pops.in_flight() == stored_by_log(life, life.clock.now_ms())
        assert life.broker.stored_pops.in_flight() == {}


async def test_what_java_left_is_counted(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    place = RevivePlace(REVIVE, 3, HOST)
    point = stored_point(("G", "T", 0), "broker-a", 0, START_MS, 60_000, [0, 1, 2, 4])
    its_ack = StoredAck(group="G", topic="T", start=0, pop_time=START_MS, offset=2)  # Java's buffer names no broker
    put: list[Outcome] = []
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        for number in range(5):
            await life.send(body=b"%d" % number)
        parts, until = life.broker.sends, life.broker.sends.parks.timer.until
        parts.access.intake.put(until(point_record(point, place, START_MS), point.deliver_ms), put.append)
        parts.access.intake.put(
            until(ack_record(its_ack, point.revive_ms, place, START_MS), point.revive_ms), put.append
        )
        parts.access.intake.flush()
        await life.advance(0.1)
    assert [one.refusal for one in put] == [None, None]
    async with virtual_broker(tmp_path, disk.kill(), clock) as life:
        await life.advance(0.1)
        assert life.broker.stored_pops.in_flight() == {("G", "T"): 3} == stored_by_log(life, life.clock.now_ms())
        await life.advance(62)
        assert life.broker.stored_pops.in_flight() == {}


async def test_an_ack_that_is_repeated_is_forgotten_with_its_time(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        popped = await spilled(life, invisible_ms=30_000)
        for _ in range(3):
            await ack(life, popped[0])
            await life.advance(1)
        assert life.broker.stored_pops.in_flight() == {("G", "T"): 2}  # two too few
        await life.send(body=b"more", properties={"UNIQ_KEY": "more"})
        await pop(life, invisibleTime=60_000)
        await life.advance(22)
        assert life.broker.stored_pops.in_flight() == {("G", "T"): 1} == stored_by_log(life, life.clock.now_ms())


async def test_counting_at_a_start_rests_for_what_it_takes_not_for_what_it_waits() -> None:
    clock = ManualClock(START_MS)
    counted = StoredInFlight(1_000, START_MS)
    point = stored_point(("G", "T", 0), "b", 0, START_MS, 60_000, [0, 1])
    raw = encode_record(point_record(point, RevivePlace(REVIVE, 0, HOST), START_MS))

    async def waiting(topic: str, begun: Callable[[int], None]) -> AsyncIterator[Sequence[bytes]]:
        await clock.advance(30)  # the timer is busy
        begun(clock.now_ms())
        yield [raw]
        yield [raw]

    recount = StoredRecount(clock, counted, waiting, lambda: 1)
    await asyncio.wait_for(recount.run(REVIVE), 5)  # nobody moves the clock on
    assert recount.is_done


# --- without a broker -------------------------------------------------------------------------------------------------


def made(number: int, slot_ms: int) -> tuple[StoredCheckPoint, StoredAck, PointKey]:
    names = ("G", f"T{number % 2}", 0)
    point = stored_point(names, "b", number * 4, 1_000 + number, slot_ms, range(number * 4, number * 4 + 4))
    one = StoredAck(
        group="G", topic=names[1], start=point.start, pop_time=point.pop_time, offset=point.start, broker="b"
    )
    return point, one, key_of_ack(one, "b")


@pytest.mark.parametrize("seed", range(20))
def test_counts_are_those_of_what_is_not_read(seed: int) -> None:
    rng = random.Random(seed)
    counted = StoredInFlight(1_000, 0)
    waiting: list[tuple[StoredCheckPoint | StoredAck, int, PointKey | None]] = []
    ahead: list[tuple[StoredAck, PointKey]] = []
    for number in range(200):
        slot_ms = rng.randrange(1, 60) * 1_000
        point, one, key = made(number, slot_ms)
        waiting += [(point, slot_ms, None), (one, slot_ms + 1_000, key)]
        for content, slot, _ in waiting[-2:]:
            counted.put(content, slot)
        while waiting and rng.random() < 0.5:
            content, slot, its_key = waiting.pop(rng.randrange(len(waiting)))
            if isinstance(content, StoredAck) and its_key is not None and rng.random() < 0.5:
                counted.seen_ahead(its_key, content.acked, slot)
                ahead.append((content, its_key))
                waiting.append((content, slot, its_key))
                continue
            counted.read(content, slot, its_key)
            ahead = [other for other in ahead if other[1] != its_key]
        expected: Counter[tuple[str, str]] = Counter()
        for content, _, _ in waiting:
            expected[content.group, content.topic] += 4 if isinstance(content, StoredCheckPoint) else -1
        for content, _ in {key: (one, key) for one, key in ahead}.values():
            expected[content.group, content.topic] += 1
        assert {pair: n for pair, n in counted.counts().items() if n} == {p: n for p, n in expected.items() if n}
    counted.forget(100_000)
    assert +counted.counts() == Counter()
    assert -counted.counts() == Counter()
