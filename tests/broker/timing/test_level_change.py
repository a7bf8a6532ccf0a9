"""A changed table of delay levels: what waits keeps its time, and a warning says what else moved."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pyromq.broker.timing.progress import note_levels
from pyromq.store.tables.json_tables import JsonTable
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.virtual import START_MS, virtual_broker


def test_only_a_change_is_worth_a_word(disk: SimulatedDisk) -> None:
    for levels, changed in (("1s 5s", False), ("1s 5s", False), (" 1s  5s ", False), ("1s 6s", True), ("1s 6s", False)):
        assert note_levels(JsonTable(disk, "pyromq/delayLevels.json"), levels) is changed


async def test_what_waits_keeps_its_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, message_delay_level="10s 20s 30s") as life:
        for level in (1, 3):
            await life.send(body=str(level).encode(), properties={"DELAY": str(level)})
    with caplog.at_level(logging.WARNING):
        async with virtual_broker(tmp_path, disk, clock, message_delay_level="1m") as life:
            await life.advance(10)
            assert life.bodies("T") == ["1"]
            await life.send(body=b"new", properties={"DELAY": "1"})
            await life.advance(20)
            assert life.bodies("T") == ["1", "3"], "its level is no longer in the table"
            await life.advance(40)
            assert life.bodies("T") == ["1", "3", "new"]
    assert "levels 3 and up" in caplog.text
