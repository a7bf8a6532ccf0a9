"""Tables that are gone with their .bak: nothing starts, nothing is changed, until they are back or given up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyromq.store.errors import StoreDamaged
from pyromq.store.recovery.checkpoint import CHECKPOINT_FILE
from pyromq.store.tables.json_tables import JsonTable
from pyromq.store.tools.backup import backup_store
from pyromq.store.tools.findings import Level
from pyromq.store.tools.rebuild import rebuild_store
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.crash.test_rot import all_files
from tests.store.small import SMALL, bodies, opened, put

TOPICS = "config/topics.json"


def filled() -> SimulatedDisk:
    """With tables that were written twice, so that there is a .bak; after a clean stop."""
    disk = SimulatedDisk()
    store = opened(disk)
    for name in (TOPICS, "config/consumerOffset.json"):
        table = JsonTable(disk, name)
        for number in range(2):
            table.put("topicConfigTable", "T", {"number": number})
            table.save()
    put(store, "a", "b")
    store.close()
    return disk


def stopped(disk: SimulatedDisk) -> SimulatedDisk:
    return disk


def killed(disk: SimulatedDisk) -> SimulatedDisk:
    opened(disk)
    return disk.kill()


@pytest.mark.parametrize("stop", [stopped, killed])
def test_it_does_not_start_and_changes_nothing(stop: Callable[[SimulatedDisk], SimulatedDisk]) -> None:
    disk = stop(filled())
    content = disk.open(TOPICS).pread(0, 1000)
    disk.remove(TOPICS)
    disk.remove(TOPICS + ".bak")
    before = all_files(disk)
    with pytest.raises(StoreDamaged, match=r"config/topics\.json: .* gone now.*[Pp]ut it back from a backup"):
        opened(disk)
    with pytest.raises(StoreDamaged, match=r"config/topics\.json"):
        rebuild_store(disk, SMALL, ManualClock(), 1)
    report = verify_store(disk, SMALL)
    assert [finding.file for finding in report.findings if finding.level == Level.DAMAGE] == [TOPICS]
    assert all_files(disk) == before
    disk.open(TOPICS, create=True).pwrite(0, content)
    store = opened(disk)
    assert bodies(store) == [b"a", b"b"]
    store.close()
    assert verify_store(disk, SMALL).exit_code == Level.NOTE


def test_all_of_them_are_named() -> None:
    disk = filled()
    for name in disk.list("config"):
        disk.remove(f"config/{name}")
    disk.remove_folder("config")
    with pytest.raises(StoreDamaged, match=r"config/consumerOffset\.json, config/topics\.json"):
        opened(disk)


def test_an_empty_object_in_its_place_is_the_owner_s_word() -> None:
    disk = filled()
    disk.remove(TOPICS)
    disk.remove(TOPICS + ".bak")
    disk.open(TOPICS, create=True).pwrite(0, b"{}")
    assert bodies(opened(disk)) == [b"a", b"b"]
    assert JsonTable(disk, TOPICS).load() == {}


def test_a_bak_is_enough() -> None:
    disk = filled()
    disk.remove(TOPICS)
    assert bodies(opened(disk)) == [b"a", b"b"]


def test_a_store_that_another_broker_wrote_to_since_starts() -> None:
    disk = filled()
    disk.remove(TOPICS)
    disk.remove(TOPICS + ".bak")
    disk.open(CHECKPOINT_FILE).pwrite(0, bytes(8))
    assert bodies(opened(disk)) == [b"a", b"b"]


def test_a_backup_is_to_be_had_without_them() -> None:
    disk, copy = filled(), SimulatedDisk()
    disk.remove(TOPICS)
    disk.remove(TOPICS + ".bak")
    backup_store(disk, copy, SMALL, ManualClock(), 1)
    assert bodies(opened(copy)) == [b"a", b"b"]
