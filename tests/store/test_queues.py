"""Consume queues and batch queues: offsets, fillers, files, search."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.kernel.records import Placed
from pyromq.model.boundary import Boundary
from pyromq.store.config import StoreConfig
from pyromq.store.errors import StoreError
from pyromq.store.files.disk import DiskFull
from pyromq.store.files.open_files import OpenFiles, UnsyncedFiles
from pyromq.store.layout import FILLER, QueueEntry
from pyromq.store.queues.queue import StoredQueue
from pyromq.store.queues.queue_table import QueueTable
from pyromq.store.queues.time_search import search_by_time
from pyromq.testing.simulated_disk import SimulatedDisk

CONFIG = StoreConfig(queue_file_bytes=20 * 10, batch_queue_file_bytes=46 * 4, allocation_step_bytes=4096)


def table(disk: SimulatedDisk, *batch_topics: str) -> QueueTable:
    made = QueueTable(disk, OpenFiles(disk, 8), UnsyncedFiles(), CONFIG, lambda topic: topic in batch_topics)
    made.load()
    return made


def placed(offset: int, position: int | None = None, messages: int = 1, topic: str = "T", time: int = 0) -> Placed:
    where = offset * 100 + 1000 if position is None else position
    return Placed(where, 100, topic, 0, offset, 0, time, offset % 3, b"", messages)


def queue_of(disk: SimulatedDisk, *offsets: int) -> StoredQueue:
    queue = table(disk).get_or_make("T", 0)
    queue.accept([placed(offset) for offset in offsets])
    queue.tail.readable_end = queue.next_offset
    return queue


def test_offsets_count_up_over_files() -> None:
    disk = SimulatedDisk()
    queue = queue_of(disk, *range(25))
    assert (queue.min_offset, queue.next_offset) == (0, 25)
    assert disk.list("consumequeue/T/0") == [f"{base:020d}" for base in (0, 200, 400)]
    assert queue.entry_at(17) == QueueEntry(17, 2700, 100, 2)
    assert queue.entry_at(25) is None
    assert table(disk).get("T", 0).next_offset == 25  # type: ignore[union-attr]


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 20])
def test_loading_finds_the_end(count: int) -> None:
    disk = SimulatedDisk()
    queue_of(disk, *range(count))
    loaded = table(disk).get("T", 0)
    assert (0 if loaded is None else loaded.next_offset) == count


@pytest.mark.parametrize("count", [0, 1, 203, 204, 205, 1000, 4999, 5000])
@pytest.mark.parametrize("lost", [range(0), range(150, 204)], ids=["whole", "the first page lost its end"])
def test_the_end_is_found_in_long_files_too(count: int, lost: range) -> None:
    """A page that lost its end is not taken for the end of the queue where entries follow."""
    config = StoreConfig(queue_file_bytes=20 * 5000, allocation_step_bytes=16384)
    disk = SimulatedDisk()
    queue = QueueTable(disk, OpenFiles(disk, 8), UnsyncedFiles(), config).get_or_make("T", 0)
    queue.accept([placed(offset) for offset in range(count)])
    if count:
        disk.open(f"consumequeue/T/0/{0:020d}").pwrite(lost.start * 20, bytes(len(lost) * 20))
    again = QueueTable(disk, OpenFiles(disk, 8), UnsyncedFiles(), config)
    again.load()
    found = again.get("T", 0)
    end = lost.start if lost and lost.start < count <= lost.stop else count
    assert (0 if found is None else found.next_offset) == end


def test_a_queue_that_starts_above_zero_has_a_filled_head() -> None:
    disk = SimulatedDisk()
    queue = queue_of(disk, 13, 14)
    assert (queue.min_offset, queue.next_offset) == (13, 15)
    assert disk.list("consumequeue/T/0") == [f"{200:020d}"]
    file = disk.open(f"consumequeue/T/0/{200:020d}")
    assert file.pread(0, 60) == FILLER * 3
    assert table(disk).get("T", 0).min_offset == 13  # type: ignore[union-attr]


def test_entries_that_are_there_already_change_nothing() -> None:
    disk = SimulatedDisk()
    queue = queue_of(disk, *range(5))
    operations = disk.operations
    queue.accept([placed(offset) for offset in range(5)])
    assert disk.operations == operations


def test_a_wrong_entry_is_mended() -> None:
    disk = SimulatedDisk()
    queue = queue_of(disk, *range(5))
    disk.flip_bit(f"consumequeue/T/0/{0:020d}", 2 * 20 + 7)
    assert queue.entry_at(2) != QueueEntry(2, 1200, 100, 2)
    queue.accept([placed(2)])
    assert queue.entry_at(2) == QueueEntry(2, 1200, 100, 2)


def test_a_gap_is_filled_and_stepped_over() -> None:
    queue = queue_of(SimulatedDisk(), 0, 1, 4)
    assert [entry.is_filler for offset in range(5) if (entry := queue.entry_at(offset))] == [
        False,
        False,
        True,
        True,
        False,
    ]
    picked = queue.pick(0, None, 32, 1 << 20, 0, 800)
    assert [found.queue_offset for found in picked.ranges] == [0, 1, 4]
    assert picked.next_offset == 5


def test_a_topic_that_was_deleted_and_made_again_starts_anew() -> None:
    queue = queue_of(SimulatedDisk(), *range(8))
    queue.accept([placed(0, 9000), placed(1, 9100)])
    assert queue.next_offset == 2
    assert queue.entry_at(0) == QueueEntry(0, 9000, 100, 0)


def test_the_minimum_follows_the_log_and_files_go() -> None:
    disk = SimulatedDisk()
    queue = queue_of(disk, *range(25))
    assert queue.raise_minimum(2250)  # offset 13 lies at 2300
    assert queue.min_offset == 13
    assert disk.list("consumequeue/T/0") == [f"{base:020d}" for base in (200, 400)]
    assert not queue.raise_minimum(2250)
    queue.raise_minimum(1 << 40)
    assert (queue.min_offset, queue.next_offset) == (25, 25)
    assert disk.list("consumequeue/T/0") == [f"{400:020d}"]  # the last file stays: it knows the next offset


def test_what_is_distrusted_is_gone_from_the_file() -> None:
    disk = SimulatedDisk()
    queue = queue_of(disk, *range(25))
    queue.discard_from(1850, lambda entry: True)
    assert queue.next_offset == 9
    assert disk.list("consumequeue/T/0") == [f"{0:020d}"]
    assert disk.open(f"consumequeue/T/0/{0:020d}").pread(180, 20) == bytes(20)


def test_an_entry_that_a_lost_sector_made_look_older_is_not_trusted() -> None:
    disk = SimulatedDisk()
    queue = queue_of(disk, *range(6))
    disk.open(f"consumequeue/T/0/{0:020d}").pwrite(5 * 20, bytes(8))  # the position of the last entry is lost
    queue.discard_from(1500, lambda entry: True)
    assert queue.next_offset == 5


def test_room_is_made_before_the_write_and_a_full_disk_changes_nothing() -> None:
    disk = SimulatedDisk(capacity=0)
    queue = table(disk).get_or_make("T", 0)
    with pytest.raises(DiskFull):
        queue.reserve(1)
    assert queue.next_offset == 0
    disk.capacity = 1 << 20
    queue.accept([placed(0)])
    assert queue.next_offset == 1


def test_files_have_their_full_length_but_room_in_steps() -> None:
    disk = SimulatedDisk()
    big = StoreConfig(allocation_step_bytes=4096)
    queues = QueueTable(disk, OpenFiles(disk, 8), UnsyncedFiles(), big)
    queues.get_or_make("T", 0).accept([placed(0)])
    assert disk.size(f"consumequeue/T/0/{0:020d}") == 6_000_000
    assert disk.usage().used == 4096


def test_a_queue_that_has_filled_a_file_gets_the_next_one_whole() -> None:
    disk = SimulatedDisk()
    files_of_two_steps = StoreConfig(allocation_step_bytes=4096, queue_file_bytes=20 * 500)
    queue = QueueTable(disk, OpenFiles(disk, 8), UnsyncedFiles(), files_of_two_steps).get_or_make("T", 0)
    queue.accept([placed(number) for number in range(500)])
    before = disk.usage().used
    queue.accept([placed(500)])
    assert disk.usage().used == before + 3 * 4096


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a\0b"])
def test_a_name_that_would_leave_its_folder_is_refused_cve_2019_17572(topic: str) -> None:
    with pytest.raises(StoreError, match="cannot have a folder"):
        table(SimulatedDisk()).get_or_make(topic, 0)


def test_open_files_are_bounded() -> None:
    disk = SimulatedDisk()
    files = OpenFiles(disk, 8)
    queues = QueueTable(disk, files, UnsyncedFiles(), CONFIG)
    for number in range(100):
        queues.get_or_make(f"T{number}", 0).accept([placed(0, topic=f"T{number}")])
    assert len(files) <= 8
    assert all(queue.entry_at(0) is not None for queue in queues)


def test_a_removed_topic_leaves_no_folder() -> None:
    disk = SimulatedDisk()
    queues = table(disk)
    queues.get_or_make("T", 0).accept([placed(0)])
    queues.remove_topic("T")
    assert queues.get("T", 0) is None
    assert disk.list("consumequeue") == []


# -- batch queues ------------------------------------------------------------------------------------------------------


def batch_queue(disk: SimulatedDisk) -> StoredQueue:
    """Batches of 5, 1, 5 and 3 messages, then 4 more in the next file."""
    queue = table(disk, "T").get_or_make("T", 0)
    queue.accept([placed(0, 0, 5, time=10), placed(5, 100, 1, time=20), placed(6, 200, 5, time=20)])
    queue.accept([placed(11, 300, 3, time=30), placed(14, 400, 4, time=40)])
    queue.tail.readable_end = queue.next_offset
    return queue


def test_a_batch_queue_is_searched_by_offset() -> None:
    disk = SimulatedDisk()
    queue = batch_queue(disk)
    assert queue.next_offset == 18
    assert disk.list("batchconsumequeue/T/0") == [f"{base:020d}" for base in (0, 184)]
    found = [entry.position for offset in range(18) if (entry := queue.entry_at(offset))]
    assert found == [0] * 5 + [100] + [200] * 5 + [300] * 3 + [400] * 4
    loaded = table(disk).get("T", 0)
    assert loaded is not None
    assert (loaded.min_offset, loaded.next_offset) == (0, 18)


def test_a_batch_is_pulled_whole_also_from_inside_it() -> None:
    queue = batch_queue(SimulatedDisk())
    picked = queue.pick(7, None, 6, 1 << 20, 0, 800)
    assert [found.position for found in picked.ranges] == [200]
    assert picked.next_offset == 11
    assert [found.position for found in queue.pick(0, None, 32, 1 << 20, 0, 800).ranges] == [0, 100, 200, 300, 400]


def test_a_batch_queue_by_time() -> None:
    queue = batch_queue(SimulatedDisk())
    lower = [queue.offset_by_time(time, Boundary.LOWER, lambda _: None) for time in (5, 10, 15, 20, 40, 41)]
    assert lower == [0, 0, 5, 5, 14, 18]


def test_batch_entries_there_already_or_distrusted() -> None:
    disk = SimulatedDisk()
    queue = batch_queue(disk)
    operations = disk.operations
    queue.accept([placed(6, 200, 5, time=20)])
    assert disk.operations == operations
    queue.discard_from(250, lambda entry: True)
    assert queue.next_offset == 11
    queue.raise_minimum(150)
    assert queue.min_offset == 6


# -- by time -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30).map(sorted), st.integers(-1, 11))
def test_by_time_is_the_first_not_before_and_the_last_not_after(times: list[int], time: int) -> None:
    queue = table(SimulatedDisk()).get_or_make("T", 0)
    queue.accept([placed(offset) for offset in range(len(times))])
    queue.tail.readable_end = len(times)
    times_at = {offset * 100 + 1000: at for offset, at in enumerate(times)}
    lower = queue.offset_by_time(time, Boundary.LOWER, times_at.get)
    upper = queue.offset_by_time(time, Boundary.UPPER, times_at.get)
    assert lower == sum(at < time for at in times)
    assert upper == max(sum(at <= time for at in times) - 1, 0)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60).map(sorted), st.data())
def test_by_time_where_messages_came_unevenly(times: list[int], data: st.DataObject) -> None:
    time = data.draw(st.one_of(st.sampled_from(times), st.integers(-(10**9), 2 * 10**9)))
    lost = data.draw(st.sets(st.integers(0, len(times) - 1), max_size=5))
    shown = [times[place] if place not in lost else None for place in range(len(times))]
    counted: list[int] = []  # a lost one counts as its neighbour before it
    for at in shown:
        counted.append(at if at is not None else counted[-1] if counted else -(1 << 62))
    lower = search_by_time(0, len(times), time, Boundary.LOWER, shown.__getitem__)
    upper = search_by_time(0, len(times), time, Boundary.UPPER, shown.__getitem__)
    assert lower == sum(at < time for at in counted)
    assert upper == max(sum(at <= time for at in counted) - 1, 0)


@pytest.mark.parametrize(
    ("time_of", "looks"),
    [
        (lambda place: place // 3, 8),  # evenly: as many for a million as for a thousand
        (lambda place: place // 1000, 16),  # a thousand a millisecond, which only halving tells apart
        (lambda place: place * place, 26),
        (lambda place: 0 if place < 999_999 else 10**12, 44),  # the worst: no more than twice as many as by halving
    ],
    ids=["evenly", "in bursts", "unevenly", "at the end"],
)
def test_a_search_by_time_takes_few_looks(time_of: Callable[[int], int], looks: int) -> None:
    for wanted in range(0, 1_000_000, 49_999):
        seen: list[int] = []

        def look(place: int, seen: list[int] = seen) -> int:
            seen.append(place)
            return time_of(place)

        time = time_of(wanted)
        found = search_by_time(0, 1_000_000, time, Boundary.LOWER, look)
        assert time_of(found) == time
        assert found == 0 or time_of(found - 1) < time
        assert len(seen) <= looks, wanted


@pytest.mark.parametrize("lost", [range(900), range(100, 900), range(500, 1000)], ids=str)
def test_a_search_by_time_steps_over_what_is_lost_once(lost: range) -> None:
    for wanted in range(0, 1000, 7):
        seen: list[int] = []

        def look(place: int, seen: list[int] = seen) -> int | None:
            seen.append(place)
            return None if place in lost else place

        counted = [place if place not in lost else lost.start - 1 for place in range(1000)]
        found = search_by_time(0, 1000, wanted, Boundary.LOWER, look)
        assert found == sum(time < wanted for time in counted)
        assert len(seen) <= len(lost) + 25


@pytest.mark.parametrize("kind", ["T", "B"])
def test_a_queue_that_lost_all_its_entries_begins_where_the_log_does(kind: str) -> None:
    disk = SimulatedDisk()
    queue = table(disk, "B").get_or_make(kind, 0)
    queue.accept([placed(offset, topic=kind) for offset in range(5)])
    queue.discard_from(0, lambda entry: True)
    queue.accept([placed(33, topic=kind)])
    assert (queue.min_offset, queue.next_offset) == (33, 34)
    assert queue.entry_at(33) is not None
