"""What was deleted stays deleted, whatever writes queues anew from the log."""

from __future__ import annotations

from contextlib import suppress

import pytest

from pyromq.store.files.disk import SyncFailed, remove_tree
from pyromq.store.log.deleted_topics import DELETED_FILE, DeletedTopics, read_deleted
from pyromq.store.tools.rebuild import rebuild_store
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk, SimulatedFile
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


def test_a_deletion_costs_the_same_however_many_there_were_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may make and delete topics without end."""
    disk = SimulatedDisk()
    deleted, write = DeletedTopics(disk), SimulatedFile.pwrite
    written: list[int] = []

    def counted(file: SimulatedFile, offset: int, data: bytes) -> None:
        written.append(len(data))
        write(file, offset, data)

    monkeypatch.setattr(SimulatedFile, "pwrite", counted)
    for number in range(2500):
        deleted.note(f"gone-{number}", 1000 + number, 0)
    assert sum(written) < 2500 * 100
    assert read_deleted(disk.crash(1)) == {f"gone-{number}": 1000 + number for number in range(2500)}
    for number in range(1000):  # the log has expired up to there
        deleted.note("again", 5000 + number, 4000)
    assert read_deleted(disk) == deleted.positions == {"again": 5999}


def test_no_power_cut_loses_what_was_noted_before() -> None:
    for cut in range(1, 12):
        for seed in range(5):
            disk = SimulatedDisk()
            deleted = DeletedTopics(disk)
            deleted.note("a", 10, 0)
            deleted.note("b", 20, 0)
            disk.cut_power_after(cut)
            noted = {"a": 10, "b": 20}
            with suppress(PowerCut):
                for position in (30, 40, 50):
                    deleted.note("c", position, 0)
                    noted["c"] = position
            found = read_deleted(disk.crash(seed))
            assert found.pop("c", 0) >= noted.pop("c", 0)
            assert found == noted


def test_a_note_after_a_failed_one_writes_all_of_them() -> None:
    disk = SimulatedDisk()
    deleted = DeletedTopics(disk)
    deleted.note("a", 10, 0)
    disk.fail_sync_once(DELETED_FILE)
    with pytest.raises(SyncFailed):
        deleted.note("b", 20, 0)
    deleted.note("c", 30, 0)
    assert read_deleted(disk.crash(3)) == {"a": 10, "b": 20, "c": 30}


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
