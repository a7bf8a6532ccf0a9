"""Queue files that are gone: `store verify` says that opening writes them anew where it does, and it does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery.sizes import inferred_config
from pyromq.store.tools.findings import OPEN_ANEW, REBUILD, Level
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.golden_store import unpack
from tests.store.small import SMALL, bodies, opened, put

FOLDER = "consumequeue/T/0"
BODIES = [str(number) for number in range(100)]


def stopped(stop: str) -> SimulatedDisk:
    """Two queues of three files each, synced."""
    disk = SimulatedDisk()
    store = opened(disk)
    for body in BODIES:
        put(store, body)
        put(store, body, queue_id=1)
    store.flush_now()
    if stop == "killed":
        return disk.kill()
    store.close()
    return disk


def remove(disk: SimulatedDisk, *names: str, folder: str = FOLDER) -> None:
    for name in names or disk.list(folder):
        disk.remove(f"{folder}/{name}")
    if not names:
        disk.remove_folder(folder)


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("lost", ["the folder", 0, 1, 2])
def test_what_opening_writes_anew_needs_no_person(stop: str, lost: str | int) -> None:
    disk = stopped(stop)
    assert verify_store(disk, SMALL).exit_code == (Level.REPAIRABLE if stop == "killed" else Level.NOTE)
    remove(disk, *([f"{lost * SMALL.queue_file_bytes:020d}"] if isinstance(lost, int) else []))
    report = verify_store(disk, SMALL)
    assert report.exit_code == Level.REPAIRABLE
    missing = [finding for finding in report.findings if finding.file.startswith(FOLDER)]
    assert OPEN_ANEW in {finding.remedy for finding in missing}
    assert REBUILD not in {finding.remedy for finding in missing}
    if lost == "the folder":
        assert [(one.file, one.what) for one in missing] == [
            (FOLDER, "the queue is missing, 100 records have no entry")
        ]
    store = opened(disk)
    assert store.recovery.rebuilt == [("T", 0)]
    assert [body.decode() for body in bodies(store)] == BODIES
    store.close()
    assert verify_store(disk, SMALL).exit_code == Level.NOTE


def test_entries_that_are_wrong_in_a_file_that_is_there_need_a_rebuild() -> None:
    """Another queue's loss does not make it better."""
    disk = stopped("clean")
    remove(disk, folder="consumequeue/T/1")
    disk.flip_bit(f"{FOLDER}/{0:020d}", 7)
    report = verify_store(disk, SMALL)
    assert report.exit_code == Level.DAMAGE
    by_folder = {finding.file.rpartition("/0000")[0] or finding.file: finding.remedy for finding in report.findings}
    assert by_folder == {FOLDER: REBUILD, "consumequeue/T/1": OPEN_ANEW}


def test_in_a_store_of_java_s_nobody_knows_what_was_there(tmp_path: Path) -> None:
    store = unpack("clean", tmp_path)
    shutil.rmtree(store / "consumequeue/GoldenFifo/0")
    disk = RealDisk(store)
    report = verify_store(disk, inferred_config(disk))
    assert report.exit_code == Level.DAMAGE
    assert {finding.remedy for finding in report.findings} == {REBUILD}


def test_a_batch_queue_that_is_gone_is_known_too(tmp_path: Path) -> None:
    store = unpack("clean", tmp_path)
    disk = RealDisk(store)
    config = inferred_config(disk)

    def is_batch(topic: str) -> bool:
        return topic == "GoldenBcq"

    MessageStore(disk, config, ManualClock(), is_batch_topic=is_batch).close()
    shutil.rmtree(store / "batchconsumequeue/GoldenBcq/0")
    assert verify_store(disk, config).exit_code == Level.REPAIRABLE
    again = MessageStore(disk, config, ManualClock(), is_batch_topic=is_batch)
    assert again.recovery.rebuilt == [("GoldenBcq", 0)]
    again.close()
