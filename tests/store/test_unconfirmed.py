"""What a replica of an elected set shows after a start: what its set had confirmed, never less than it has shown."""

from __future__ import annotations

from pyromq.protocol.replication.epochs import EpochList, MasterEpoch
from pyromq.store.config import FlushMode
from pyromq.store.epochs import save_epochs
from pyromq.store.files.disk import read_whole
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery.checkpoint import CHECKPOINT_FILE, read_checkpoint
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.crash.lives import finish
from tests.store.small import SMALL, SMALL_SYNC, bodies, opened, put

FIRST = EpochList([MasterEpoch(1, 0)])


def elected(disk: SimulatedDisk, mode: FlushMode = FlushMode.ASYNC) -> MessageStore:
    return MessageStore(disk, SMALL if mode is FlushMode.ASYNC else SMALL_SYNC, ManualClock(), is_elected=True)


def replicated() -> SimulatedDisk:
    disk = SimulatedDisk()
    save_epochs(disk, FIRST)
    return disk


def test_nothing_is_readable_before_it_is_confirmed() -> None:
    store = elected(replicated())
    put(store, "one", "two")
    assert bodies(store) == []
    store.confirm(store.commit_log.end)
    assert bodies(store) == [b"one", b"two"]


def test_a_start_shows_what_was_confirmed_and_hides_the_rest() -> None:
    disk = replicated()
    store = elected(disk)
    put(store, "one", "two")
    store.confirm(confirmed := store.commit_log.end)
    put(store, "three")
    put(store, "elsewhere", topic="U")
    store.close()
    assert read_checkpoint(disk).confirmed == confirmed
    assert int.from_bytes(read_whole(disk, CHECKPOINT_FILE)[32:40], "big") == confirmed  # where Java has it

    store = elected(disk)
    assert store.readable.value == confirmed
    assert (bodies(store), bodies(store, "U")) == ([b"one", b"two"], [])
    put(store, "four")
    assert bodies(store) == [b"one", b"two"]
    store.confirm(store.commit_log.end)
    assert (bodies(store), bodies(store, "U")) == ([b"one", b"two", b"three", b"four"], [b"elsewhere"])


def test_a_position_inside_of_a_record_confirms_those_before_it() -> None:
    disk = replicated()
    store = elected(disk)
    put(store, "one")
    whole = store.commit_log.end
    put(store, "two")
    store.confirm(store.commit_log.end - 10)
    assert bodies(store) == [b"one"]
    store.close()
    assert read_checkpoint(disk).confirmed == whole
    assert bodies(elected(disk)) == [b"one"]


def test_what_is_confirmed_later_is_written_down_though_nothing_is_appended() -> None:
    disk = replicated()
    store = elected(disk)
    put(store, "one")
    finish(store.flush_all())
    store.confirm(store.commit_log.end)
    finish(store.flush_all())
    before = disk.operations
    finish(store.flush_all())
    assert disk.operations == before
    store = elected(disk.crash(1))
    assert bodies(store) == [b"one"]


def test_a_power_cut_takes_no_more_from_readers_than_from_the_log() -> None:
    for seed in range(20):
        disk = replicated()
        store = elected(disk)
        put(store, "one")
        store.confirm(confirmed := store.commit_log.end)
        finish(store.flush_all())
        put(store, "two")
        store.confirm(store.commit_log.end)
        store = elected(disk.crash(seed))
        assert confirmed <= store.readable.value <= store.commit_log.end
        assert bodies(store)[:1] == [b"one"]


def test_a_store_without_epochs_shows_all_of_it() -> None:
    disk = SimulatedDisk()
    lone = opened(disk)
    put(lone, "one", "two")
    lone.close()
    store = elected(disk)
    assert bodies(store) == [b"one", b"two"]
    put(store, "three")
    assert bodies(store) == [b"one", b"two"]


def test_what_is_confirmed_and_not_synced_waits_for_the_sync_where_that_is_promised() -> None:
    store = elected(replicated(), FlushMode.SYNC)
    put(store, "one")
    store.confirm(store.commit_log.end)
    assert bodies(store) == []
    finish(store.flush_log())
    assert bodies(store) == [b"one"]
