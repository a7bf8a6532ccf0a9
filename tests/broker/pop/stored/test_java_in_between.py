"""A Java broker that ran on our store after a kill: what it committed counts, not what our journal says of before."""

from __future__ import annotations

from pathlib import Path

from pyromq.store.files.disk import read_whole, replace_durably
from pyromq.store.tables.table_text import parse_table, render
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.pop.popping import ack, bodies, pop
from tests.broker.virtual import START_MS, Virtual, virtual_broker

TABLE = "config/consumerOffset.json"


def write_as_java(disk: SimulatedDisk, offset: int) -> None:
    """Java's broker writes the table without what it does not know."""
    table = {"dataVersion": {"stateVersion": 0, "timestamp": 1, "counter": 1}, "offsetTable": {"T@G": {"0": offset}}}
    replace_durably(disk, TABLE, render(table).encode())


async def sent(life: Virtual, count: int) -> None:
    for number in range(count):
        await life.send(body=f"m{number}".encode())


async def test_what_java_committed_counts(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        await sent(life, 6)
        await ack(life, (await pop(life, maxMsgNums=4))[0])
        await life.advance(6)
    disk = disk.kill()
    write_as_java(disk, 2)  # an administrator has reset it, or Java handed out what it found
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        assert life.broker.pop_parts.table.in_flight() == []
        assert bodies(await pop(life)) == ["m2", "m3", "m4", "m5"]
        await life.advance(1)
    disk = disk.kill()
    async with virtual_broker(tmp_path, disk, clock) as life:  # killed again: that it is ours now is known
        assert not life.broker.offsets.left_by_java
        assert bodies(await pop(life)) == []
        assert [one.messages for one in life.broker.pop_parts.table.in_flight()] == [4]


async def test_a_killed_broker_of_ours_knows_its_journal(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=True) as life:
        await sent(life, 6)
        assert len(await pop(life, maxMsgNums=4)) == 4
    async with virtual_broker(tmp_path, disk.kill(), clock) as life:  # before any table was written
        assert bodies(await pop(life)) == ["m4", "m5"]


async def test_the_mark_is_in_the_table(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        await sent(life, 1)
        await pop(life)
    assert parse_table(read_whole(disk, TABLE))["pyromqWriter"] == "pyromq"
