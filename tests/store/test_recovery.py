"""Opening what a stop left: every way in which files can be missing, short, torn, damaged or ahead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from pyromq.errors import ConfigError
from pyromq.protocol.record import Record, encode_record
from pyromq.store.errors import StoreDamaged
from pyromq.store.files.disk import read_whole
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery.checkpoint import ABORT_FILE, CHECKPOINT_FILE, Checkpoint, CheckpointFile
from pyromq.store.recovery.derived_files import read_derived
from pyromq.store.recovery.store_state import MissingRange
from pyromq.store.tools.by_hand import accept_loss
from pyromq.store.tools.findings import Level
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk
from tests.store.small import SMALL, bodies, by_key, flip, log_file, message, opened, put

WHOLE = [b"%03d" % number * 100 for number in range(60)]  # 300 bytes each: four log files


def filled(disk: SimulatedDisk, *, keys: bool = True) -> tuple[MessageStore, list[int]]:
    """Sixty messages over two queues; the positions of all of them."""
    store = opened(disk)
    positions = []
    for number, body in enumerate(WHOLE):
        positions.append(store.put([message(body, queue_id=number % 2, keys=f"k{number}" if keys else "")])[0].position)
    return store, positions


def all_bodies(store: MessageStore) -> list[bytes]:
    return sorted(bodies(store, queue_id=0) + bodies(store, queue_id=1))


def assert_whole(disk: SimulatedDisk, missing: tuple[int, ...] = ()) -> MessageStore:
    """Open it, find everything but what is missing, also by key and after another life."""
    store = opened(disk)
    assert all_bodies(store) == [body for number, body in enumerate(WHOLE) if number not in missing]
    for number in range(len(WHOLE)):
        found = [record.body for record in by_key(store, "T", f"k{number}")]
        assert found == ([] if number in missing else [WHOLE[number]]), number
    for queue in store.queues:
        assert queue.next_offset == 30
    return store


def killed(disk: SimulatedDisk) -> SimulatedDisk:
    return disk.kill()


# -- clean and unclean stops -------------------------------------------------------------------------------------------


def test_after_a_clean_stop_only_the_end_is_looked_at() -> None:
    disk = SimulatedDisk()
    filled(disk)[0].close()
    store = assert_whole(disk)
    assert store.recovery.clean_stop
    assert store.recovery.records == 1


def test_after_a_kill_everything_appended_is_there_467_501() -> None:
    disk = SimulatedDisk()
    filled(disk)
    store = assert_whole(disk.kill())
    assert not store.recovery.clean_stop
    assert store.recovery.records == 60


def test_after_a_kill_the_scan_begins_at_the_checkpoint() -> None:
    disk = SimulatedDisk()
    store, positions = filled(disk)
    store.flush_now()
    put(store, "after the checkpoint")
    recovered = opened(disk.kill())
    assert recovered.recovery.start == positions[-1]
    assert recovered.recovery.records == 2


def test_more_than_the_last_file_is_dispatched_again_1434() -> None:
    disk = SimulatedDisk()
    store, _ = filled(disk)
    disk = disk.kill()
    assert len(store.commit_log.sequence.bases) >= 2
    for name in disk.list("consumequeue/T/0"):
        disk.remove(f"consumequeue/T/0/{name}")
    assert_whole(disk)


def test_opening_twice_is_opening_once() -> None:
    disk = SimulatedDisk()
    filled(disk)
    disk = disk.kill()
    opened(disk).close()
    before = verify_store(disk, SMALL)
    assert before.exit_code == Level.NOTE
    assert_whole(disk).close()
    assert_whole(disk)


def test_a_power_cut_at_any_moment_of_recovery_loses_nothing() -> None:
    disk = SimulatedDisk()
    store, positions = filled(disk)
    store.flush_now()
    for name in disk.list("consumequeue/T/1"):
        disk.remove(f"consumequeue/T/1/{name}")  # recovery has something to rebuild
    disk.sync_folder("consumequeue/T/1")
    start = disk.kill()
    for moment in range(1, 2000, 7):
        broken = start.crash(moment)
        broken.cut_power_after(moment)
        try:
            opened(broken)
        except PowerCut:
            recovered = opened(broken.crash(moment))
            assert {record.body for record in _records(recovered, positions)} == set(WHOLE)
            assert all_bodies(recovered) == WHOLE
        else:
            assert_whole(broken.kill())
            return
    pytest.fail("recovery took more steps than expected")


def _records(store: MessageStore, positions: list[int]) -> list[Record]:
    return [record for position in positions if (record := store.reader.record_at(position)) is not None]


# -- torn tails --------------------------------------------------------------------------------------------------------


def test_a_torn_tail_ends_the_log_and_its_offset_is_given_again() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, "a" * 100)
    store.flush_now()
    (torn,) = put(store, "b" * 100)
    disk = disk.kill()
    flip(disk, torn + 100)
    recovered = opened(disk)
    assert bodies(recovered) == [b"a" * 100]
    assert recovered.recovery.torn is not None
    assert put(recovered, "c") == [torn]
    assert bodies(recovered) == [b"a" * 100, b"c"]


def test_what_is_cut_off_is_kept_aside() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, "a")
    store.flush_now()
    torn, behind = put(store, "b" * 100, "behind it")
    end = store.commit_log.end
    disk = disk.kill()
    flip(disk, torn + 100)
    before = disk.open(log_file(0)).pread(torn, end - torn)
    recovered = opened(disk)
    assert recovered.recovery.truncated_copy == f"pyromq/cut-off/{torn:020d}"
    assert read_whole(disk, recovered.recovery.truncated_copy) == before.rstrip(b"\0")
    assert recovered.reader.record_at(behind) is None


def test_stale_bytes_behind_a_truncation_are_not_adopted_10666_10816() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, "a" * 100)
    store.flush_now()
    first, second, third = put(store, "b" * 100, "stale", "stale too")
    disk = disk.kill()
    flip(disk, first + 100)
    recovered = opened(disk)
    put(recovered, "c" * 100)  # as long as the torn one: what is behind it would fit
    again = opened(disk.kill())
    assert bodies(again) == [b"a" * 100, b"c" * 100]
    assert again.reader.record_at(second) is None
    assert again.reader.record_at(third) is None


def test_torn_properties_are_a_torn_record_7437() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    place = store.put([message("a", keys="some-key")])[0]
    disk = disk.kill()
    disk.open(log_file(0)).pwrite(place.end - 40, bytes(40))
    assert opened(disk).commit_log.end == 0


# -- damage in the middle ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [killed, None])
@pytest.mark.parametrize("inside", [0, 5, 30, 100])  # size, magic, physical offset, body
def test_damage_below_the_synced_position_is_stepped_over(
    stop: Callable[[SimulatedDisk], SimulatedDisk] | None, inside: int
) -> None:
    disk = SimulatedDisk()
    store, positions = filled(disk)
    store.flush_now()
    if stop is None:
        store.close()
    else:
        disk = stop(disk)
    flip(disk, positions[20] + inside)
    recovered = opened(disk)
    assert all_bodies(recovered) == [body for number, body in enumerate(WHOLE) if number != 20]
    assert recovered.queues.get("T", 0).next_offset == 30  # type: ignore[union-attr]
    assert verify_store(disk, SMALL).exit_code == Level.DAMAGE


def test_damage_behind_the_checkpoint_but_synced_costs_that_record_alone() -> None:
    disk = SimulatedDisk()
    store, positions = filled(disk)
    store.flush_now()
    disk = disk.kill()
    CheckpointFile(disk).save(Checkpoint())  # recovery looks at everything
    flip(disk, positions[20] + 100)
    recovered = opened(disk)
    assert [gap.position for gap in recovered.recovery.damage] == [positions[20]]
    assert all_bodies(recovered) == [body for number, body in enumerate(WHOLE) if number != 20]
    assert recovered.queues.get("T", 0).next_offset == 30  # type: ignore[union-attr]
    put(recovered, "next")
    assert bodies(recovered)[-1] == b"next"


def test_a_missing_file_in_the_middle_costs_its_records_alone() -> None:
    disk = SimulatedDisk()
    store, positions = filled(disk)
    store.close()
    disk.remove(log_file(8192))
    with pytest.raises(StoreDamaged, match=r"lack 8192 to 16384\..*accept-loss"):
        opened(disk)
    assert accept_loss(disk, SMALL) == [MissingRange(8192, 16384)]
    recovered = opened(disk)
    left = [body for body, position in zip(WHOLE, positions, strict=True) if not 8192 <= position < 16384]
    assert 0 < len(left) < 60
    assert all_bodies(recovered) == left
    assert recovered.commit_log.end == store.commit_log.end
    assert {queue.next_offset for queue in recovered.queues} == {30}


# -- derived files -----------------------------------------------------------------------------------------------------


def remove_queue(disk: SimulatedDisk) -> None:
    for name in disk.list("consumequeue/T/0"):
        disk.remove(f"consumequeue/T/0/{name}")
    disk.remove_folder("consumequeue/T/0")


def remove_all_queues(disk: SimulatedDisk) -> None:
    for queue in disk.list("consumequeue/T"):
        for name in disk.list(f"consumequeue/T/{queue}"):
            disk.remove(f"consumequeue/T/{queue}/{name}")


def cut_queue(disk: SimulatedDisk) -> None:
    disk.open(f"consumequeue/T/0/{0:020d}").truncate(123)


def zero_queue(disk: SimulatedDisk) -> None:
    disk.open(f"consumequeue/T/0/{0:020d}").pwrite(0, bytes(800))


def remove_index(disk: SimulatedDisk) -> None:
    for name in disk.list("index"):
        disk.remove(f"index/{name}")


def remove_one_index_file(disk: SimulatedDisk) -> None:
    disk.remove(f"index/{disk.list('index')[0]}")


def remove_checkpoint(disk: SimulatedDisk) -> None:
    disk.remove(CHECKPOINT_FILE)


def empty_checkpoint(disk: SimulatedDisk) -> None:
    disk.open(CHECKPOINT_FILE).truncate(0)


def remove_everything_derived(disk: SimulatedDisk) -> None:
    remove_all_queues(disk)
    remove_index(disk)
    remove_checkpoint(disk)


def stray_files(disk: SimulatedDisk) -> None:
    for name in ("commitlog/readme.txt", "consumequeue/T/0/x", "consumequeue/T/readme", "index/notes", "commitlog/7"):
        disk.open(name, create=True).pwrite(0, b"stray")


FAULTS = [
    remove_queue,
    remove_all_queues,
    cut_queue,
    remove_index,
    remove_one_index_file,
    remove_checkpoint,
    empty_checkpoint,
    remove_everything_derived,
    stray_files,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_derived_files_that_are_gone_after_a_clean_stop_are_written_again(
    fault: Callable[[SimulatedDisk], None],
) -> None:
    disk = SimulatedDisk()
    filled(disk)[0].close()
    fault(disk)
    assert_whole(disk).close()
    assert verify_store(disk, SMALL).exit_code == Level.NOTE


def one_bit_behind_the_last_entry(disk: SimulatedDisk) -> None:
    newest = f"consumequeue/T/0/{disk.list('consumequeue/T/0')[-1]}"
    inside = 30 * 20 - int(newest.rpartition("/")[2])
    disk.flip_bit(newest, inside + 11, 0)  # the size of an entry that is not there


def noise_in_a_queue(disk: SimulatedDisk) -> None:
    name = f"consumequeue/T/0/{disk.list('consumequeue/T/0')[-1]}"
    disk.open(name).pwrite(0, Random(7).randbytes(disk.size(name)))


@pytest.mark.parametrize("fault", [one_bit_behind_the_last_entry, noise_in_a_queue], ids=lambda fault: fault.__name__)
def test_bytes_behind_a_queue_s_last_entry_are_not_taken_for_entries(fault: Callable[[SimulatedDisk], None]) -> None:
    disk = SimulatedDisk()
    filled(disk)[0].close()
    fault(disk)
    store = opened(disk)
    assert store.put([message("next", queue_id=0)])[0].queue_offset == 30
    assert [body for body in all_bodies(store) if body != b"next"] == WHOLE
    store.close()
    assert verify_store(disk, SMALL).exit_code == Level.NOTE


UNCLEAN_FAULTS = [
    remove_all_queues,
    cut_queue,
    remove_checkpoint,
    empty_checkpoint,
    remove_everything_derived,
    stray_files,
]


@pytest.mark.parametrize("fault", [*UNCLEAN_FAULTS, zero_queue], ids=lambda fault: fault.__name__)
def test_derived_files_that_are_gone_after_a_kill_are_written_again(fault: Callable[[SimulatedDisk], None]) -> None:
    disk = SimulatedDisk()
    filled(disk)
    disk = disk.kill()
    fault(disk)
    assert_whole(disk).close()
    assert verify_store(disk, SMALL).exit_code == Level.NOTE


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_derived_files_below_the_checkpoint_that_are_gone_after_a_kill_are_written_again(
    fault: Callable[[SimulatedDisk], None],
) -> None:
    disk = SimulatedDisk()
    store, _ = filled(disk)
    store.flush_now()  # the checkpoint counts on all of them
    disk = disk.kill()
    fault(disk)
    assert_whole(disk).close()
    assert verify_store(disk, SMALL).exit_code == Level.NOTE


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("lives", [1, 2])
def test_each_file_of_a_queue_is_missed_after_a_kill(number: int, lives: int) -> None:
    disk = SimulatedDisk()
    for _ in range(lives):
        store = opened(disk)
        for body in range(100 // lives):
            put(store, str(body))
        store.flush_now()
        disk = disk.kill()
    disk.remove(f"consumequeue/T/0/{number * SMALL.queue_file_bytes:020d}")
    store = opened(disk)
    assert [record.decode() for record in bodies(store)] == [str(body) for body in range(100 // lives)] * lives
    assert store.recovery.rebuilt == [("T", 0)]


@pytest.mark.parametrize("position", [1 << 49, 3])
def test_a_damaged_last_entry_of_a_queue_is_not_taken_for_a_torn_one(position: int) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, "first", "second", "last of its queue")
    for body in range(60):
        put(store, str(body) * 100, queue_id=1)
    store.flush_now()
    disk = disk.kill()
    disk.open(f"consumequeue/T/0/{0:020d}").pwrite(2 * 20, position.to_bytes(8, "big"))
    store = opened(disk)
    assert bodies(store) == [b"first", b"second", b"last of its queue"]
    put(store, "next")
    assert bodies(store)[3:] == [b"next"]


async def test_what_expired_or_was_deleted_is_not_missed_after_a_kill() -> None:
    disk = SimulatedDisk()
    store, _ = filled(disk)
    put(store, "other", topic="gone")
    for body in range(100):
        put(store, str(body) * 100)
    store.queues.remove_topic("gone")
    while len(store.log_files()) > 1:
        await store.drop_oldest_log_file()
    await store.flush_all()
    disk = disk.kill()
    store = opened(disk)
    assert store.recovery.rebuilt == []
    assert store.recovery.start > store.commit_log.start
    assert store.queues.get("gone", 0) is None


def test_a_torn_line_in_the_list_of_files_does_not_count() -> None:
    disk = SimulatedDisk()
    store, _ = filled(disk)
    store.flush_now()
    disk = disk.kill()
    names = read_derived(disk)
    assert f"consumequeue/T/1/{0:020d}" in names
    file = disk.open("pyromq/derived")
    file.pwrite(file.size() - 3, bytes(3))
    assert len(read_derived(disk)) == len(names) - 1
    assert_whole(disk)


def test_queue_order_is_the_order_of_the_log_7355_7599() -> None:
    disk = SimulatedDisk()
    filled(disk)
    recovered = opened(disk.kill())
    for queue in recovered.queues:
        places = [entry.position for offset in range(queue.next_offset) if (entry := queue.entry_at(offset))]
        assert places == sorted(places)
        assert len(set(places)) == 30
        for offset, position in enumerate(places):
            record = recovered.reader.record_at(position)
            assert record is not None
            assert record.queue_offset == offset


def test_queues_ahead_of_the_log_are_cut_6609() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, "a", "b")
    store.flush_now()
    (lost,) = put(store, "lost")
    disk = disk.kill()
    disk.open(log_file(0)).pwrite(lost, bytes(300))  # the log's page was lost, the queue's was not
    recovered = opened(disk)
    assert bodies(recovered) == [b"a", b"b"]
    assert recovered.queues.get("T", 0).next_offset == 2  # type: ignore[union-attr]
    recovered.close()
    assert verify_store(disk, SMALL).exit_code == Level.NOTE


def test_messages_without_keys_need_no_index_and_no_long_scan() -> None:
    disk = SimulatedDisk()
    filled(disk, keys=False)[0].close()
    store = opened(disk)
    assert store.recovery.records == 1


# -- files of a wrong size, other sizes, other times -------------------------------------------------------------------


def test_a_last_file_that_was_not_allocated_whole_is_made_whole() -> None:
    disk = SimulatedDisk()
    store, _ = filled(disk)
    base = store.commit_log.sequence.limit
    disk = disk.kill()
    disk.open(f"commitlog/{base:020d}", create=True).truncate(100)
    assert_whole(disk)


OTHER_SIZES = [
    ("mappedFileSizeCommitLog", 16384, {"commit_log_file_bytes": 16384}, False),
    ("mappedFileSizeConsumeQueue", 2000, {"queue_file_bytes": 2000}, False),
    ("maxIndexNum", 100, {"index_entries": 100}, False),
    ("mappedFileSizeCommitLog", 16384, {"commit_log_file_bytes": 16384}, True),
    ("mappedFileSizeConsumeQueue", 2000, {"queue_file_bytes": 2000}, True),
]


@pytest.mark.parametrize(("key", "value", "other", "by_java"), OTHER_SIZES)
def test_a_store_of_another_size_is_refused_by_name(key: str, value: int, other: dict[str, int], by_java: bool) -> None:
    disk = SimulatedDisk()
    filled(disk)[0].close()
    if by_java:
        as_javas(disk, clean=True)
    operations = disk.operations
    with pytest.raises(ConfigError, match=f"{key} = {value}: .* was written with"):
        opened(disk, replace(SMALL, **other))  # type: ignore[arg-type]
    assert disk.operations == operations  # refused before anything was changed
    assert_whole(disk)


def test_a_clock_that_stepped_back_over_the_stop_changes_no_order() -> None:
    disk = SimulatedDisk()
    clock = ManualClock()
    store = opened(disk, clock=clock)
    put(store, "a")
    time = store.commit_log.tail.last_time
    store.close()
    clock.step_wall(-3600)
    again = opened(disk, clock=clock)
    assert again.put([message("b")])[0].store_time == time
    assert bodies(again) == [b"a", b"b"]


def test_an_empty_store_opens() -> None:
    store = opened(SimulatedDisk())
    assert (store.commit_log.end, store.recovery.records) == (0, 0)
    store.close()


# -- stores that only Java wrote ---------------------------------------------------------------------------------------


def as_javas(disk: SimulatedDisk, *, clean: bool) -> None:
    """The same store without what Java does not know."""
    for name in disk.list("pyromq"):
        disk.remove(f"pyromq/{name}")
    if not clean:
        abort = disk.open(ABORT_FILE, create=True)
        abort.truncate(0)
        abort.pwrite(0, b"4711")


@pytest.mark.parametrize("position", [0, 12_000])
def test_a_killed_java_store_with_any_checkpoint(position: int) -> None:
    disk = SimulatedDisk()
    filled(disk)[0].flush_now()
    disk = disk.kill()
    as_javas(disk, clean=False)
    CheckpointFile(disk).save(Checkpoint(queues_position=position))
    assert_whole(disk)


def test_in_a_java_store_records_behind_damage_are_kept_where_queues_know_them() -> None:
    disk = SimulatedDisk()
    _, positions = filled(disk)
    disk = disk.kill()
    as_javas(disk, clean=False)
    flip(disk, positions[50] + 100)
    recovered = opened(disk)
    assert all_bodies(recovered) == [body for number, body in enumerate(WHOLE) if number != 50]


def test_in_a_java_store_old_bytes_behind_the_end_are_told_by_their_time() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, "a")
    end = store.commit_log.end
    store.close()
    as_javas(disk, clean=True)
    stale = Record(topic="T", queue_id=0, body=b"stale", queue_offset=1, physical_offset=end, store_timestamp=1)
    disk.open(log_file(0)).pwrite(end, encode_record(stale))
    recovered = opened(disk)
    assert bodies(recovered) == [b"a"]
    assert recovered.commit_log.end == end


@pytest.mark.parametrize("clean", [True, False])
def test_when_java_wrote_in_between_our_own_mark_does_not_count(clean: bool) -> None:
    disk = SimulatedDisk()
    store, positions = filled(disk)
    store.close()
    CheckpointFile(disk).save(Checkpoint(log_time_ms=1))  # what a Java broker leaves behind
    if not clean:
        disk.open(ABORT_FILE, create=True).pwrite(0, b"4711")
    disk.open(log_file(positions[58])).pwrite(positions[58] % 8192, bytes(8192 - positions[58] % 8192))
    recovered = opened(disk)
    assert recovered.commit_log.end == positions[58]
    assert put(recovered, "next") == [positions[58]]


@pytest.mark.parametrize("name", ["checkpoint", "pyromq/synced", "pyromq/catalogue"])
def test_marks_that_cannot_be_read_cost_nothing_and_are_told(name: str, caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    filled(disk)[0].close()
    disk.open(name).pwrite(0, b"garbage!" * 5)
    assert_whole(disk).close()
    assert any("our marks do not count" in line.getMessage() for line in caplog.records)
    assert verify_store(disk, SMALL).exit_code == Level.NOTE
