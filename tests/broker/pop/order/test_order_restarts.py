"""Messages in order over kills between any two writes, and power cuts: no answer is forgotten, nothing is lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.store.config import FlushMode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.pop.popping import Popped, ack, ack_batch, change, pop
from tests.broker.pop.test_pop_restarts import DyingDisk, flushed
from tests.broker.virtual import START_MS, Virtual, virtual_broker

STEP = 5  # of the writes at which the process is killed; 1 by hand
MESSAGES = 8
BOTH = pytest.mark.parametrize("by_group", [False, True], ids=["by queue", "by group"])


async def fill(broker: Virtual, count: int) -> None:
    broker.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1, perm=6))
    for number in range(count):
        assert (await broker.send("T", b"%d" % number, properties={"__SHARDINGKEY": "AB"[number % 2]})).code == 0


async def take(broker: Virtual, attempt: str, count: int = 3) -> list[Popped]:
    fields: dict[str, Any] = {"order": True, "attemptId": attempt, "maxMsgNums": count, "invisibleTime": 60_000}
    return await pop(broker, **fields)


@dataclass
class Known:
    """What the clients know for certain: answers that came before the kill."""

    disk: DyingDisk
    acked: set[int] = field(default_factory=set)
    maybe_acked: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)

    async def take(self, broker: Virtual, attempt: str, count: int = 3) -> list[Popped]:
        messages = await take(broker, attempt, count)
        if not self.disk.is_dead:
            self.held |= {one.offset for one in messages}
        return messages

    async def ack(self, broker: Virtual, *messages: Popped) -> None:
        answer = await (ack(broker, *messages) if len(messages) == 1 else ack_batch(broker, messages))
        offsets = {one.offset for one in messages}
        self.maybe_acked |= offsets
        if answer.code == 0 and not self.disk.is_dead:
            self.acked |= offsets
        self.held -= offsets


async def story(broker: Virtual, known: Known) -> None:
    """All that is written: blocks, acks in and out of order, a change, bases, offsets and the table."""
    messages = await known.take(broker, "a")
    if len(messages) < 3:
        return
    await known.ack(broker, messages[0])
    await known.ack(broker, messages[2])
    await change(broker, messages[1], 60_000)
    await broker.clock.advance(1.1)
    await known.ack(broker, messages[1])
    more = await known.take(broker, "b", 2)
    await broker.clock.advance(5.5)
    if len(more) == 2:
        await known.ack(broker, *more)
    await known.take(broker, "c", 1)
    await broker.clock.advance(1.1)


async def killed_at(folder: Path, operations: int, by_group: bool) -> int:
    """Return how many writes the whole story makes."""
    clock = ManualClock(START_MS)
    disk = DyingDisk(now_ms=clock.now_ms)
    known = Known(disk)
    async with virtual_broker(folder, disk, clock, killed=True, pop_order_by_group=by_group) as broker:
        await fill(broker, MESSAGES)
        await clock.advance(6)
        begun = disk.operations
        disk.dies_at = begun + operations
        await story(broker, known)
        count = disk.operations - begun
    after = disk.kill()
    clock = ManualClock(clock.now_ms())
    async with virtual_broker(folder, after, clock, pop_order_by_group=by_group) as broker:
        position = broker.broker.offsets.find("T", "G", 0) or 0
        assert all(offset in known.maybe_acked for offset in range(position)), "nothing is skipped"
        assert not known.acked & {*range(position, position + 1)}, "an acked message is the next one again"
        if known.held:
            given = {one.offset for one in await take(broker, "other", 32)}
            assert not given & known.held, "given to two within its time"
        await broker.advance(61)
        rest = [one.offset for one in await take(broker, "last", 32)]
        assert rest == sorted(rest)
        assert {*rest} >= {*range(MESSAGES)} - known.maybe_acked, "lost"
    return count


@BOTH
async def test_a_kill_between_any_two_writes_forgets_no_answer(tmp_path: Path, by_group: bool) -> None:
    count = await killed_at(tmp_path, 1 << 40, by_group)
    assert count > 20
    for operations in range(1, count, STEP):
        await killed_at(tmp_path, operations, by_group)


@BOTH
async def test_what_is_answered_under_sync_flush_survives_a_power_cut(tmp_path: Path, by_group: bool) -> None:
    for seed in range(8):
        clock = ManualClock(START_MS)
        disk = SimulatedDisk(now_ms=clock.now_ms)
        modes: dict[str, Any] = {"flush_mode": FlushMode.SYNC, "pop_order_by_group": by_group}
        async with virtual_broker(tmp_path, disk, clock, killed=True, **modes) as broker, flushed(broker):
            await fill(broker, 4)
            first, second, third = await take(broker, "a")
            assert (await ack(broker, first)).code == 0
            assert (await ack(broker, third)).code == 0
            after = disk.crash(seed)
        async with virtual_broker(tmp_path, after, clock, **modes) as broker, flushed(broker):
            assert broker.broker.offsets.find("T", "G", 0) == 1, seed
            # Number 1 is held, and by queue everything with it; by message group number 2 is acked and 3 waits for 1.
            assert await take(broker, "b") == [], seed
            assert (await ack(broker, second)).code == 0
            assert [one.offset for one in await take(broker, "b")] == [3], seed
