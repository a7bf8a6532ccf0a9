"""The file of epochs: Java's bytes, power cuts at every operation, what cannot be read."""

from __future__ import annotations

import pytest

from pyromq.protocol.replication.epochs import EpochList, MasterEpoch
from pyromq.store.epochs import EPOCH_FILE, load_epochs, save_epochs
from pyromq.store.errors import StoreDamaged
from pyromq.store.files.disk import read_whole, replace_durably
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk
from tests.protocol.replication.recorded_streams import GOLDEN

OLD = EpochList([MasterEpoch(1, 0), MasterEpoch(2, 48997)])
NEW = OLD.begun(3, 48997)


def test_java_s_file_is_read_and_written() -> None:
    disk = SimulatedDisk()
    content = (GOLDEN / "files" / "failover-a-epochFileCheckpoint").read_bytes()
    replace_durably(disk, EPOCH_FILE, content)
    assert load_epochs(disk) == OLD
    save_epochs(disk, EpochList())
    assert load_epochs(disk) == EpochList()
    save_epochs(disk, OLD)
    assert read_whole(disk, EPOCH_FILE) == content


def test_saving_what_is_there_touches_nothing() -> None:
    disk = SimulatedDisk()
    save_epochs(disk, OLD)
    before = disk.operations
    save_epochs(disk, OLD)
    assert disk.operations == before


@pytest.mark.parametrize("after", [NEW, EpochList()])
def test_a_power_cut_leaves_the_old_list_or_the_new(after: EpochList) -> None:
    seen = set()
    for moment in range(1, 100):
        for seed in range(5):
            disk = SimulatedDisk()
            save_epochs(disk, OLD)
            disk.cut_power_after(moment)
            try:
                save_epochs(disk, after)
            except PowerCut:
                found = load_epochs(disk.crash(seed))
                assert found in (OLD, after)
                seen.add(found)
            else:
                assert load_epochs(disk.crash(seed)) == after
                assert seen == {OLD, after}
                return
    pytest.fail("saving never ended")


def test_java_s_backup_counts_until_we_have_written() -> None:
    disk = SimulatedDisk()
    replace_durably(disk, EPOCH_FILE, OLD.encode()[:-8])
    with pytest.raises(StoreDamaged, match=r"epochFileCheckpoint: 2 epochs are announced.*seed the store anew"):
        load_epochs(disk)
    replace_durably(disk, EPOCH_FILE + ".bak", OLD.encode())
    assert load_epochs(disk) == OLD
    save_epochs(disk, NEW)
    assert not disk.exists(EPOCH_FILE + ".bak")
    assert load_epochs(disk) == NEW
