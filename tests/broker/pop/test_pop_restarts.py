"""What was popped, acknowledged and changed before a stop, a kill or a power cut counts afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pyromq.kernel.choice import kernel_name
from pyromq.store.config import FlushMode
from pyromq.store.files.disk import DiskError
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.pop.popping import Popped, ack, ack_batch, bodies, change, pop
from tests.broker.virtual import START_MS, Virtual, virtual_broker

STEP = 6  # of the writes at which the process is killed; 1, by hand, takes a minute

Script = Callable[[Virtual, "Ledger"], Awaitable[None]]


async def fill(broker: Virtual, count: int) -> None:
    for number in range(count):
        assert (await broker.send("T", b"m%d" % number, 0, {"UNIQ_KEY": f"U{number}"})).code == 0


@asynccontextmanager
async def flushed(broker: Virtual) -> AsyncIterator[None]:
    """Sync the log in each turn of the loop: what waits for the medium goes on."""

    async def flush() -> None:
        while True:
            await broker.broker.store.flush_log()
            await asyncio.sleep(0)

    task = asyncio.ensure_future(flush())
    try:
        yield
    finally:
        task.cancel()


async def drained(broker: Virtual, seconds: float = 200) -> list[str]:
    """Every message that comes within this time, acknowledged as it comes."""
    found: list[str] = []
    for _ in range(8):
        while messages := await pop(broker):
            found += bodies(messages)
            for one in messages:
                assert (await ack(broker, one)).code == 0
        await broker.clock.advance(seconds / 7)
    return found


@pytest.mark.parametrize("killed", [False, True], ids=["stop", "kill"])
async def test_what_is_in_flight_stays_so_over_a_restart(tmp_path: Path, killed: bool) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=killed) as broker:
        await fill(broker, 5)
        first, second, third = await pop(broker, maxMsgNums=3, invisibleTime=20_000)
        assert (await ack(broker, first)).code == 0
        _, later = await change(broker, second, 60_000)
    async with virtual_broker(tmp_path, disk.kill() if killed else disk, clock) as broker:
        assert bodies(await pop(broker, invisibleTime=300_000)) == ["m3", "m4"]
        assert (await ack(broker, third)).code == 0  # a receipt from before
        await broker.advance(30)
        assert await pop(broker) == []
        assert (await ack(broker, later)).code == 0
        await broker.advance(60)
        assert await pop(broker) == []


@pytest.mark.parametrize("killed", [False, True], ids=["stop", "kill"])
async def test_what_expires_while_the_broker_is_away_comes_again(tmp_path: Path, killed: bool) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=killed) as broker:
        await fill(broker, 2)
        await pop(broker, invisibleTime=5_000)
    await clock.advance(10)
    async with virtual_broker(tmp_path, disk.kill() if killed else disk, clock) as broker:
        assert sorted(await drained(broker, 20)) == ["m0", "m1"]


async def test_an_answered_ack_survives_a_power_cut_under_sync_flush(tmp_path: Path) -> None:
    for seed in range(12):
        clock = ManualClock(START_MS)
        disk = SimulatedDisk(now_ms=clock.now_ms)
        settings: dict[str, Any] = {"flush_mode": FlushMode.SYNC}
        async with virtual_broker(tmp_path, disk, clock, killed=True, **settings) as broker, flushed(broker):
            await fill(broker, 3)
            first, *rest = await pop(broker, invisibleTime=60_000)
            assert (await ack(broker, first)).code == 0
            after = disk.crash(seed)
            assert len(rest) == 2
        async with virtual_broker(tmp_path, after, clock, **settings) as broker, flushed(broker):
            assert await pop(broker) == [], seed  # handed out, and acknowledged: nothing is there within its time
            assert sorted(await drained(broker)) == ["m1", "m2"], seed


async def test_acks_of_a_power_cut_under_async_flush_lose_nothing(tmp_path: Path) -> None:
    for seed in range(12):
        clock = ManualClock(START_MS)
        disk = SimulatedDisk(now_ms=clock.now_ms)
        async with virtual_broker(tmp_path, disk, clock, killed=True) as broker:
            await fill(broker, 3)
            await clock.advance(11)  # the messages themselves are on the medium
            first, *_ = await pop(broker, invisibleTime=60_000)
            assert (await ack(broker, first)).code == 0
            after = disk.crash(seed)
        async with virtual_broker(tmp_path, after, clock) as broker:
            assert {*await drained(broker)} >= {"m1", "m2"}, seed


# --- a kill between any two writes ------------------------------------------------------------------------------------


class DyingDisk(SimulatedDisk):
    """Takes no change from a moment on: as if the process had died there. What is answered later does not count."""

    dies_at = 1 << 60

    @property
    def is_dead(self) -> bool:
        return self.operations >= self.dies_at

    def count_operation(self) -> None:
        if self.is_dead:
            raise DiskError("the process is dead")
        super().count_operation()


@dataclass
class Ledger:
    """What clients know: only answers that were given before the kill."""

    disk: DyingDisk
    clock: ManualClock
    sent: set[str] = field(default_factory=set)
    acked: set[str] = field(default_factory=set)
    maybe_acked: set[str] = field(default_factory=set)
    hidden_until: dict[str, int] = field(default_factory=dict)

    async def send(self, broker: Virtual, body: str) -> None:
        answer = await broker.send("T", body.encode(), 0, {"UNIQ_KEY": body})
        if answer.code == 0 and not self.disk.is_dead:
            self.sent.add(body)

    async def pop(self, broker: Virtual, invisible_ms: int, **extra: Any) -> list[Popped]:
        messages = await pop(broker, invisibleTime=invisible_ms, **extra)
        if not self.disk.is_dead:
            self._hide(messages, invisible_ms)
        return messages

    def _hide(self, messages: list[Popped], invisible_ms: int) -> None:
        for one in messages:
            assert self.hidden_until.get(one.body, 0) <= self.clock.now_ms(), "given to two within its time"
            assert one.body not in self.acked
            self.hidden_until[one.body] = self.clock.now_ms() + invisible_ms

    async def ack(self, broker: Virtual, *messages: Popped) -> None:
        answer = await (ack(broker, *messages) if len(messages) == 1 else ack_batch(broker, messages))
        names = {one.body for one in messages}
        self.maybe_acked |= names
        if answer.code == 0 and not self.disk.is_dead:
            self.acked |= names

    async def change(self, broker: Virtual, one: Popped, invisible_ms: int) -> Popped:
        answer, changed = await change(broker, one, invisible_ms)
        if answer.code == 0 and not self.disk.is_dead:
            self.hidden_until[one.body] = self.clock.now_ms() + invisible_ms
        return changed


async def story(broker: Virtual, ledger: Ledger) -> None:
    """Everything that is written: messages, pops, acks, a change, revival, bases, offsets."""
    for number in range(4):
        await ledger.send(broker, f"m{number}")
    messages = await ledger.pop(broker, 5_000)
    if len(messages) < 4:
        return
    await ledger.ack(broker, messages[0])
    later = await ledger.change(broker, messages[1], 90_000)
    await broker.clock.advance(5.2)  # m2 and m3 are given again; offsets are saved
    again = await ledger.pop(broker, 60_000)
    if again:
        await ledger.ack(broker, *again[:1])
    await broker.clock.advance(1.1)
    await ledger.send(broker, "m4")
    await ledger.pop(broker, 60_000)
    await ledger.ack(broker, later)
    await broker.clock.advance(11)  # what is still open leaves memory
    await ledger.send(broker, "m5")


async def story_of_copies(broker: Virtual, ledger: Ledger) -> None:
    """What expires twice, beside new messages: the retry topic is there by then, so that a kernel makes the copies."""
    lives_for, ledger.disk.dies_at = ledger.disk.dies_at - ledger.disk.operations, 1 << 60
    for number in range(3):
        await ledger.send(broker, f"m{number}")
    await ledger.pop(broker, 1_000)
    await broker.clock.advance(6)  # the retry topic is made, and on disk
    ledger.disk.dies_at = ledger.disk.operations + lives_for
    for number in range(3, 6):
        await ledger.send(broker, f"m{number}")
    await ledger.pop(broker, 1_000)
    await ledger.pop(broker, 1_000)
    await broker.clock.advance(1.2)
    again = await ledger.pop(broker, 60_000)
    if again:
        await ledger.ack(broker, again[0])
    if not ledger.disk.is_dead and kernel_name() == "native":
        assert broker.broker.pop_parts.revive.copying.kernel.messages


async def story_of_first_copies(broker: Virtual, ledger: Ledger) -> None:
    """What expires first: its copies may be in the log before the table of topics has their retry topic."""
    for number in range(3):
        await ledger.send(broker, f"m{number}")
    await ledger.pop(broker, 1_000)
    await broker.clock.advance(1.2)
    again = await ledger.pop(broker, 60_000)
    if again:
        await ledger.ack(broker, again[0])


async def killed_at(folder: Path, operations: int, script: Script) -> DyingDisk:
    clock = ManualClock(START_MS)
    disk = DyingDisk(now_ms=clock.now_ms)
    ledger = Ledger(disk, clock)
    async with virtual_broker(folder, disk, clock, killed=True) as broker:
        await ledger.send(broker, "first")  # makes the topic
        await ledger.ack(broker, *await ledger.pop(broker, 60_000))
        await clock.advance(1)
        begun = disk.operations
        disk.dies_at = begun + operations
        await script(broker, ledger)
    after = disk.kill()
    ledger.clock = ManualClock(clock.now_ms())  # the old one's timers are the dead life's
    async with virtual_broker(folder, _plain(after), ledger.clock) as broker:
        ledger._hide(await pop(broker, invisibleTime=0), 0)  # nothing of it is hidden or acknowledged
        found = await drained(broker, 120)
    wanted = ledger.sent - ledger.maybe_acked
    assert not ledger.acked & {*found}, f"acknowledged and given again: {ledger.acked & {*found}}"
    assert wanted <= {*found}, f"lost: {wanted - {*found}}"
    assert len(found) == len({*found}), f"twins: {found}"
    disk.dies_at = begun
    return disk


def _plain(disk: SimulatedDisk) -> SimulatedDisk:
    if isinstance(disk, DyingDisk):
        disk.dies_at = 1 << 60
    return disk


@pytest.mark.parametrize("script", [story, story_of_copies, story_of_first_copies])
async def test_a_kill_between_any_two_writes_loses_nothing_and_repeats_nothing(
    tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)  # records would keep each life in memory
    whole = await killed_at(tmp_path, 1 << 40, script)
    count = whole.operations - whole.dies_at
    assert count > 30
    for operations in range(1, count, STEP if count > 60 else 1):
        await killed_at(tmp_path, operations, script)
