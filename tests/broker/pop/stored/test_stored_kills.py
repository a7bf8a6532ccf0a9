"""A checker that knows every send, pop, ack and change, on virtual time, while check points are in memory and stored.

Kills at any moment: nothing that was acked in time comes again, nothing comes within its invisible time, nor later than
it should, nothing is lost. Power cuts, at any write: nothing is lost that was on the medium.
"""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.intake.intake import Done, Outcome
from pyromq.broker.pop.stored.java_records import StoredCheckPoint
from pyromq.broker.pop.stored.spill import JavaSpill
from pyromq.errors import RequestRefused
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.pop.popping import Popped, ack, ack_batch, change, pop
from tests.broker.pop.stored.recounting import stored_by_log
from tests.broker.pop.test_pop_restarts import STEP, DyingDisk, Ledger, killed_at
from tests.broker.virtual import START_MS, Virtual, virtual_broker

LATE_MS = 100
SETTINGS: dict[str, Any] = {"pop_ck_stay_buffer_time": 2_000, "commit_log_file_bytes": 1 << 18}


class Checker:
    """What was handed out, and when it may come again."""

    def __init__(self, seed: int, *, once: bool) -> None:
        self._rng = random.Random(seed)
        self._once = once
        self.sent: list[str] = []
        self.acked: set[str] = set()
        self._hidden: dict[str, tuple[Popped, int]] = {}  # until when
        self._begun_ms = 0  # this life of the broker

    def begin(self, life: Virtual) -> None:
        self._begun_ms = life.clock.now_ms()

    async def act(self, life: Virtual) -> None:
        for _ in range(self._rng.randrange(4)):
            body = f"m{len(self.sent)}"
            answer = await life.send(
                body=body.encode(), queue=self._rng.randrange(2), properties={"UNIQ_KEY": f"id-{body}"}
            )
            if answer.code == 0:
                self.sent.append(body)
        if self.sent and self._rng.random() < 0.7:
            await self.pop(life, self._rng.choice((1_000, 5_000, 12_000, 30_000)), self._rng.randrange(1, 9))
        self.compare_in_flight(life)
        await self._settle(life)
        self.compare_in_flight(life)
        await life.advance(self._rng.choice((0.0, 0.2, 1.0, 2.5, 7.0)))
        self.compare_in_flight(life)

    def compare_in_flight(self, life: Virtual) -> None:
        """What the broker says to be in flight, in memory and stored, is what was handed out and is not acked."""
        now = life.clock.now_ms()
        if not self._once or now < self._begun_ms + LATE_MS:
            return
        parts = life.broker
        young = sum(one.messages for one in parts.pop_parts.table.in_flight())
        stored = parts.stored_pops.in_flight()
        for pair, least in stored_by_log(life, now).items():
            assert stored.get(pair, 0) >= least, f"{stored.get(pair)} of {pair} are in flight, {least} by the log"
        by_log = stored_by_log(life, now - LATE_MS)
        for pair, count in stored.items():
            assert count <= by_log.get(pair, 0), f"{count} of {pair} are stored and in flight, {by_log} by the log"
        said = young + sum(stored.values())
        least = sum(until > now for _, until in self._hidden.values())
        most = sum(until > now - LATE_MS for _, until in self._hidden.values())
        assert least <= said <= most, f"{said} are in flight, {young} of them in memory; they should be {least}"

    async def pop(self, life: Virtual, invisible_ms: int, count: int = 32) -> list[Popped]:
        now = life.clock.now_ms()
        found = await pop(life, invisibleTime=invisible_ms, maxMsgNums=count)
        for one in found:
            if self._once:
                assert one.body not in self.acked, f"{one.body} was acked and came again"
                before = self._hidden.get(one.body)
                assert before is None or before[1] <= now, f"{one.body} came {before[1] - now} ms too early"
            self._hidden[one.body] = one, now + invisible_ms
        if self._once and len(found) < count and now >= self._begun_ms + LATE_MS:
            late = {body: now - until for body, (_, until) in self._hidden.items() if until + LATE_MS <= now}
            assert not late, "their time is over and they did not come, by ms"
        return found

    async def _settle(self, life: Virtual) -> None:
        """Ack or change some of what is hidden."""
        now = life.clock.now_ms()
        for body, (one, until) in [*self._hidden.items()]:
            if until <= now or self._rng.random() < 0.6:
                continue
            if self._rng.random() < 0.7:
                answer = await (ack(life, one) if self._rng.random() < 0.5 else ack_batch(life, [one]))
                if answer.code == 0:
                    self.acked.add(body)
                    del self._hidden[body]
                continue
            later = self._rng.choice((500, 8_000, 20_000))
            answer, changed = await change(life, one, later)
            if answer.code == 0:
                self._hidden[body] = changed, now + later

    async def drain(self, life: Virtual) -> None:
        """Ack everything that comes until nothing has come for a minute."""
        quiet = 0
        while quiet < 30:
            found = await self.pop(life, 60_000)
            for one in found:
                assert (await ack(life, one)).code == 0
                self.acked.add(one.body)
                self._hidden.pop(one.body, None)
            quiet = 0 if found else quiet + 1
            await life.advance(2)


