"""Expired files go in a helper thread: what the store sees at once, what follows, and what waits for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread, get_ident
from typing import TypeVar

import pytest

from pyromq.store.files.disk import FileMissing
from pyromq.store.files.open_files import Removals
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk, SimulatedFile
from tests.store.cold import Medium
from tests.store.small import SMALL, bodies, message, opened

T = TypeVar("T")


class Recorded(RealDisk):
    """Which thread removed what."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, create=True)
        self.removed: list[tuple[str, int]] = []

    def remove(self, name: str) -> None:
        self.removed.append((name, get_ident()))
        super().remove(name)


async def in_a_thread(call: Callable[[], T]) -> T:
    """Waits for it: the test goes on when it is done."""
    result: list[T] = []
    thread = Thread(target=lambda: result.append(call()))
    thread.start()
    thread.join()
    return result[0]


def fill(store: MessageStore, topic: str = "T") -> None:
    for number in range(100):
        store.put([message(b"%03d" % number * 100, topic=topic, keys=f"k{number}")])


async def test_files_of_log_queues_and_index_go_in_a_helper_thread_in_order(tmp_path: Path) -> None:
    disk = Recorded(tmp_path)
    store = MessageStore(disk, SMALL, ManualClock(), in_a_thread)
    fill(store)
    disk.removed.clear()
    while len(store.log_files()) > 1:
        await store.drop_oldest_log_file()
    assert {thread for _, thread in disk.removed}.isdisjoint({get_ident()})
    names = [name for name, _ in disk.removed]
    for folder, least in (("commitlog", 4), ("consumequeue/T/0", 1), ("index", 1)):
        gone = [name for name in names if name.startswith(folder)]
        assert len(gone) >= least
        assert gone == sorted(gone)
        assert not any(disk.exists(name) for name in gone)
    store.close()


async def test_nobody_finds_a_file_that_waits_for_its_removal() -> None:
    disk = SimulatedDisk()
    seen: list[tuple[int, list[bytes]]] = []

    async def look_first(call: Callable[[], T]) -> T:
        if disk.list("commitlog") and store.commit_log.start > int(disk.list("commitlog")[0]):
            seen.append((len(disk.list("commitlog")), store.commit_log.read_apart([(store.commit_log.start, 4)])))
            assert not store.commit_log.sequence.has(0)
        return call()

    store = MessageStore(disk, SMALL, ManualClock(), look_first)
    fill(store)
    files = len(disk.list("commitlog"))
    await store.drop_oldest_log_file()
    assert [count for count, _ in seen] == [files]
    assert len(disk.list("commitlog")) == files - 1


async def test_entries_that_are_not_in_memory_are_looked_at_in_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(SimulatedDisk())
    fill(store)
    queue = store.queues.get("T", 0)
    assert queue is not None
    store.flush_now()
    store._reading.run_blocking = Medium(monkeypatch, SimulatedFile, page=64)  # the loop may read nothing that is cold
    await store.drop_oldest_log_file()
    assert 0 < queue.min_offset < 100
    assert len(queue.entries.file_names()) <= 3


def with_a_queue_file_that_waits(disk: SimulatedDisk) -> MessageStore:
    store = opened(disk)
    fill(store, "gone")
    queue = store.queues.get("gone", 0)
    assert queue is not None
    before = disk.list("consumequeue/gone/0")
    assert queue.raise_minimum(store.commit_log.sequence.bases[-1])
    assert disk.list("consumequeue/gone/0") == before
    return store


def test_a_topic_can_be_deleted_and_made_again_while_files_of_it_wait() -> None:
    disk = SimulatedDisk()
    store = with_a_queue_file_that_waits(disk)
    store.queues.remove_topic("gone")
    assert not disk.is_folder("consumequeue/gone")
    store.put([message("again", topic="gone")])
    store.close()
    assert bodies(opened(disk), "gone") == [b"again"]


def test_a_stop_removes_what_waits() -> None:
    disk = SimulatedDisk()
    store = with_a_queue_file_that_waits(disk)
    left = store.queues.get("gone", 0)
    assert left is not None
    names = left.entries.file_names()
    store.close()
    assert [f"consumequeue/gone/0/{name}" for name in disk.list("consumequeue/gone/0")] == names


def test_a_name_that_waits_is_free_before_it_is_made_again() -> None:
    disk = SimulatedDisk()
    store = with_a_queue_file_that_waits(disk)
    files = store._parts.files.open_files
    name = f"consumequeue/gone/0/{0:020d}"
    files.get(name, create=True).pwrite(0, b"new")
    assert files.removals is not None
    files.removals.carry_out()
    assert disk.exists(name)


async def test_a_power_cut_at_any_call_of_the_removal_loses_no_more_than_the_file() -> None:
    for cut in range(40):
        disk = SimulatedDisk()
        store = opened(disk)
        fill(store)
        store.flush_now()
        second = store.commit_log.sequence.bases[1]
        disk.cut_power_after(cut)
        try:
            await store.drop_oldest_log_file()
            done = True
        except PowerCut:
            done = False
        again = opened(disk.crash(seed=cut))
        assert again.commit_log.start in ((second,) if done else (0, second))
        found = bodies(again)
        assert found == [b"%03d" % number * 100 for number in range(100)][100 - len(found) :]
        assert len(found) > 50
        if done:
            return
    pytest.fail("it never came to its end")


def test_one_that_fails_does_not_keep_the_others() -> None:
    disk = SimulatedDisk()
    removals = Removals(disk)
    disk.open("b", create=True)
    for name in ("a", "b"):
        removals.add(name)
    assert removals.holds("b")
    with pytest.raises(FileMissing):
        removals.carry_out()
    removals.carry_out()
    assert not removals.holds()
    assert not disk.exists("b")
