"""Index files that are gone or cut short: noticed by name, reported by verify, written again from the log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyromq.store.recovery.sizes import inferred_config
from pyromq.store.tools.findings import Level
from pyromq.store.tools.verify import verify_store
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.small import SMALL, by_key, message, opened

COUNT = 100  # two index files

Stop = Callable[[SimulatedDisk], SimulatedDisk]


def stopped(disk: SimulatedDisk) -> SimulatedDisk:
    store = opened(disk)
    for number in range(COUNT):
        store.put([message("x" * 50, keys=f"k{number}")])
    store.close()
    return disk


def killed(disk: SimulatedDisk) -> SimulatedDisk:
    store = opened(disk)
    for number in range(COUNT):
        store.put([message("x" * 50, keys=f"k{number}")])
    store.flush_now()
    return disk.kill()


def cut(disk: SimulatedDisk, number: int, length: int) -> str:
    name = f"index/{disk.list('index')[number]}"
    file = disk.open(name)
    file.truncate(length)
    file.sync()
    return name


@pytest.mark.parametrize("length", [0, 20, 90, 400])
@pytest.mark.parametrize("number", [0, -1], ids=["oldest", "newest"])
@pytest.mark.parametrize("stop", [stopped, killed])
def test_one_that_is_cut_short_is_written_again_with_a_line(
    stop: Stop, number: int, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = stop(SimulatedDisk())
    name = cut(disk, number, length)
    report = verify_store(disk, SMALL)
    assert report.exit_code == Level.REPAIRABLE
    assert [finding.file for finding in report.findings if finding.file.startswith("index")] == [name]
    store = opened(disk)
    (line,) = [line.getMessage() for line in caplog.records if "index is written again" in line.getMessage()]
    assert name in line
    assert all(len(by_key(store, "T", f"k{number}")) == 1 for number in range(COUNT))
    store.close()
    assert verify_store(disk, SMALL).findings == []


@pytest.mark.parametrize("stop", [stopped, killed])
def test_a_folder_that_is_gone_is_repairable_and_written_again(stop: Stop, caplog: pytest.LogCaptureFixture) -> None:
    disk = stop(SimulatedDisk())
    for name in disk.list("index"):
        disk.remove(f"index/{name}")
    disk.remove_folder("index")
    assert verify_store(disk, SMALL).exit_code == Level.REPAIRABLE
    store = opened(disk)
    assert any("index is written again" in line.getMessage() for line in caplog.records)
    assert all(len(by_key(store, "T", f"k{number}")) == 1 for number in range(COUNT))
    store.close()
    assert verify_store(disk, SMALL).findings == []


def test_sizes_of_a_store_of_ours_do_not_hang_on_a_file_that_is_cut_short() -> None:
    disk = stopped(SimulatedDisk())
    for number in range(len(disk.list("index"))):
        cut(disk, number, 500)
    assert inferred_config(disk).file_sizes == SMALL.file_sizes


def test_settings_that_are_given_need_not_be_read_off_the_files() -> None:
    disk = killed(SimulatedDisk())  # no catalogue yet
    for number in range(len(disk.list("index"))):
        cut(disk, number, 500)
    found = inferred_config(disk, SMALL, known=("index_slots", "index_entries"))
    assert found.file_sizes == SMALL.file_sizes


def test_a_file_that_was_just_made_when_the_power_went_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    disk = killed(SimulatedDisk())
    disk.open("index/99991231235959999", create=True).sync()
    store = opened(disk)
    assert not any("index is written again" in line.getMessage() for line in caplog.records)
    assert all(len(by_key(store, "T", f"k{number}")) == 1 for number in range(COUNT))
