"""The marks: Java's bytes, never torn, never ahead."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from pyromq.store.files.disk import read_whole
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.recovery.checkpoint import (
    Checkpoint,
    CheckpointFile,
    SyncedFile,
    mark_running,
    mark_stopped,
    read_checkpoint,
    read_synced,
    was_stopped_cleanly,
)
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk

GOLDEN = Path(__file__).parents[1] / "golden"


def golden_disk(name: str, tmp_path: Path) -> RealDisk:
    with tarfile.open(GOLDEN / f"store-{name}.tar.gz") as archive:
        wanted = [
            member for member in archive if member.name.rpartition("/")[2] in ("checkpoint", "abort", "abort.bak")
        ]
        archive.extractall(tmp_path, wanted, filter="data")
    return RealDisk(tmp_path / "store")


def test_the_checkpoint_of_the_golden_store(tmp_path: Path) -> None:
    disk = golden_disk("clean", tmp_path)
    checkpoint = read_checkpoint(disk)
    assert checkpoint == Checkpoint(0x1A1E0958693, 0x1A1E0958693, 0x1A1E093C61F, 0, 0, 0x5A20D2)
    assert was_stopped_cleanly(disk)
    assert read_synced(disk) is None


def test_our_bytes_are_java_s(tmp_path: Path) -> None:
    java = read_whole(golden_disk("clean", tmp_path), "checkpoint")
    disk = SimulatedDisk()
    file = CheckpointFile(disk)
    file.save(Checkpoint(0x1A1E0958693, 0x1A1E0958693, 0x1A1E093C61F, 0, 0, 0x5A20D2))
    assert read_whole(disk, "checkpoint") == java
    file.close()


def test_the_killed_golden_store_was_not_stopped(tmp_path: Path) -> None:
    disk = golden_disk("crashed", tmp_path)
    assert not was_stopped_cleanly(disk)
    assert read_checkpoint(disk).confirmed == 0x197C1E


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b"\xff" * 4096])
def test_a_senseless_checkpoint_is_an_empty_one(content: bytes) -> None:
    disk = SimulatedDisk()
    disk.open("checkpoint", create=True).pwrite(0, content)
    assert read_checkpoint(disk) == Checkpoint()
    assert read_checkpoint(SimulatedDisk()) == Checkpoint()


def test_a_flipped_bit_in_the_synced_mark_makes_it_unknown() -> None:
    disk = SimulatedDisk()
    SyncedFile(disk).save(123456)
    assert read_synced(disk) == 123456
    disk.flip_bit("pyromq/synced", 7, 2)
    assert read_synced(disk) is None


def test_marks_are_old_or_new_at_every_power_cut() -> None:
    for cut in range(1, 8):
        disk = SimulatedDisk()
        synced, checkpoint = SyncedFile(disk), CheckpointFile(disk)
        synced.save(1000)
        checkpoint.save(Checkpoint(1, 1, 1, 1, 1, 1))
        disk.cut_power_after(cut)
        try:
            synced.save(2000)
            checkpoint.save(Checkpoint(2, 2, 2, 2, 2, 2))
        except PowerCut:
            allowed, old_or_new = {1000, 2000}, {Checkpoint(*[1] * 6), Checkpoint(*[2] * 6)}
        else:
            allowed, old_or_new = {2000}, {Checkpoint(*[2] * 6)}
        for seed in range(50):
            after = disk.crash(seed)
            assert read_synced(after) in allowed
            assert read_checkpoint(after) in old_or_new


def test_abort_is_durable_when_marked_and_gone_when_stopped() -> None:
    disk = SimulatedDisk()
    mark_running(disk, 4711)
    assert all(read_whole(disk.crash(seed), "abort") == b"4711 pyromq" for seed in range(50))
    mark_stopped(disk)
    assert all(was_stopped_cleanly(disk.crash(seed)) for seed in range(50))
    mark_stopped(disk)
