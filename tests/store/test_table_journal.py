"""A change of a large table is durable before the table is written, and is in it soon after."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyromq.store.files.disk import DiskFull, SyncFailed, read_whole, write_temporary
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.tables import json_tables as tables
from pyromq.store.tables.json_tables import JsonTable, read_table
from pyromq.store.tables.table_journal import journal_name
from pyromq.store.tables.table_saver import FOLD_S, TableSaver
from pyromq.store.tables.table_text import parse_table
from pyromq.store.tools.backup import backup_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk
from tests.store.small import SMALL, opened

TOPICS = "config/topics.json"
SECTION = "topicConfigTable"


@pytest.fixture(autouse=True)
def every_table_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_JOURNAL_FROM", 1)


async def at_once(call: Any) -> None:
    call()


def filled(disk: SimulatedDisk | RealDisk) -> JsonTable:
    table = JsonTable(disk, TOPICS)
    table.load()
    table.put(SECTION, "T0", {"perm": 6})
    table.replace("other", "x" * 3000)  # a journal that outgrows its table is given up
    table.save()
    return table


def alone(disk: SimulatedDisk | RealDisk) -> dict[str, Any]:
    """What a program sees that does not know of the journal."""
    entries: dict[str, Any] = parse_table(read_whole(disk, TOPICS))[SECTION]
    return entries


def seen(disk: SimulatedDisk) -> dict[str, Any]:
    entries: dict[str, Any] = read_table(disk, TOPICS)[0][SECTION]
    return entries


async def test_a_change_is_in_the_journal_and_in_the_table_seconds_later() -> None:
    disk, clock = SimulatedDisk(), ManualClock()
    saver = TableSaver(table := filled(disk), at_once, clock)
    table.put(SECTION, "T1", {"perm": 4, "order": None})
    table.put(SECTION, "T2", {"perm": 2})
    table.drop(SECTION, "T0")
    table.replace("dataVersion", {"counter": 7})
    await saver.saved()
    for seed in range(20):
        after = disk.crash(seed)
        assert list(alone(after)) == ["T0"]
        assert seen(after) == {"T1": {"perm": 4}, "T2": {"perm": 2}}
        assert JsonTable(after, TOPICS).load()["dataVersion"] == {"counter": 7}
        assert list(alone(after)) == ["T1", "T2"]  # loading has put it into the table
    await clock.advance(FOLD_S + 0.1)
    assert list(alone(disk)) == ["T1", "T2"]
    assert not table.has_journal
    await saver.close()


async def test_a_clean_stop_leaves_everything_in_the_table() -> None:
    disk = SimulatedDisk()
    saver = TableSaver(table := filled(disk), at_once, ManualClock())
    table.put(SECTION, "T1", {"perm": 4})
    await saver.saved()
    table.put(SECTION, "T2", {"perm": 4})
    await saver.close()
    assert list(alone(disk)) == ["T0", "T1", "T2"]


async def test_a_table_that_someone_else_wrote_is_taken_as_it_is() -> None:
    """A Java broker does not know of the journal: what it left counts."""
    disk = SimulatedDisk()
    saver = TableSaver(table := filled(disk), at_once, ManualClock())
    table.put(SECTION, "T1", {"perm": 4})
    await saver.saved()
    disk = disk.kill()
    disk.open(TOPICS).truncate(0)
    disk.open(TOPICS).pwrite(0, b'{"topicConfigTable":{"T0":{},"Java":{}}}')
    assert list(seen(disk)) == ["T0", "Java"]
    assert list(JsonTable(disk, TOPICS).load()[SECTION]) == ["T0", "Java"]


async def test_old_or_new_at_every_power_cut_and_never_less_than_was_saved_3401_6096() -> None:
    """Through journal, folds and loads again; each change was saved before the next."""
    operations = 0
    for cut in range(1, 400):
        rng, clock = Random(cut), ManualClock()
        disk = SimulatedDisk(now_ms=clock.now_ms)
        saver = TableSaver(table := filled(disk), at_once, clock)
        acked = 0
        disk.cut_power_after(cut)
        try:
            for number in range(1, 15):
                table.put(SECTION, f"T{number}", {"perm": number})
                await saver.saved()
                acked = number
                if rng.random() < 0.3:
                    await saver._fold()
            disk.heal()
        except PowerCut:
            operations = cut
        for seed in range(4):
            after = disk.crash(seed)
            for _ in range(2):
                found = JsonTable(after, TOPICS).load()[SECTION]
                assert list(found) == [f"T{number}" for number in range(len(found))]
                assert acked <= len(found) - 1 <= acked + 1
        if saver._folding is not None:
            saver._folding.cancel()
        if cut > operations:
            break
    assert operations > 40


async def test_a_failed_sync_of_the_journal_is_never_reported_as_saved() -> None:
    disk, clock = SimulatedDisk(), ManualClock()
    saver = TableSaver(table := filled(disk), at_once, clock)
    table.put(SECTION, "T1", {})
    await saver.saved()
    table.put(SECTION, "T2", {})
    disk.fail_sync_once(journal_name(TOPICS))
    with pytest.raises(SyncFailed):
        await saver.saved()
    await saver.saved()
    assert list(alone(disk)) == ["T0", "T1", "T2"]
    for seed in range(20):
        assert list(seen(disk.crash(seed))) == ["T0", "T1", "T2"]
    await saver.close()


async def test_a_full_disk_is_refused_and_the_next_try_works() -> None:
    disk, clock = SimulatedDisk(), ManualClock()
    saver = TableSaver(table := filled(disk), at_once, clock)
    table.put(SECTION, "T1", {})
    disk.capacity = disk.usage().used
    with pytest.raises(DiskFull):
        await saver.saved()
    disk.capacity = 1 << 30
    await saver.saved()
    assert list(seen(disk.crash(1))) == ["T0", "T1"]
    await saver.close()


async def test_a_torn_line_ends_the_journal() -> None:
    disk = SimulatedDisk()
    saver = TableSaver(table := filled(disk), at_once, ManualClock())
    for number in range(1, 4):
        table.put(SECTION, f"T{number}", {})
        await saver.saved()
    name = journal_name(TOPICS)
    disk.flip_bit(name, disk.size(name) - 5)
    assert list(seen(disk)) == ["T0", "T1", "T2"]


async def test_numbers_as_keys_stay_numbers() -> None:
    disk = SimulatedDisk()
    table = JsonTable(disk, "config/consumerOffset.json")
    table.put("offsetTable", "T@G", {0: 1})
    table.replace("other", "x" * 3000)
    table.save()
    saver = TableSaver(table, at_once, ManualClock())
    table.put("offsetTable", "T@G", {0: 5, 1: 7})
    await saver.saved()
    assert table.has_journal
    assert read_table(disk, "config/consumerOffset.json")[0]["offsetTable"] == {"T@G": {0: 5, 1: 7}}
    await saver.close()


async def test_a_backup_has_what_is_in_the_journal() -> None:
    disk, copy = SimulatedDisk(), SimulatedDisk()
    opened(disk).close()
    saver = TableSaver(table := filled(disk), at_once, ManualClock())
    table.put(SECTION, "T1", {})
    await saver.saved()
    backup_store(disk, copy, SMALL, ManualClock(), 1)
    assert list(seen(copy)) == ["T0", "T1"]
    await saver.close()


async def test_fifty_thousand_topics_one_after_another_write_the_table_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One client that waits for each: what is written grows with the topics, not with their square."""
    written = 0

    def counting(disk: Any, name: str, content: bytes) -> str:
        nonlocal written
        written += len(content)
        return write_temporary(disk, name, content)

    monkeypatch.setattr(tables, "write_temporary", counting)
    monkeypatch.setattr(tables, "_JOURNAL_FROM", 64 << 10)
    disk, clock = RealDisk(tmp_path), ManualClock()
    table = JsonTable(disk, TOPICS)
    saver = TableSaver(table, at_once, clock)
    monkeypatch.setattr("os.fdatasync", lambda descriptor: None)  # 50,000 of them take a minute
    config = {"attributes": {}, "order": False, "perm": 6, "readQueueNums": 8, "topicFilterType": "SINGLE_TAG"}
    for number in range(50_000):
        table.put(SECTION, f"topic-{number}", config | {"topicName": f"topic-{number}"})
        table.replace("dataVersion", {"counter": number})
        await saver.saved()
    size = (tmp_path / TOPICS).stat().st_size
    await saver.close()
    whole = (tmp_path / TOPICS).stat().st_size
    assert len(alone(disk)) == 50_000
    assert size < whole
    assert written < 20 * whole
    assert saver.writes == 50_001


async def test_writes_of_one_moment_still_share() -> None:
    disk, clock = SimulatedDisk(), ManualClock()
    saver = TableSaver(table := filled(disk), at_once, clock)
    for number in range(1, 50):
        table.put(SECTION, f"T{number}", {})
    await asyncio.gather(*(saver.saved() for _ in range(50)))
    assert saver.writes == 1
    await saver.close()
