"""Queues rest over a clean stop: not looked at before their first use, and only while nobody touched their files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.record import Record
from pyromq.store import expiry
from pyromq.store.files.disk import read_whole
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.layout import QUEUE_ENTRY
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery.catalogue import CATALOGUE_FILE, read_catalogue
from pyromq.store.recovery.checkpoint import ABORT_FILE, CHECKPOINT_FILE, Checkpoint, CheckpointFile
from pyromq.store.recovery.derived_files import read_derived
from pyromq.store.tools.findings import Level
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.small import SMALL, bodies, message, opened, put

QUEUES, MESSAGES = 4, 50  # a queue file holds 40


def stopped() -> SimulatedDisk:
    """Four queues of two files each, a clean stop behind them."""
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(MESSAGES):
        store.put([message(f"{queue}-{number}", queue_id=queue) for queue in range(QUEUES)])
    store.close()
    return disk


def wanted(queue: int) -> list[bytes]:
    return [b"%d-%d" % (queue, number) for number in range(MESSAGES)]


def assert_whole(store: MessageStore) -> None:
    for queue in range(QUEUES):
        assert bodies(store, queue_id=queue) == wanted(queue)
    assert [queue.next_offset for queue in store.queues] == [MESSAGES] * QUEUES


def unchanged(store: MessageStore) -> list[int]:
    return sorted(known.queue_id for known in store.queues.unchanged)


def noting(touched: list[str], call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(name: str = "", **how: Any) -> Any:
        touched.append(name)
        return call(name, **how)

    return noted


def test_nobody_looks_at_a_queue_before_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = stopped()
    touched: list[str] = []
    for name in ("open", "list", "size"):
        monkeypatch.setattr(disk, name, noting(touched, getattr(disk, name)))
    store = opened(disk)
    assert [name for name in touched if name.startswith("consumequeue/T")] == [
        f"consumequeue/T/{QUEUES - 1}/{800:020d}"  # the newest record's: where the log goes on
    ]
    assert unchanged(store) == [0, 1, 2]
    assert put(store, "next", queue_id=1)
    assert bodies(store, queue_id=1) == [*wanted(1), b"next"]
    assert unchanged(store) == [0, 2]
    assert_whole_but(store, 1)


def assert_whole_but(store: MessageStore, other: int) -> None:
    for queue in range(QUEUES):
        if queue != other:
            assert bodies(store, queue_id=queue) == wanted(queue)


def test_a_queue_rests_through_many_lives() -> None:
    disk = stopped()
    for life in range(4):
        store = opened(disk)
        assert store.recovery.is_as_left
        assert set(unchanged(store)) >= {1, 2}
        put(store, "x", queue_id=0, topic=f"New{life}")
        store.close()
    assert verify_store(disk, SMALL).exit_code == Level.NOTE
    assert_whole_topic(opened(disk))


def assert_whole_topic(store: MessageStore) -> None:
    assert [bodies(store, queue_id=queue) for queue in range(QUEUES)] == [wanted(queue) for queue in range(QUEUES)]
    assert sorted(store.queues.topics()) == ["New0", "New1", "New2", "New3", "T"]


def file_of(queue: int, number: int = 1) -> str:
    return f"consumequeue/T/{queue}/{number * 800:020d}"


def more_entries(disk: SimulatedDisk) -> None:
    disk.open(file_of(1)).pwrite(10 * 20, QUEUE_ENTRY.pack(1 << 30, 100, 0))


def other_last_entry(disk: SimulatedDisk) -> None:
    disk.open(file_of(1)).pwrite(9 * 20, QUEUE_ENTRY.pack(0, 100, 0))


def last_file_gone(disk: SimulatedDisk) -> None:
    disk.remove(file_of(1))


def older_file_gone(disk: SimulatedDisk) -> None:
    disk.remove(file_of(1, 0))


def cut_short(disk: SimulatedDisk) -> None:
    disk.open(file_of(1)).truncate(100)


def older_file_cut_short(disk: SimulatedDisk) -> None:
    disk.open(file_of(1, 0)).truncate(100)


def folder_gone(disk: SimulatedDisk) -> None:
    older_file_gone(disk)
    last_file_gone(disk)
    disk.remove_folder("consumequeue/T/1")


def topic_gone(disk: SimulatedDisk) -> None:
    for queue in range(QUEUES):
        for name in disk.list(f"consumequeue/T/{queue}"):
            disk.remove(f"consumequeue/T/{queue}/{name}")
        disk.remove_folder(f"consumequeue/T/{queue}")
    disk.remove_folder("consumequeue/T")


def written_again(disk: SimulatedDisk) -> None:
    """The same bytes, as a copy brings them back: the stamp is another."""
    disk.open(file_of(1)).pwrite(0, read_whole(disk, file_of(1)))


FAULTS = [
    more_entries,
    other_last_entry,
    last_file_gone,
    older_file_gone,
    cut_short,
    older_file_cut_short,
    folder_gone,
    topic_gone,
    written_again,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_queue_that_somebody_touched_is_looked_at(fault: Callable[[SimulatedDisk], None]) -> None:
    disk = stopped()
    fault(disk)
    store = opened(disk)
    assert 1 not in unchanged(store)
    assert store.recovery.rebuilt == [] if fault is written_again else store.recovery.rebuilt
    assert_whole(store)
    put(store, "next", queue_id=1)
    store.close()
    assert verify_store(disk, SMALL).exit_code == Level.NOTE
    assert bodies(opened(disk), queue_id=1) == [*wanted(1), b"next"]


def test_a_queue_that_came_to_the_folder_is_found() -> None:
    disk = stopped()
    disk.make_folder("consumequeue/T/9")
    disk.open(f"consumequeue/T/9/{0:020d}", create=True).truncate(800)
    store = opened(disk)
    assert store.queues.get("T", 9) is not None
    assert set(unchanged(store)) == {0, 1, 2}


def after_another_broker(disk: SimulatedDisk) -> SimulatedDisk:
    """It appends, and stops cleanly without a word to our catalogue: only checkpoint, log and queues know."""
    catalogue = read_whole(disk, CATALOGUE_FILE)
    store = opened(disk)
    put(store, "of the other", queue_id=1)
    store.close()
    disk.open(CATALOGUE_FILE).truncate(0)
    disk.open(CATALOGUE_FILE).pwrite(0, catalogue)
    return disk


def test_after_another_broker_nothing_rests() -> None:
    disk = after_another_broker(stopped())
    store = opened(disk)
    assert unchanged(store) == []
    assert bodies(store, queue_id=1) == [*wanted(1), b"of the other"]


def test_even_with_the_checkpoint_that_we_left_a_queue_with_other_files_is_looked_at() -> None:
    disk = stopped()
    checkpoint = read_whole(disk, CHECKPOINT_FILE)
    after_another_broker(disk).open(CHECKPOINT_FILE).pwrite(0, checkpoint)
    store = opened(disk)
    assert 1 not in unchanged(store)
    assert bodies(store, queue_id=1) == [*wanted(1), b"of the other"]
    assert put(store, "next", queue_id=1)
    assert store.queues.get("T", 1).next_offset == MESSAGES + 2  # type: ignore[union-attr]


@pytest.mark.parametrize("stop", ["killed", "of Java's"])
def test_after_an_unclean_stop_nothing_rests(stop: str) -> None:
    disk = stopped()
    store = opened(disk)
    if stop == "killed":
        disk = disk.kill()
    else:
        store.close()
        CheckpointFile(disk).save(Checkpoint(log_time_ms=1))
        disk.open(ABORT_FILE, create=True).pwrite(0, b"4711")
    store = opened(disk)
    assert unchanged(store) == []
    assert_whole(store)


def test_no_flipped_bit_of_the_catalogue_is_believed() -> None:
    whole = stopped()
    for offset in range(0, whole.size(CATALOGUE_FILE), 7):
        disk = whole.crash(0)
        disk.flip_bit(CATALOGUE_FILE, offset, offset % 8)
        assert_whole(opened(disk))


def test_a_catalogue_of_an_older_version_says_less() -> None:
    disk = stopped()
    catalogue = read_catalogue(disk)
    assert catalogue is not None
    known = catalogue.known_queues()
    queues = ",".join(f'["T",{queue.queue_id},{queue.next_offset},{list(queue.last)}]' for queue in known)
    content = read_whole(disk, CATALOGUE_FILE).partition(b'"checkpoint":"')[2].partition(b'"')[0]
    old = b'{"checkpoint":"%s","sizes":{},"queues":[%s],"index_files":[]}' % (content, queues.encode())
    disk.open(CATALOGUE_FILE).truncate(0)
    disk.open(CATALOGUE_FILE).pwrite(0, old)
    store = opened(disk)
    assert store.recovery.clean_stop
    assert unchanged(store) == []
    assert_whole(store)


# -- what befalls queues that rest -------------------------------------------------------------------------------------


async def test_the_minimum_of_a_queue_that_rests_follows_the_log() -> None:
    disk = stopped()
    store = opened(disk)
    while len(store.log_files()) > 1:
        await store.drop_oldest_log_file()
    start = store.commit_log.start
    lowest = {queue.queue_id: queue.min_offset for queue in store.queues}
    assert min(lowest.values()) > 0
    for queue in store.queues:
        first = queue.entry_at(queue.min_offset)
        assert first is None or first.position >= start
    store.close()
    again = opened(disk)
    assert len(unchanged(again)) == QUEUES - 1
    assert {queue.queue_id: queue.min_offset for queue in again.queues} == lowest


async def test_a_stop_while_the_minimums_are_raised_is_made_good_at_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = stopped()
    monkeypatch.setattr(expiry, "_QUEUES_AT_ONCE", 1)
    clock = ManualClock()
    store = opened(disk, clock=clock)
    reached = asyncio.Event()

    async def never(seconds: float) -> None:
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(clock, "sleep", never)
    dropping = asyncio.create_task(store.drop_oldest_log_file())
    await reached.wait()
    dropping.cancel()
    await asyncio.gather(dropping, return_exceptions=True)
    store.close()
    again = opened(disk)
    assert again.commit_log.start > 0
    for queue in again.queues:
        first = queue.entry_at(queue.min_offset)
        assert first is not None
        assert first.position >= again.commit_log.start


def test_a_topic_whose_queues_rest_is_deleted() -> None:
    disk = stopped()
    store = opened(disk)
    store.queues.remove_topic("T")
    assert disk.list("consumequeue") == []
    assert store.queues.topics() == []
    assert store.put([message("again")])[0].queue_offset == 0
    store.close()
    assert bodies(opened(disk)) == [b"again"]


def test_a_new_queue_is_of_its_resting_siblings_kind() -> None:
    disk = SimulatedDisk()
    store = MessageStore(disk, SMALL, ManualClock(), is_batch_topic=lambda topic: topic == "B")
    inner = encode_batch([BatchEntry(b"a"), BatchEntry(b"b")])
    batch = Record(topic="B", queue_id=0, body=inner, sys_flag=192, properties=b"INNER_NUM\x012\x02")
    for _ in range(25):  # a file holds 20
        store.put([batch])
    put(store, "newest")
    store.close()
    again = opened(disk)
    assert [(known.topic, known.queue_id) for known in again.queues.unchanged] == [("B", 0)]
    assert again.put([Record(topic="B", queue_id=1, body=b"single")])[0].queue_offset == 0
    assert disk.list("batchconsumequeue/B") == ["0", "1"]
    assert again.put([batch])[0].queue_offset == 50
    selection = again.reader.select("B", 0, 0, max_count=100, max_bytes=1 << 20)
    assert [one.queue_offset for one in selection.ranges] == list(range(0, 52, 2))


def test_a_file_that_is_gone_after_a_kill_is_missed_though_nothing_was_listed_anew() -> None:
    disk = stopped()
    before = read_whole(disk, "pyromq/derived")
    store = opened(disk)
    put(store, "next", queue_id=1, topic="New")
    store.flush_now()
    assert read_whole(disk, "pyromq/derived").startswith(before)
    assert f"consumequeue/New/1/{0:020d}" in read_derived(disk)
    disk = disk.kill()
    last_file_gone(disk)
    assert_whole_topics(opened(disk))


def assert_whole_topics(store: MessageStore) -> None:
    assert [bodies(store, queue_id=queue) for queue in range(QUEUES)] == [wanted(queue) for queue in range(QUEUES)]
    assert bodies(store, "New", 1) == [b"next"]


def test_the_list_of_files_is_written_whole_when_it_is_mostly_history() -> None:
    disk = stopped()
    for life in range(12):
        store = opened(disk)
        put(store, "x", topic=f"New{life}")
        store.queues.remove_topic(f"New{life}")
        store.close()
    listed = read_derived(disk)
    assert len(read_whole(disk, "pyromq/derived").splitlines()) <= 3 * len(listed)
    assert {name for name in listed if name.startswith("consumequeue")} == {
        file_of(queue, number) for queue in range(QUEUES) for number in range(2)
    }


def test_on_a_real_disk(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    store = MessageStore(disk, SMALL, ManualClock())
    for queue in range(QUEUES):
        store.put([message(f"{queue}-{number}", queue_id=queue) for number in range(MESSAGES)])
    store.close()
    store = MessageStore(disk, SMALL, ManualClock())
    assert unchanged(store) == [0, 1, 2]
    assert_whole(store)
    store.close()
    name = tmp_path / file_of(1)
    name.write_bytes(name.read_bytes()[:-20] + bytes(20))
    store = MessageStore(disk, SMALL, ManualClock())
    assert unchanged(store) == [0, 2]
    assert_whole(store)
    store.close()
