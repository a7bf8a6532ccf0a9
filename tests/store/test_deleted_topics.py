"""What was deleted stays deleted, whatever writes queues anew from the log."""

from __future__ import annotations

import pytest

from pyromq.store.deleted_topics import DELETED_FILE, read_deleted
from pyromq.store.disk import remove_tree
from pyromq.store.rebuild import rebuild_store
from pyromq.store.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk
from tests.store.small import SMALL, bodies, opened, put


def with_a_deleted_topic(disk: SimulatedDisk, *, again: bool) -> int:
    """Where the log ended when it was deleted."""
    store = opened(disk)
    put(store, *(f"old {number}" for number in range(10)), topic="gone")
    put(store, "a", "b", "c")
    store.queues.remove_topic("gone")
    end = store.commit_log.end
    if again:
        put(store, "new 0", "new 1", topic="gone")
    put(store, "d")
    store.close()
    return end


@pytest.mark.parametrize("again", [True, False])
def test_a_rebuild_does_not_bring_it_back(again: bool) -> None:
    disk = SimulatedDisk()
    end = with_a_deleted_topic(disk, again=again)
    assert read_deleted(disk) == {"gone": end}
    assert verify_store(disk, SMALL).exit_code == 0
    rebuild_store(disk, SMALL, ManualClock(), 1)
    assert verify_store(disk, SMALL).exit_code == 0
    store = opened(disk)
    assert bodies(store, "gone") == ([b"new 0", b"new 1"] if again else [])
    assert (store.queues.get("gone", 0) is not None) == again
    assert bodies(store) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("lost", ["consumequeue", "consumequeue/T"])
def test_lost_folders_of_other_topics_do_not_bring_it_back(again: bool, lost: str) -> None:
    disk = SimulatedDisk()
    with_a_deleted_topic(disk, again=again)
    remove_tree(disk, lost)
    store = opened(disk)
    assert bodies(store, "gone") == ([b"new 0", b"new 1"] if again else [])
    assert bodies(store) == [b"a", b"b", b"c", b"d"]


def test_neither_does_a_kill_or_a_power_cut_during_the_deletion() -> None:
    """Before it was noted all is there, from then on nothing."""
    operations = 0
    for cut in range(1, 40):
        for seed in range(3):
            disk = SimulatedDisk()
            store = opened(disk)
            put(store, *(f"old {number}" for number in range(10)), topic="gone")
            put(store, "a")
            store.flush_now()
            disk.cut_power_after(cut)
            try:
                store.queues.remove_topic("gone")
                done = True
            except PowerCut:
                done = False
                operations = cut
            store = opened(disk.crash(seed))
            left = len(bodies(store, "gone"))
            assert left in ((0,) if done else (0, 10))
            assert bodies(store) == [b"a"]
            put(store, "first again", topic="gone")
            queue = store.queues.get("gone", 0)
            assert queue is not None
            assert queue.next_offset == left + 1
    assert operations > 5


async def test_it_is_forgotten_once_its_records_have_expired() -> None:
    disk = SimulatedDisk()
    with_a_deleted_topic(disk, again=False)
    store = opened(disk)
    for number in range(100):
        put(store, str(number) * 100)
    while len(store.log_files()) > 1:
        await store.drop_oldest_log_file()
    assert read_deleted(disk)
    store.close()
    opened(disk).close()
    assert read_deleted(disk) == {}


def test_a_torn_line_does_not_count() -> None:
    disk = SimulatedDisk()
    with_a_deleted_topic(disk, again=False)
    disk.flip_bit(DELETED_FILE, 12)
    assert read_deleted(disk) == {}
