"""The index: hashing, chains over files, and taking entries back as if they had never been put."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pyromq.kernel.records import Placed, index_hash
from pyromq.store.config import StoreConfig
from pyromq.store.files.disk import Disk
from pyromq.store.files.open_files import OpenFiles, UnsyncedFiles
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.index.key_index import Index
from pyromq.testing.simulated_disk import SimulatedDisk

CONFIG = StoreConfig(index_slots=7, index_entries=10, allocation_step_bytes=4096)
NOW = 1_700_000_000_000


def made(disk: Disk, config: StoreConfig = CONFIG) -> Index:
    index = Index(disk, config, UnsyncedFiles(), lambda: NOW, OpenFiles(disk, 16))
    index.load()
    return index


def placed(number: int, keys: str = "", unique: str = "", tag: str = "", sys_flag: int = 0) -> Placed:
    pairs = {"UNIQ_KEY": unique, "KEYS": keys, "TAGS": tag}
    properties = b"".join(f"{name}\x01{value}\x02".encode() for name, value in pairs.items() if value)
    return Placed(number * 100, 100, "T", 0, number, sys_flag, NOW + number * 1000, 0, properties, 1)


def commit(index: Index, disk: Disk) -> None:
    for part in index.take_commits():
        part.write(disk)


def found(index: Index, key: str, begin: int = 0, end: int = 1 << 60, limit: int = 64) -> list[int]:
    search = index.search("T", key, begin, end, limit)
    while not search.step():
        pass
    return search.found


def test_hash_vector_and_the_smallest_integer() -> None:
    assert index_hash("T", "k1") == 2539445
    assert index_hash("polygenelubricants", "")  # any value but a negative one
    assert all(index_hash("T", str(number)) >= 0 for number in range(1000))


def test_unique_key_every_word_of_keys_and_the_tag_are_found() -> None:
    index = made(SimulatedDisk())
    index.accept([placed(1, "a b  c", "u", "t")])
    assert [found(index, key) for key in ("a", "b", "c", "u", "T#t", "t", "d")] == [[100]] * 5 + [[], []]


def test_older_brokers_do_not_index_tags() -> None:
    index = made(SimulatedDisk(), StoreConfig(index_slots=7, index_entries=10, index_tags=False))
    index.accept([placed(1, "a", tag="t")])
    assert found(index, "T#t") == []


def test_newest_first_over_files_up_to_the_limit() -> None:
    disk = SimulatedDisk()
    index = made(disk)
    index.accept([placed(number, "same") for number in range(25)])
    assert len(disk.list("index")) == 3
    assert found(index, "same") == [number * 100 for number in range(24, -1, -1)]
    assert found(index, "same", limit=3) == [2400, 2300, 2200]


def test_the_time_window() -> None:
    index = made(SimulatedDisk())
    index.accept([placed(number, "same") for number in range(25)])
    assert found(index, "same", NOW + 5_000, NOW + 12_000) == [number * 100 for number in range(12, 4, -1)]


def test_rolled_back_transactions_are_not_indexed() -> None:
    index = made(SimulatedDisk())
    index.accept([placed(1, "a", sys_flag=12), placed(2, "b", sys_flag=4)])
    assert (found(index, "a"), found(index, "b")) == ([], [200])


def test_records_that_are_covered_are_not_put_again() -> None:
    index = made(SimulatedDisk())
    index.accept([placed(1, "a"), placed(2, "a")])
    index.accept([placed(1, "a"), placed(2, "a"), placed(3, "a")])
    assert found(index, "a") == [300, 200, 100]


def test_what_was_not_committed_is_not_on_disk() -> None:
    disk = SimulatedDisk()
    index = made(disk)
    index.accept([placed(1, "a")])
    commit(index, disk)
    index.accept([placed(2, "a")])
    assert found(made(disk), "a") == [100]
    commit(index, disk)
    assert found(made(disk), "a") == [200, 100]


def test_slots_that_a_crash_left_ahead_of_their_header_are_led_back() -> None:
    disk = SimulatedDisk()
    index = made(disk)
    index.accept([placed(1, "a"), placed(2, "b")])
    commit(index, disk)
    index.accept([placed(3, "a"), placed(4, "a")])
    for part in index.take_commits():
        part.header = b""  # all but the header reached the medium
        part.write(disk)
    again = made(disk)
    again.discard_from(300)
    assert (found(again, "a"), found(again, "b")) == ([100], [200])
    again.accept([placed(3, "a")])
    assert found(again, "a") == [300, 100]


def test_a_file_made_ahead_that_never_got_an_entry_is_dropped() -> None:
    disk = SimulatedDisk()
    made(disk).reserve(3)
    assert len(disk.list("index")) == 1
    assert made(disk).files == []
    assert disk.list("index") == []


keys = st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=40)


@given(keys, st.integers(0, 40), st.booleans())
def test_taking_back_leaves_what_would_be_there_without(words: list[str], cut: int, reopen: bool) -> None:
    disk, plain = SimulatedDisk(), SimulatedDisk()
    index = made(disk)
    index.accept([placed(number, word) for number, word in enumerate(words)])
    commit(index, disk)
    if reopen:
        index = made(disk)
    index.discard_from(cut * 100)
    index.accept([placed(number, word) for number, word in enumerate(words)][cut:])
    commit(index, disk)
    never_cut = made(plain)
    never_cut.accept([placed(number, word) for number, word in enumerate(words)])
    commit(never_cut, plain)
    for word in "abcdefghij":
        assert found(made(disk), word) == found(made(plain), word)
    assert [disk.size(f"index/{name}") for name in disk.list("index")] == [
        plain.size(f"index/{name}") for name in plain.list("index")
    ]


def test_files_go_when_the_log_has_moved_on() -> None:
    disk = SimulatedDisk()
    index = made(disk)
    index.accept([placed(number, "same") for number in range(25)])
    first, second, third = (f"index/{name}" for name in disk.list("index"))
    assert index.give_up_before(1000) == [first]
    assert index.give_up_before(1 << 40) == [second]
    assert [file.name for file in index.files] == [third]


def test_the_next_file_is_made_ahead_and_used(tmp_path: Path) -> None:
    for disk in (SimulatedDisk(), RealDisk(tmp_path)):
        index = made(disk)
        index.accept([placed(number, "same") for number in range(7)])
        assert not index.wants_spare
        index.accept([placed(number, "same") for number in range(7, 9)])
        assert index.wants_spare
        index.make_spare(name := index.name_spare())
        index.adopt_spare()
        assert (index.wants_spare, len(disk.list("index")), len(index.files)) == (False, 2, 1)
        assert index._spare is not None
        assert index._spare.tail.room_until == disk.size(name)
        index.accept([placed(number, "same") for number in range(9, 12)])
        assert (len(disk.list("index")), len(index.files)) == (2, 2)
        commit(index, disk)
        assert found(made(disk), "same") == [number * 100 for number in range(11, -1, -1)]


def test_a_file_made_ahead_that_comes_too_late_or_is_never_used_goes() -> None:
    disk = SimulatedDisk()
    index = made(disk)
    index.accept([placed(number, "same") for number in range(9)])
    name = index.name_spare()
    index.accept([placed(number, "same") for number in range(9, 12)])  # it rolled by itself
    index.make_spare(name)
    index.adopt_spare()
    assert len(disk.list("index")) == len(index.files) == 2
    index.accept([placed(number, "same") for number in range(12, 18)])
    index.make_spare(index.name_spare())
    index.tidy()
    assert len(disk.list("index")) == len(index.files) == 2