@pytest.mark.parametrize("seed", range(10))
async def test_kills_lose_and_repeat_nothing(tmp_path: Path, seed: int) -> None:
    await live_and_die(tmp_path, seed, 6)


async def live_and_die(folder: Path, seed: int, lives: int) -> None:
    """Let a broker be killed so often, then drain it. `campaign.py` runs this with many seeds."""
    checker = Checker(seed, once=True)
    clock = ManualClock(START_MS + seed * 137)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    for _ in range(lives):
        async with virtual_broker(folder, disk, clock, killed=True, **SETTINGS) as life:
            checker.begin(life)
            for number in range(8):
                await checker.act(life)
                if number % 3 == 2:
                    await life.broker.tables.offsets_saved()
        disk = disk.kill()
    async with virtual_broker(folder, disk, clock, **SETTINGS) as life:
        await checker.drain(life)
    assert set(checker.sent) - checker.acked == set(), "lost"


@pytest.mark.parametrize("seed", range(8))
async def test_power_cuts_lose_nothing(tmp_path: Path, seed: int) -> None:
    checker = Checker(seed, once=False)
    clock = ManualClock(START_MS + seed * 311)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    for _ in range(6):
        async with virtual_broker(tmp_path, disk, clock, killed=True, **SETTINGS) as life:
            for _ in range(5):
                await checker.act(life)
                await life.broker.tables.offsets_saved()
            on_medium = [*checker.sent]
            await life.advance(random.Random(seed).choice((0.1, 3.0)))
        disk = disk.crash(seed)
        checker.sent = on_medium
        checker.acked &= set(on_medium)
    checker.acked.clear()  # acks of the last moment may be lost, and come again
    async with virtual_broker(tmp_path, disk, clock, **SETTINGS) as life:
        await checker.drain(life)
        for queue in range(2):
            base = life.broker.offsets.find("T", "G", queue)
            stored = life.broker.store.queues.get("T", queue)
            assert stored is None or base == stored.readable_end


