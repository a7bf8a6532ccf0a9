"""The timer's files: Java's layouts, and that a kill or power cut at any step loses and repeats nothing."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from pyromq.store.files.real_disk import RealDisk
from pyromq.store.timer.timer_log import UNIT_BYTES, TimerLog
from pyromq.store.timer.timer_state import read_check, read_state
from pyromq.store.timer.timer_store import TimedRecord, TimerSettings, TimerStore
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk

NOW = 1_700_000_000_000
SMALL = TimerSettings(wheel_slots=2 * 3600, log_file_bytes=4096)


def opened(disk: SimulatedDisk, now_ms: int = NOW, settings: TimerSettings = SMALL) -> TimerStore:
    return TimerStore(disk, settings, now_ms, lambda position: None)


def message(number: int, ahead_s: int, *, recalls: bool = False, now_ms: int = NOW) -> TimedRecord:
    return TimedRecord(number, 1000 + number * 100, 100, now_ms + ahead_s * 1000, "T", 84, recalls)


def drain(store: TimerStore, until_ms: int) -> list[tuple[int, list[int]]]:
    """Slots that are due, with the places of their messages' records."""
    found = []
    while (slot := store.next_slot_ms()) is not None and slot + 1000 <= until_ms:
        due = store.take(slot)
        assert due is not None
        found.append(((slot - NOW) // 1000, [unit.record_position for unit in store.units(due.messages.tolist())]))
        store.done(slot)
    return found


def test_slots_come_in_order_of_time_and_messages_in_order_of_arrival() -> None:
    store = opened(SimulatedDisk())
    assert store.add([message(0, 5), message(1, 3), message(2, 5), message(3, 5)], NOW) == 4
    assert store.next_slot_ms() == NOW + 3000
    assert store.waiting == 4
    assert drain(store, NOW + 4000) == [(3, [1100])]
    assert drain(store, NOW + 5999) == []
    assert drain(store, NOW + 6000) == [(5, [1000, 1200, 1300])]
    assert store.waiting == 0
    assert store.next_slot_ms() is None


def test_what_is_due_already_waits_in_the_first_slot_that_was_not_read() -> None:
    store = opened(SimulatedDisk())
    store.add([message(0, 1)], NOW)
    drain(store, NOW + 10_000)
    store.passed(NOW + 10_000)
    store.add([message(1, 2)], NOW + 10_000)
    assert store.next_slot_ms() == NOW + 9_000
    assert drain(store, NOW + 10_000) == [(9, [1100])]


def test_a_recall_is_found_beside_the_messages_and_counts_one_less() -> None:
    store = opened(SimulatedDisk())
    store.add([message(0, 5), message(1, 5), message(2, 5, recalls=True)], NOW)
    due = store.take(NOW + 5000)
    assert due is not None
    assert len(due.messages) == 2
    assert [unit.record_position for unit in store.units(due.recalls.tolist())] == [1200]
    assert store.waiting == 1


def test_far_ahead_it_comes_by_on_the_way() -> None:
    settings = TimerSettings(wheel_slots=2 * 3600, roll_slots=1200, log_file_bytes=4096)
    store = opened(SimulatedDisk(), settings=settings)
    store.add([message(0, 1199), message(1, 1200), message(2, 1599), message(3, 1600), message(4, 10**9)], NOW)
    slots = []
    while (slot := store.next_slot_ms()) is not None:
        due = store.take(slot)
        assert due is not None
        units = store.units(due.messages.tolist())
        slots.append(((slot - NOW) // 1000, [(unit.record_position, unit.is_roll) for unit in units]))
        store.done(slot)
    assert slots == [(600, [(1100, True), (1200, True)]), (1199, [(1000, False)]), (1200, [(1300, True), (1400, True)])]


def test_the_wheel_refuses_to_turn_onto_what_was_not_delivered() -> None:
    store = opened(SimulatedDisk())
    store.add([message(0, 5)], NOW)
    later = NOW + 7000 * 1000
    assert store.add([message(1, 7100), message(2, 7300)], later) == 1
    assert drain(store, later) == [(5, [1000])]
    store.passed(later)
    assert store.add([message(2, 7300)], later) == 1


def test_a_stop_and_a_start_keep_everything() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.add([message(number, 2 + number % 50) for number in range(500)], NOW)
    drain(store, NOW + 10_000)
    store.close(NOW + 10_000)
    again = opened(disk, NOW + 10_000)
    assert again.waiting == 500 - sum(1 for number in range(500) if number % 50 < 8)
    assert again.queue_offset == 500
    left = [position for _, positions in drain(again, NOW + 100_000) for position in positions]
    assert sorted(left) == [1000 + number * 100 for number in range(500) if number % 50 >= 8]


@pytest.mark.parametrize("seed", range(25))
def test_a_power_cut_at_any_step_leaves_what_can_be_read_on(seed: int) -> None:
    """The queue is the truth: what the state does not cover is added again, what it covers is there exactly once."""
    disk = SimulatedDisk()
    store = opened(disk)
    disk.cut_power_after(3 + seed * 3)
    try:
        for number in range(0, 400, 8):
            store.add([message(number + n, 20 + (number * 7 + n) % 40) for n in range(8)], NOW + number)
            if number % 32 == 0:
                store.flush(NOW + number)
    except PowerCut:
        pass
    after = opened(disk.crash(seed))
    added = after.queue_offset
    after.add([message(n, 20 + (n // 8 * 8 * 7 + n % 8) % 40) for n in range(added, 400)], NOW + 500)
    left = [position for _, positions in drain(after, NOW + 100_000) for position in positions]
    assert sorted(left) == [1000 + number * 100 for number in range(400)]


def test_after_a_kill_between_two_flushes_the_unflushed_is_added_again_and_once() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.add([message(0, 5)], NOW)
    store.flush(NOW)
    store.add([message(1, 5)], NOW)
    after = opened(disk.kill())
    assert after.queue_offset == 1
    after.add([message(1, 5)], NOW)
    assert drain(after, NOW + 10_000) == [(5, [1000, 1100])]


@pytest.mark.parametrize("damage", ["wheel gone", "wheel short", "log gone", "slot points nowhere", "precision"])
def test_files_that_do_not_fit_together_are_made_anew_from_the_topic(damage: str) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.add([message(0, 5), message(1, 6)], NOW)
    store.close(NOW)
    settings = SMALL
    if damage == "wheel gone":
        disk.remove("timerwheel")
    elif damage == "wheel short":
        disk.open("timerwheel").truncate(100)
    elif damage == "log gone":
        disk.remove("timerlog/00000000000000000000")
    elif damage == "precision":
        settings = TimerSettings(precision_ms=500, wheel_slots=2 * 3600, log_file_bytes=4096)
    else:
        index = (NOW // 1000 + 5) % (2 * 3600)
        disk.open("timerwheel").pwrite(index * 32 + 16, (1 << 40).to_bytes(8, "big"))
    after = opened(disk, settings=settings)
    assert (after.queue_offset, after.known_before) == (0, 2)
    after.add([message(0, 5), message(1, 6)], NOW)
    assert [positions for _, positions in drain(after, NOW + 10_000)] == [[1000], [1100]]


def test_a_chain_that_is_broken_is_noticed_when_its_slot_comes() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.add([message(0, 5), message(1, 5)], NOW)
    store.close(NOW)
    disk.flip_bit("timerlog/00000000000000000000", 3)
    after = opened(disk)
    slot = after.next_slot_ms()
    assert slot == NOW + 5000
    assert after.take(slot) is None
    assert after.queue_offset == 0
    assert after.next_slot_ms() is None


def test_what_was_carried_forward_is_asked_for_once_and_its_files_go() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.add([message(number, 100) for number in range(200)], NOW)
    assert [unit.record_position for unit in store.pending_before(1500, 0, 10)] == [1000, 1100, 1200, 1300, 1400]
    first = store.pending_before(1000 + 200 * 100, 0, 150)
    rest = store.pending_before(1000 + 200 * 100, first[-1].position + UNIT_BYTES, 150)
    assert (len(first), len(rest)) == (150, 50)
    store.carried(1000 + 150 * 100, NOW)
    assert "00000000000000000000" not in disk.list("timerlog")
    assert [unit.record_position for unit in store.pending_before(1 << 40, 0, 1)] == [1000 + 150 * 100]
    after = opened(disk.kill())
    assert after.carried_to == 1000 + 150 * 100
    due = after.take(NOW + 100_000)
    assert due is not None
    assert due.messages  # the chain ends where its files are gone


def test_java_finds_its_own_checkpoint() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.add([message(0, 5)], NOW)
    store.close(NOW + 7)
    check = read_check(disk)
    assert check is not None
    assert (check.log_end, check.queue_offset, check.master_queue_offset) == (UNIT_BYTES, 1, 1)
    assert check.read_ms == NOW
    assert disk.size("config/timercheck") == 4096
    assert read_state(disk) is not None


def test_a_store_without_timers_gets_no_files() -> None:
    disk = SimulatedDisk()
    opened(disk).close(NOW)
    assert disk.list() == []


def test_memory_does_not_grow_with_what_waits(tmp_path: Path) -> None:
    store = TimerStore(RealDisk(tmp_path), TimerSettings(wheel_slots=2 * 3600), NOW, lambda position: None)

    def held_after(start: int, end: int) -> int:
        for first in range(start, end, 1000):
            store.add([message(number, 1 + number % 3000) for number in range(first, first + 1000)], NOW)
            store.flush(NOW)
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        few = held_after(0, 3_000)
        many = held_after(3_000, 60_000)
    finally:
        tracemalloc.stop()
    assert store.waiting == 60_000
    assert many - few < 57_000 * 8  # less than a pointer for each; coverage and other threads hold a little, too


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_start_does_not_look_at_all_that_waits(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(0, 4000, 100):
        store.add([message(number + n, 10 + n) for n in range(100)], NOW)
        store.flush(NOW)
    if how == "stop":
        store.close(NOW)
    else:
        disk = disk.kill()
    looked: list[int] = []
    unit = TimerLog._unit

    def counted(raw: bytes, position: int) -> object:
        looked.append(position)
        return unit(raw, position)

    monkeypatch.setattr(TimerLog, "_unit", staticmethod(counted))
    assert opened(disk).waiting == 4000
    assert len(looked) <= (0 if how == "stop" else 200)


def test_a_log_file_ends_as_java_ends_it() -> None:
    disk = SimulatedDisk()
    log = TimerLog(disk, 4096)
    positions = [log.append(-1, 1, NOW, 1000, (number, 1), 0) for number in range(80)]
    log.write()
    assert positions[77] == 4004
    assert positions[78] == 4096
    end = disk.open("timerlog/00000000000000000000").pread(4056, 16)
    assert end == (40).to_bytes(4, "big") + bytes(8) + bytes.fromhex("cbd43194")
    assert [unit.record_position for unit in log.scan(0, log.end)] == list(range(80))


def test_a_topic_that_ends_before_what_was_read_is_read_anew() -> None:
    """A backup of a running broker: the timer's files are from a later moment than the log."""
    disk = SimulatedDisk()
    store = opened(disk)
    store.add([message(0, 5), message(1, 6), message(2, 6)], NOW)
    store.close(NOW)
    after = opened(disk)
    after.fit_to(2)
    assert (after.queue_offset, after.known_before, after.waiting) == (0, 2, 0)
    after.add([message(0, 5), message(1, 6)], NOW)
    assert [positions for _, positions in drain(after, NOW + 10_000)] == [[1000], [1100]]
