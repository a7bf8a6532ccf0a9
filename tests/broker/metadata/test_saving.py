"""A table is written soon after each change, also after one that comes while a write is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pyromq.broker.metadata.saving import RETRY_S, SaveSoon
from pyromq.store.files.disk import read_whole
from pyromq.store.tables.json_tables import JsonTable
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk

T = TypeVar("T")
NAME = "config/t.json"


class Gate:
    """Blocking calls wait until the test lets them go."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.calls = 0

    def __call__(self, call: Callable[[], T]) -> Awaitable[T]:
        return self._run(call)

    async def _run(self, call: Callable[[], T]) -> T:
        self.calls += 1
        await self.open.wait()
        return call()


async def test_many_changes_share_a_write_and_one_during_it_gets_its_own(disk: SimulatedDisk) -> None:
    gate, clock = Gate(), ManualClock()
    save = SaveSoon(JsonTable(disk, NAME), gate, clock)
    for number in range(10):
        save.table.put("s", str(number), number)
        save.changed()
    await clock.settle()
    save.table.put("s", "late", 99)
    save.changed()
    gate.open.set()
    await clock.settle()
    assert gate.calls == 2
    assert b'"late":99' in read_whole(disk, NAME)


async def test_a_write_that_failed_is_tried_again(disk: SimulatedDisk) -> None:
    gate, clock = Gate(), ManualClock()
    gate.open.set()
    save = SaveSoon(JsonTable(disk, NAME), gate, clock)
    disk.fail_sync_once(NAME)
    save.table.put("s", "a", 1)
    save.changed()
    await clock.settle()
    assert not disk.exists(NAME)
    await clock.advance(RETRY_S)
    assert b'"a":1' in read_whole(disk, NAME)


async def test_the_end_writes_what_is_left(disk: SimulatedDisk) -> None:
    gate, clock = Gate(), ManualClock()
    gate.open.set()
    save = SaveSoon(JsonTable(disk, NAME), gate, clock)
    save.table.put("s", "a", 1)
    await save.close()
    assert b'"a":1' in read_whole(disk, NAME)