async def test_a_power_cut_at_any_step_of_spill_and_revival_loses_nothing(tmp_path: Path) -> None:
    """Handed out, spilled, one acked, expired, revived: what the medium may hold after each step is opened."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True, **SETTINGS) as life:
        for number in range(4):
            await life.send(body=f"m{number}".encode(), properties={"UNIQ_KEY": f"id{number}"})
        await life.broker.store.flush_all()
        await life.broker.tables.topic_save.saved()
        await life.broker.tables.group_save.saved()
        popped = await pop(life, invisibleTime=6_000)
        for step in range(13):
            if step == 4:
                await ack(life, popped[0])
            if step % 2:
                await life.broker.tables.offsets_saved()
            for seed in range(2):
                given = await given_after(tmp_path, disk.crash(step * 2 + seed), clock.now_ms())
                assert set(given) >= {"m1", "m2", "m3"}, (step, given)
            await life.advance(1)


async def given_after(folder: Path, disk: SimulatedDisk, now_ms: int) -> list[str]:
    """Open what a power cut has left, and return all that is handed out within a quarter of a minute."""
    clock = ManualClock(now_ms)
    disk.now_ms = clock.now_ms
    given: list[str] = []
    async with virtual_broker(folder, disk, clock, **SETTINGS) as life:
        for _ in range(6):
            given += [one.body for one in await pop(life, invisibleTime=600_000)]
            await life.advance(2.5)
    return given


async def stored_story(broker: Virtual, ledger: Ledger) -> None:
    """Everything that is written of what has left memory: acks, changes, those of the last tick, copies, offsets."""
    for number in range(6):
        await ledger.send(broker, f"m{number}")
    messages = await ledger.pop(broker, 14_900, maxMsgNums=4)
    more = await ledger.pop(broker, 14_600)
    if len(messages) < 4 or len(more) < 2:
        return
    await broker.clock.advance(11)
    await ledger.ack(broker, messages[0])
    await ledger.change(broker, more[0], 8_000)
    await broker.clock.advance(3.598)
    await ledger.ack(broker, more[1])
    await broker.clock.advance(0.301)
    await ledger.ack(broker, messages[1], messages[2])
    changed = await ledger.change(broker, messages[3], 2_000)
    await broker.clock.advance(2.2)
    again = await ledger.pop(broker, 60_000)
    await ledger.ack(broker, changed, *again)  # too late for the first
    await ledger.send(broker, "m6")
    await broker.clock.advance(3)
    await ledger.pop(broker, 60_000)


async def test_a_kill_between_any_two_writes_of_stored_check_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead process must not write a check point again: memory of files takes that without asking the disk."""
    put_point = JavaSpill.put_point
    disks: dict[JavaSpill, DyingDisk] = {}

    async def script(broker: Virtual, ledger: Ledger) -> None:
        disks[broker.broker.stored_pops.spill] = ledger.disk
        await stored_story(broker, ledger)

    def put_alive(spill: JavaSpill, point: StoredCheckPoint, revive_queue: int, done: Done) -> None:
        if spill in disks and disks[spill].is_dead:
            done(Outcome(refusal=RequestRefused("the process is dead")))
        else:
            put_point(spill, point, revive_queue, done)

    monkeypatch.setattr(JavaSpill, "put_point", put_alive)
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)  # records would keep each life in memory
    whole = await killed_at(tmp_path, 1 << 40, script)
    count = whole.operations - whole.dies_at
    assert count > 100
    for operations in range(1, count, STEP):
        disks.clear()
        await killed_at(tmp_path, operations, script)


async def test_a_kill_between_a_spill_and_its_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is in the log, SPILLED is not: it must not be in memory too, or an acked message would come again."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True, **SETTINGS) as life:
        for number in range(3):
            await life.send(body=f"m{number}".encode(), properties={"UNIQ_KEY": f"id{number}"})
        popped = await pop(life, invisibleTime=20_000)
        await life.advance(1.5)
        monkeypatch.setattr(life.broker.pop_parts.journal, "flush", lambda: None)
        await life.advance(1)
        assert life.broker.pop_parts.table.used_bytes == 0
    monkeypatch.undo()
    async with virtual_broker(tmp_path, disk.kill(), clock, **SETTINGS) as life:
        assert life.broker.pop_parts.table.used_bytes == 0
        await ack(life, popped[1])
        await life.advance(25)
        assert sorted(one.body for one in await pop(life)) == ["m0", "m2"]


async def test_a_full_disk_at_the_revival_is_waited_for(tmp_path: Path) -> None:
    """A check point that is small enough is put again and tried ten seconds later; else it stays where it is."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, **SETTINGS) as life:
        for number in range(3):
            await life.send(body=f"m{number}".encode() * 9000, properties={"UNIQ_KEY": f"id{number}"})
        await pop(life, invisibleTime=20_000)
        await life.advance(19.5)  # the timer has delivered the check point
        disk.capacity = disk.usage().used
        while (await life.send(queue=1, body=bytes(9000))).code == 0:
            assert life.broker.store.appended.value < 1 << 18  # what was allocated before
        await life.advance(4)
        assert life.stored("%RETRY%G_T") == []
        disk.capacity *= 3
        life.broker.storage.gate.measure()
        await life.advance(30)
        assert len(life.stored("%RETRY%G_T")) == 3
        assert life.broker.stored_pops.revive.undecided() == 0
