"""The list of queue and index files that is kept while a store is open."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyromq import logs
from pyromq.logs import Limited
from pyromq.store.files.disk import DiskFull, remove_durably
from pyromq.store.recovery.derived_files import DERIVED_FILE, read_derived, write_derived
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk, SimulatedFile


def test_the_last_word_on_a_file_counts() -> None:
    disk = SimulatedDisk()
    files = write_derived(disk, ["consumequeue/T/0/0", "consumequeue/Größe/0/0"])
    files.note({"consumequeue/T/0/800": True, "consumequeue/T/0/0": False})
    files.note({"consumequeue/T/0/800": False, "index/1": True})
    files.note({"consumequeue/T/0/800": True})
    files.close()
    assert read_derived(disk) == {"consumequeue/Größe/0/0", "consumequeue/T/0/800", "index/1"}
    remove_durably(disk, DERIVED_FILE)
    remove_durably(disk, DERIVED_FILE)
    assert read_derived(disk) == set()


@pytest.mark.parametrize("seed", range(20))
def test_what_was_noted_survives_a_power_cut(seed: int) -> None:
    disk = SimulatedDisk()
    files = write_derived(disk, ["index/1"])
    files.note({f"index/{number}": True for number in range(2, 200)})
    assert read_derived(disk.crash(seed)) == {f"index/{number}" for number in range(1, 200)}


def test_a_full_disk_delays_the_list_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    files = write_derived(disk, ["index/1"], Limited(logs.get("pyromq.store"), ManualClock()))
    write: Callable[..., None] = SimulatedFile.pwrite

    def refuse(file: SimulatedFile, offset: int, data: bytes) -> None:
        raise DiskFull("no room")

    monkeypatch.setattr(SimulatedFile, "pwrite", refuse)
    files.note({"index/2": True})
    for _ in range(3):  # with every flush
        files.note({})
    assert read_derived(disk) == {"index/1"}
    said = [record.getMessage() for record in caplog.records]
    assert [line for line in said if "no room" in line] == ['no room to write down which files there are why="no room"']
    monkeypatch.setattr(SimulatedFile, "pwrite", write)
    files.note({})
    assert read_derived(disk) == {"index/1", "index/2"}
