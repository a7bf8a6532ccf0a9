"""The flush loops on a clock in the test's hand: who waits for whom, and in which order things reach the medium."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from pyromq.store.config import StoreConfig
from pyromq.store.errors import StoreNotWritable
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery.checkpoint import read_checkpoint, read_synced
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.small import SMALL, SMALL_SYNC, bodies, message, put

T = TypeVar("T")


class Gate:
    """Blocking calls wait at the gate until the test lets them through, one by one."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def __call__(self, call: Callable[[], T]) -> Awaitable[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.calls.append((call, future))
        return future

    def let_one_through(self) -> None:
        call, future = self.calls.pop(0)
        future.set_result(call())


@asynccontextmanager
async def running(
    config: StoreConfig, disk: SimulatedDisk, clock: ManualClock, **options: Any
) -> AsyncIterator[MessageStore]:
    store = MessageStore(disk, config, clock, **options)
    task = asyncio.create_task(store.run())
    await clock.settle()
    try:
        yield store
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_async_flush_goes_by_the_interval() -> None:
    clock, disk = ManualClock(), SimulatedDisk()
    async with running(SMALL, disk, clock) as store:
        put(store, bytes(5000), bytes(5000), bytes(5000), bytes(5000))
        await clock.advance(0.499)
        assert store.flushed.value == 0
        await clock.advance(0.002)
        assert store.flushed.value == store.commit_log.end


async def test_a_few_bytes_wait_for_the_thorough_flush() -> None:
    clock, disk = ManualClock(), SimulatedDisk()
    slow = StoreConfig(commit_log_file_bytes=8192, queue_flush_interval_ms=60_000, index_slots=4, index_entries=8)
    async with running(slow, disk, clock) as store:
        put(store, "little")
        await clock.advance(9)
        assert store.flushed.value == 0
        await clock.advance(2)
        assert store.flushed.value == store.commit_log.end


async def test_group_commit_one_sync_serves_all_who_came_meanwhile_and_nobody_waits_for_company() -> None:
    clock, gate = ManualClock(), Gate()
    async with running(SMALL_SYNC, SimulatedDisk(), clock, run_blocking=gate) as store:
        gate.let_one_through()  # the file made ahead
        await clock.settle()
        first = put(store, "lone")[0]
        await clock.settle()
        assert len(gate.calls) == 1  # at once, without a fixed wait
        waiting = [asyncio.create_task(store.readable.reached(store.put([message("x")])[-1].end)) for _ in range(10)]
        await clock.settle()
        assert len(gate.calls) == 1  # the others wait for the sync that runs
        gate.let_one_through()
        await clock.settle()
        assert bodies(store) == [b"lone"]
        assert store.reader.record_at(first) is not None
        assert not any(task.done() for task in waiting)
        gate.let_one_through()  # one more for all ten
        await asyncio.gather(*waiting)
        assert gate.calls == []


async def test_the_checkpoint_follows_after_log_queues_and_index_405() -> None:
    clock, disk = ManualClock(), SimulatedDisk()
    async with running(SMALL, disk, clock) as store:
        places = store.put([message("a", keys="k")])
        await clock.advance(1.1)
        assert read_checkpoint(disk).queues_position == places[0].position
        assert read_checkpoint(disk).queues_time_ms == places[0].store_time
        assert read_synced(disk) == store.commit_log.end


async def test_an_idle_store_does_not_touch_the_disk() -> None:
    clock, disk = ManualClock(), SimulatedDisk()
    async with running(SMALL, disk, clock) as store:
        put(store, "a")
        await clock.advance(15)
        operations = disk.operations
        await clock.advance(60)
        assert disk.operations == operations


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "index"])
def test_a_mark_never_moves_when_a_sync_before_it_failed_678(part: str) -> None:
    disk = SimulatedDisk()
    store = MessageStore(disk, SMALL, ManualClock())
    store.put([message("a", keys="k")])
    store.flush_now()
    before = (read_checkpoint(disk), read_synced(disk))
    store.put([message("b", keys="k")])
    disk.fail_sync_once(part)
    with pytest.raises(Exception, match="failed"):
        store.flush_now()
    assert (read_checkpoint(disk), read_synced(disk)) == before


@pytest.mark.parametrize("config", [SMALL, SMALL_SYNC], ids=["async", "sync"])
async def test_a_failed_flush_ends_writing_but_not_the_loops_above(config: StoreConfig) -> None:
    clock, disk = ManualClock(), SimulatedDisk()
    async with running(config, disk, clock) as store:
        put(store, "before")
        await clock.advance(2)
        put(store, *(bytes(5000) for _ in range(4)))
        disk.fail_sync_once("commitlog")
        await clock.advance(2)
        assert not store.is_writable
        assert bodies(store)[0] == b"before"
        with pytest.raises(StoreNotWritable, match="a sync failed"):
            put(store, "refused")


async def test_the_next_file_is_there_before_it_is_needed() -> None:
    clock, disk = ManualClock(), SimulatedDisk()
    async with running(SMALL, disk, clock) as store:
        put(store, "a")
        await clock.advance(1)
        assert len(disk.list("commitlog")) == 2
        put(store, *(bytes(1000) for _ in range(7)))
        assert len(store.commit_log.sequence.bases) == 1
        put(store, bytes(1000))
        assert len(store.commit_log.sequence.bases) == 2
        await clock.advance(1)
        assert len(disk.list("commitlog")) == 3
        store.close()
        assert len(disk.list("commitlog")) == 2


async def test_a_full_disk_does_not_end_the_loop_that_makes_files_ahead() -> None:
    clock, disk = ManualClock(), SimulatedDisk()
    async with running(SMALL, disk, clock) as store:
        put(store, "a")
        disk.capacity = disk.usage().used
        await clock.advance(3)
        disk.capacity = 1 << 30
        await clock.advance(1)
        assert len(disk.list("commitlog")) == 2
        assert store.is_writable


def test_syncs_of_the_log_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    store = MessageStore(disk, SMALL, ManualClock())
    put(store, "a")
    plans = [store._parts.planner.plan_log(0), store._parts.planner.plan_full(0).log]
    others_wait: list[bool] = []
    monkeypatch.setattr(disk, "sync_many", lambda names: others_wait.extend(plan.turn.locked() for plan in plans))
    for plan in plans:
        plan.sync(disk)
    assert others_wait == [True] * 4
    assert not any(plan.turn.locked() for plan in plans)
